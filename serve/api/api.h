// The API of the page (docs/api.md): JSON and pictures of the models of a server.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "fs/http/protocol/message.h"
#include "fs/http/protocol/target.h"
#include "serve/api/handlers.h"

namespace weightfs::api {

/// Callable from any thread. The forest must outlive it.
class Api {
 public:
  /// `source`: of the server, as it is printed. `href` makes the URL of a path of the tree. `takes_files`: whether
  /// files may be dropped into the page, by a connection to kDropPath.
  Api(Forest& forest, std::string source, std::function<std::string(const std::string& path)> href,
      bool takes_files = false);

  /// The response for a path below /.weightfs/api/; nothing for any other. Ends early when `has_left` returns true.
  std::optional<Accepted<httpd::Response>> answer(const httpd::Request& request, const httpd::Target& target,
                                                  const std::function<bool()>& has_left);

  /// Ends the computations.
  void stop() {
    jobs_.stop();
    rows_.stop();
  }

 private:
  struct Endpoint;
  static const Endpoint* find(const httpd::Target& target);

  Accepted<httpd::Response> answer(const Endpoint& endpoint, const httpd::Request& request, const Query& query);
  Accepted<ContentPtr> compute(const Endpoint& endpoint, const Query& query, const std::string& key,
                               const Report& report);
  Accepted<std::string> version_of(const Query& query);

  static constexpr size_t kKept = 32 << 20;  // bytes

  Forest& forest_;
  const std::string source_;
  const std::function<std::string(const std::string&)> href_;
  const bool takes_files_;
  OpenModels models_;
  Results results_{kKept};
  Jobs jobs_{2};  // because each uses all processors
  Jobs rows_{4};  // which wait for files and servers; a statistic that takes minutes delays none of them
};

}  // namespace weightfs::api
