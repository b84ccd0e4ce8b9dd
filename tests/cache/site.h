// A web site for tests: pages by path.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/http_server.h"

namespace weightfs::test {

class Site {
 public:
  using HttpResponse = HttpServer::Handler;

  /// Serves requests for `path` with any query; others get 404.
  void put(const std::string& path, HttpResponse page) {
    const std::scoped_lock lock(mutex_);
    pages_[path] = std::move(page);
  }
  void put(const std::string& path, const std::string& raw) {
    put(path, [raw](const SeenRequest&, Wire& wire) { wire.send(raw); });
  }
  void json(const std::string& path, const std::string& body) { put(path, answer("200 OK", body)); }

  std::string host() const { return "127.0.0.1:" + std::to_string(server_.port()); }
  std::string url(const std::string& target = "") const { return server_.url(target); }

  /// "GET /path?query" of each request, in order.
  std::vector<std::string> requests_seen() const {
    std::vector<std::string> out;
    for (const SeenRequest& request : server_.requests()) out.push_back(request.method + " " + request.target);
    return out;
  }
  /// The Authorization header of each request, in order.
  std::vector<std::string> authorizations() const {
    std::vector<std::string> out;
    for (const SeenRequest& request : server_.requests()) out.push_back(request.header("authorization"));
    return out;
  }
  std::vector<SeenRequest> requests() const { return server_.requests(); }

 private:
  HttpResponse find_page(const std::string& path) {
    const std::scoped_lock lock(mutex_);
    const auto found = pages_.find(path);
    return found == pages_.end() ? HttpResponse() : found->second;
  }

  std::mutex mutex_;  // guards pages_
  std::map<std::string, HttpResponse> pages_;
  HttpServer server_{[this](const SeenRequest& request, Wire& wire) {
    const HttpResponse page = find_page(request.target.substr(0, request.target.find('?')));
    if (page)
      page(request, wire);
    else
      wire.send(answer("404 Not Found", "404 page not found\n"));
  }};
};

/// "401 Unauthorized" with this WWW-Authenticate header.
inline std::string unauthorized(const std::string& challenge, const std::string& body = "") {
  return answer("401 Unauthorized", body, {"WWW-Authenticate: " + challenge});
}

/// Serves `page` to requests with `authorization`, else the challenge.
inline Site::HttpResponse guarded(const std::string& authorization, const std::string& challenge,
                                  const std::string& page) {
  return [=](const SeenRequest& request, Wire& wire) {
    wire.send(request.header("authorization") == authorization ? page : unauthorized(challenge));
  };
}

}  // namespace weightfs::test
