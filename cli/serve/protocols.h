// The protocols that a server speaks at its paths, before those of the tree: the page and its API, a registry, an
// object store, and the API of the Hugging Face Hub.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fs/http/access_rules.h"
#include "fs/http/site.h"
#include "serve/api/api.h"
#include "serve/digests/file_digests.h"
#include "serve/hub/hub.h"
#include "serve/page/page.h"
#include "serve/registry/registry.h"
#include "serve/s3/s3.h"

namespace weightfs {

struct ProtocolOptions {
  std::string source;        ///< of the models, as ServerState has it
  bool is_secure = false;    ///< the URLs of the server are https
  bool needs_token = false;  ///< of requests
  bool takes_files = false;  ///< as HttpParams
  std::string assets;        ///< as HttpOptions; an absolute path
  objects::AccessKeys s3_keys = {};
  std::shared_ptr<hub::Mirror> mirror = nullptr;                    ///< of another Hub; null: none
  std::shared_ptr<distribution::Mirror> registry_mirror = nullptr;  ///< of another registry; null: none
  std::shared_ptr<objects::Mirror> object_mirror = nullptr;         ///< of another object store; null: none
  bool is_mirror_only = false;                                      ///< there are no models of its own
  digests::Keeper digests = {};
  std::function<std::string(const std::string& path)> url_of = {};  ///< of a path of the tree
};

/// Reads the keys of --s3-keys. Fails with unsupported for another text than lines `ACCESS_KEY SECRET`, and if users
/// other than this process's and root can read or write the file.
Result<objects::AccessKeys> read_s3_keys(const std::string& path);

/// Callable from any thread. The forest must outlive it, and the site must exist when a request is answered.
class Protocols {
 public:
  Protocols(Forest& forest, ProtocolOptions options, std::function<const httpd::Site&()> site);

  /// As SiteOptions::answer_first, refuse_first, max_body and is_public.
  std::optional<httpd::Accepted<httpd::Response>> answer(const httpd::Request& request, const httpd::Target& target,
                                                         const httpd::Client& client);
  std::optional<httpd::Response> refuse(const httpd::Refusal& refusal, const httpd::Request& request) const;
  static size_t max_body(const httpd::Target& target) { return hub::Hub::max_body(target); }
  bool is_public(const httpd::Request& request, const httpd::Target& target) const;

  /// What a user copies to another shell, a line for each client, of a server at `url`: "http://HOST:PORT/".
  std::vector<std::string> invitations(const std::string& url);

  /// As the functions of the API and of the digests.
  void stop();
  bool has_ended(std::chrono::milliseconds within) { return digests_.has_ended(within); }

 private:
  const bool needs_token_;
  const bool is_mirror_only_;
  const bool mirrors_registry_;
  const bool mirrors_objects_;
  WebPage page_;
  api::Api api_;
  digests::FileDigests digests_;
  distribution::Registry registry_;
  hub::Hub hub_;
  objects::ObjectStore store_;
};

}  // namespace weightfs
