// An HTTP client that sends nothing: a function answers each request.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/download/request_with_retry.h"
#include "cache/http/client.h"

namespace weightfs::test {

class ScriptedClient final : public http::Client {
 public:
  using Script = std::function<Result<download::Response>(const http::Request& request)>;

  explicit ScriptedClient(Script script, int max_retries = 1)
      : Client(http::Options{.max_retries = max_retries}), script_(std::move(script)) {}

  Result<void> perform(const http::Request& request, const http::ResponseHandler& handler,
                       const std::stop_token& /*stop*/) override {
    {
      const std::scoped_lock lock(mutex_);
      requests_.push_back(request);
    }
    download::Response page = TRY(script_(request));
    page.head.url = request.url;
    TRY_VOID(handler.on_response(page.head));
    if (page.body.empty()) return {};
    return handler.on_body(std::as_bytes(std::span(page.body)));
  }

  Result<http::CredentialsPtr> credentials(const http::CredentialsName& /*name*/) override {
    return std::make_shared<http::FixedCredentials>("");
  }

  std::vector<http::Request> requests() const {
    const std::scoped_lock lock(mutex_);
    return requests_;
  }

 private:
  const Script script_;
  mutable std::mutex mutex_;  // guards requests_
  std::vector<http::Request> requests_;
};

inline download::Response page(int status, std::string body) {
  download::Response page;
  page.head.status = status;
  page.body = std::move(body);
  return page;
}

/// The headers of a request, those with secrets behind the others.
inline std::vector<std::string> all_headers(const http::Request& request) {
  std::vector<std::string> lines = request.headers;
  if (request.credentials == nullptr) return lines;
  const bool is_head = request.method == http::Request::Method::head;
  for (std::string& line : request.credentials->headers(is_head ? "HEAD" : "GET", request.url))
    lines.push_back(std::move(line));
  return lines;
}

}  // namespace weightfs::test
