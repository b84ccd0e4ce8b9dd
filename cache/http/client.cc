#include "cache/http/client.h"

#include <fmt/core.h>

#include <algorithm>
#include <new>
#include <stop_token>

#include "base/text.h"
#include "cache/http/exchange.h"

namespace weightfs::http {
namespace {

constexpr int kMaxRedirects = 10;
constexpr size_t kMaxIdle = 32;  // handles, each with a few connections

// A request and the redirects it followed.
struct RedirectChain {
  const Options& options;
  const Request& request;
  Url url;
  std::string first_origin;
  bool began_public = false;
  int redirects = 0;
  bool was_challenged = false;

  AddressPolicy policy() const {
    AddressPolicy policy;
    const bool container = request.trust == Trust::container;
    const bool from_public_origin = request.public_only || (redirects > 0 && began_public);
    policy.public_only = !options.allow_private_urls && (container || from_public_origin);
    policy.loopback_only = !container && url.scheme == "http" && !options.insecure;
    policy.subject = container ? "URLs in containers" : "redirects from public addresses";
    if (!container && redirects == 0) policy.subject = "requests for a public registry";
    return policy;
  }

  bool is_same_origin() const { return url.origin == first_origin; }

  Result<void> follow(std::string_view location) {
    const std::string from = printable_url(url.text);
    if (++redirects > kMaxRedirects)
      return failure(Code::network, fmt::format("{}: more than {} redirects", from, kMaxRedirects));
    const std::string to = resolve_url(url.text, std::string(location));
    if (to.empty()) return failure(Code::corrupt, fmt::format("{}: redirect to an invalid URL", from));
    if (!may_redirect(url.text, to))
      return failure(Code::unsupported, fmt::format("{}: refused: redirect from https to {}", from, printable_url(to)));
    url = TRY(parse_url(to));
    return {};
  }
};

// Delivers the response to a challenge that was not answered.
Result<void> deliver(const ExchangeResult& result, const ResponseHandler& handler) {
  TRY_VOID(handler.on_response(result.response));
  if (result.challenge_body.empty()) return {};
  return handler.on_body(std::as_bytes(std::span(result.challenge_body)));
}

}  // namespace

CurlHandlePtr Client::take(const std::string& origin) {
  const std::scoped_lock lock(mutex_);
  ++requests_[requests_.size() < kMaxOrigins || requests_.contains(origin) ? origin : "other"];
  auto found = std::find_if(idle_.begin(), idle_.end(), [&](const auto& handle) { return handle.first == origin; });
  if (found == idle_.end() && idle_.size() < kMaxIdle) return new_curl_handle();
  if (found == idle_.end()) found = idle_.begin();
  CurlHandlePtr handle = std::move(found->second);
  idle_.erase(found);
  return handle;
}

void Client::give_back(CurlHandlePtr handle, const std::string& origin) {
  const std::scoped_lock lock(mutex_);
  if (idle_.size() < kMaxIdle) idle_.emplace_back(origin, std::move(handle));
}

std::map<std::string, uint64_t> Client::requests() const {
  const std::scoped_lock lock(mutex_);
  return requests_;
}

Result<void> Client::perform(const Request& request, const ResponseHandler& handler, const std::stop_token& stop) try {
  Url first = TRY(parse_url(request.url));
  const std::string first_origin = first.origin;
  RedirectChain chain{options_, request, std::move(first), first_origin};
  for (;;) {
    const bool same_origin = request.credentials != nullptr && chain.is_same_origin();
    std::string authorization;
    std::vector<std::string> credential_headers;
    if (same_origin) {
      const bool is_head = request.method == Request::Method::head;
      credential_headers = request.credentials->headers(is_head ? "HEAD" : "GET", chain.url.text);
      authorization = request.credentials->authorization();
      if (!authorization.empty()) credential_headers.push_back("Authorization: " + authorization);
    }
    const ExchangeRequest exchange_request{.options = options_,
                                           .request = request,
                                           .handler = handler,
                                           .url = chain.url,
                                           .policy = chain.policy(),
                                           .credential_headers = std::move(credential_headers),
                                           .may_be_challenged = same_origin && !chain.was_challenged};
    CurlHandlePtr handle = take(chain.url.origin);
    const ExchangeResult result = TRY(run_exchange(*handle, exchange_request, stop));
    give_back(std::move(handle), chain.url.origin);
    if (chain.redirects == 0) chain.began_public = result.response.from_public;
    if (result.kind == ExchangeResult::Kind::final) return {};
    if (result.kind == ExchangeResult::Kind::redirect) {
      TRY_VOID(chain.follow(result.response.header("location")));
    } else {
      chain.was_challenged = true;
      if (!TRY(request.credentials->on_unauthorized(result.response, authorization, stop)))
        return deliver(result, handler);
    }
  }
} catch (const std::bad_alloc&) {
  return failure(Code::resource, "out of memory");
}

std::string_view Response::header(std::string_view name) const {
  const auto found =
      std::find_if(headers.begin(), headers.end(), [&](const auto& header) { return header.first == name; });
  return found == headers.end() ? std::string_view() : found->second;
}

}  // namespace weightfs::http
