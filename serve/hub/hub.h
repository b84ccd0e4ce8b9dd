// The API of the Hugging Face Hub, for its clients: HF_ENDPOINT=http://HOST:PORT makes the models of a server
// repositories. (docs/serve.md; huggingface_hub, hf_api.py and file_download.py)
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "fs/http/protocol/message.h"
#include "fs/http/protocol/target.h"
#include "fs/http/site.h"
#include "serve/api/results.h"
#include "serve/digests/file_digests.h"
#include "serve/hub/mirror.h"
#include "serve/hub/repositories.h"

namespace weightfs::hub {

/// What a server of the models of another Hub has besides.
struct Mirrored {
  std::shared_ptr<Mirror> mirror = nullptr;  ///< null: there are none
  /// Responds with bytes that are not in the tree: Site::source().
  std::function<httpd::Response(const httpd::Request&, SourcePtr, const std::string& name, const httpd::FileFields&)>
      send = {};
};

/// Callable from any thread. The forest must outlive it.
class Hub {
 public:
  /// Responds with the bytes of a file of the tree: Site::file().
  using SendFile =
      std::function<httpd::Response(const httpd::Request&, Ino, const std::string& name, const httpd::FileFields&)>;

  /// `scheme`: of the URLs of the server, "http" or "https". `digests` computes those that a client asks for by the
  /// path of a large local file; null: they stay unknown.
  Hub(Forest& forest, std::string scheme, SendFile send_file, Mirrored mirrored = {},
      digests::FileDigests* digests = nullptr);

  /// The bytes that the body of a POST to a target may have; 0 if it takes none.
  static size_t max_body(const httpd::Target& target);

  /// The response for a path of the Hub's API; nothing for any other. What the tree has at the path of a repository
  /// that does not exist is of the tree.
  /// `has_left`: whether the client has gone; null: not known.
  std::optional<httpd::Accepted<httpd::Response>> answer(const httpd::Request& request, const httpd::Target& target,
                                                         const std::function<bool()>& has_left = {});

 private:
  struct Call;
  struct Route;
  static const Route* find(const httpd::Target& target);
  static bool is_method_of(const Route& route, const httpd::Request& request);
  static httpd::Response wrong_method(const Route& route);

  httpd::Accepted<httpd::Response> answer(const Route& route, Call call, bool may_be_of_tree, bool& is_of_tree);
  httpd::Accepted<httpd::Response> answer_mirrored(const Route& route, Call call);
  httpd::Accepted<RepositoryFile> with_digest(const Call& call, const RepositoryFile& file);
  httpd::Accepted<httpd::Response> send_mirrored(const Call& call, const RepositoryFile& file);
  httpd::Accepted<httpd::Response> describe(const Call& call);
  httpd::Accepted<httpd::Response> list_references(const Call& call);
  httpd::Accepted<httpd::Response> list_tree(const Call& call);
  httpd::Accepted<httpd::Response> list_paths(const Call& call);
  httpd::Accepted<httpd::Response> send(const Call& call);
  httpd::Accepted<httpd::Response> send_raw(const Call& call);
  httpd::Accepted<httpd::Response> json(const Call& call, std::string text);
  bool is_in_tree(const std::string& name);
  bool is_mirrored(const Repository& repository) const;
  std::string next_page(const Call& call, size_t cursor) const;

  Forest& forest_;
  const std::string scheme_;
  const SendFile send_file_;
  const Mirrored mirrored_;
  digests::FileDigests* const digests_;
  Repositories repositories_;
  std::mutex building_;      // held while a list of files is made: only texts that are sent have their memory counted
  api::Results results_{0};  // counts the bytes of the responses
};

/// The response for a request that the Hub refuses, with its code ("EntryNotFound"), which may be empty. One of status
/// 503 or 504 may be repeated after a time.
httpd::Response refusal(int status, const std::string& code, const std::string& message);

}  // namespace weightfs::hub
