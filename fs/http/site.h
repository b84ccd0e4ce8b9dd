// Answers requests for the paths of a forest. It knows nothing of formats.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "fs/http/access_rules.h"
#include "fs/http/entity.h"
#include "fs/http/protocol/conditions.h"
#include "fs/http/protocol/message.h"
#include "fs/http/server_options.h"
#include "fs/reading/prefetch.h"
#include "fs/tree/forest.h"

namespace weightfs::httpd {

/// What the response with the bytes of a file has besides, for the path of another protocol.
struct FileFields {
  std::string etag = {};  ///< strong, with its quotes; empty: that of the site
  std::vector<Field> fields = {};
  std::optional<Digest> digest = {};  ///< of the bytes; a file of the tree has its own
};

/// A file of the tree as a protocol lists it.
struct FileEntity {
  SourcePtr source;
  Validators validators;
  std::optional<Digest> sha256 = {};  ///< if the container or a manifest states it
};

struct SiteOptions {
  AccessRules access;
  std::string layout;            ///< as EntityTags
  Prefetch* prefetch = nullptr;  ///< is told about reads; null: none
  /// What the client may have meant by a path that does not exist: "; did you mean …?", or nothing.
  std::function<std::string(const std::string& path)> suggest = {};
  /// A request for a file or directory has failed.
  std::function<void(Ino, const Error&)> on_failed = {};
  std::function<void()> on_used = {};  ///< a request for the tree, not for its unlisted directory
  /// Answers what is no path of the tree, before paths are looked up: the page and its API. Nothing: it is a path.
  std::function<std::optional<Accepted<Response>>(const Request&, const Target&, const Client&)> answer_first = {};
  /// The response for a refused request of a protocol whose errors have a form of their own; nothing: a sentence.
  std::function<std::optional<Response>(const Refusal&, const Request&)> refuse_first = {};
  /// How many bytes the body of a POST may have; 0, and null: the target takes no POST. The others are answered by
  /// answer_first.
  std::function<size_t(const Target&)> max_body = {};
  /// Whether a target has nothing of the models, so that it needs no token.
  std::function<bool(const Request&, const Target&)> is_public = {};
};

/// Callable from any thread. The forest must outlive it.
class Site {
 public:
  Site(Forest& forest, SiteOptions options);

  Response answer(const Request& request, const Client& client) const;

  /// For ServerOptions::max_body. 0, too, for a request that is refused: its body is not waited for.
  size_t max_body(const Request& request) const;

  /// What identifies the bytes of a file. Opens it, and fails as that does.
  Result<FileEntity> entity(Ino ino) const;

  /// The response to a GET or HEAD with the bytes of a file of the tree. `name` decides its type.
  Response file(const Request& request, Ino ino, const std::string& name, const FileFields& more = {}) const;

  /// The response with bytes that are not in the tree; their ETag must be given. Failures are reported for the root.
  Response source(const Request& request, SourcePtr source, const std::string& name, const FileFields& more) const;

  /// The response for a request that is refused: a sentence as text, or as JSON for clients that prefer it.
  Response refuse(const Refusal& refusal, const Request* request) const;

 private:
  size_t body_of_post(const Request& request) const;
  bool is_public(const Request& request, const Target& target) const;
  Response answer_any(const Request& request, const Client& client) const;
  Response answer_permitted(const Request& request, const Client& client, const Target& target) const;
  Response answer_resolved(const Request& request, const Client& client, const Target& target, Ino found) const;
  struct Sent;
  Response send(const Request& request, Sent sent, const std::string& name, const FileFields& more) const;
  Response dynamic_file(Ino ino, const std::string& name) const;
  Response directory(const Request& request, const Client& client, Ino ino, const Target& target) const;
  Response failed(const Request& request, Ino ino, const Error& error) const;
  Response missing(const Request& request, const std::string& path) const;
  std::string explained(Ino ino, const Error& error) const;

  Forest& forest_;
  const SiteOptions options_;
  const EntityTags tags_;
};

}  // namespace weightfs::httpd
