// Answers requests for the paths of a forest. It knows nothing of formats.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "fs/http/access_rules.h"
#include "fs/http/entity.h"
#include "fs/http/protocol/message.h"
#include "fs/http/server_options.h"
#include "fs/reading/prefetch.h"
#include "fs/tree/forest.h"

namespace weightfs::httpd {

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
  /// Whether a target has nothing of the models, so that it needs no token.
  std::function<bool(const Request&, const Target&)> is_public = {};
};

/// Callable from any thread. The forest must outlive it.
class Site {
 public:
  Site(Forest& forest, SiteOptions options);

  Response answer(const Request& request, const Client& client) const;

  /// The response for a request that is refused: a sentence as text, or as JSON for clients that prefer it.
  Response refuse(const Refusal& refusal, const Request* request) const;

 private:
  Response answer_any(const Request& request, const Client& client) const;
  Response answer_permitted(const Request& request, const Client& client, const Target& target) const;
  Response file(const Request& request, Ino ino, const std::string& name) const;
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
