// A registry of the models of a server, for reading: the pull category of the OCI distribution-spec 1.1, and what
// Ollama expects besides (server/download.go). Source: opencontainers/distribution-spec, spec.md.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "fs/http/protocol/message.h"
#include "fs/http/protocol/target.h"
#include "serve/digests/file_digests.h"
#include "serve/registry/made.h"
#include "serve/registry/mirror.h"
#include "serve/registry/repositories.h"

namespace weightfs::distribution {

/// Which clients the server lets read.
enum class Readers { all, with_token };

/// Callable from any thread. The forest and the digests must outlive it.
class Registry {
 public:
  /// `mirror` has the repositories that are not in the tree; null: there are none.
  Registry(Forest& forest, const std::string& source, digests::FileDigests& digests, Readers readers,
           std::shared_ptr<Mirror> mirror = nullptr);

  /// The response for a path below /v2/; nothing for any other, and if the tree itself has an entry of this name.
  std::optional<httpd::Response> answer(const httpd::Request& request, const httpd::Target& target,
                                        const std::function<bool()>& has_left);

  /// The response for a refused request for a path below /v2/: errors as JSON, and the challenge of a registry.
  static std::optional<httpd::Response> refuse(const httpd::Refusal& refusal, const httpd::Request& request);

  /// How clients pull from a server at `url`, "http://HOST:PORT/": a line for each.
  std::vector<std::string> invitations(const std::string& url);

 private:
  struct Call;
  struct ManifestBytes;

  httpd::Response answer(const Call& call);
  httpd::Response manifest(const Call& call, const Repository& repository, const std::string& reference);
  httpd::Response blob(const Call& call, const Repository& repository, const std::string& digest);
  std::optional<httpd::Response> answer_mirrored(const Call& call, const std::string& name);
  httpd::Response send_manifest(ManifestBytes found, bool is_final);
  httpd::Response send_blob(const Call& call, const Digest& digest, const SourcePtr& bytes, Ino ino);
  httpd::Response tags(const Call& call, const Repository& repository);
  httpd::Response referrers(const Call& call, const Repository& repository, const std::string& digest);

  Result<std::vector<TaggedModel>> models_in(const Repository& repository);
  Result<ManifestBytes> manifest_of_tag(const Call& call, const Repository& repository, const std::string& tag);
  Result<ManifestBytes> manifest_of_digest(const Call& call, const Repository& repository, const Digest& digest);
  enum class Digests { computed, known };
  Result<MadePtr> made(const Call& call, const Repository& one, Dialect dialect, Digests digests);
  Result<SourcePtr> blob_of_model(const Call& call, const Repository& one, const Digest& digest);
  Result<SourcePtr> find_blob(const Call& call, const Repository& repository, const Digest& digest);
  Result<std::vector<std::string>> tags_of(const Repository& repository);

  struct Kept {
    std::weak_ptr<const Model> model;
    Dialect dialect;
    MadePtr made;
  };
  static constexpr size_t kMaxKept = 16;
  static constexpr size_t kMaxBlobs = 10'000;

  Forest& forest_;
  Repositories repositories_;
  digests::FileDigests& digests_;
  const Readers readers_;
  const std::shared_ptr<Mirror> mirror_;
  std::mutex mutex_;                                          // guards the rest
  std::list<Kept> kept_;                                      // the last used first
  std::unordered_map<std::string, std::string> tag_of_blob_;  // by the inode of a directory of tags, and the digest
};

}  // namespace weightfs::distribution
