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

// `is_public_redirect`: `url` is the target of redirects, and the server of the first URL has a public address.
AddressPolicy policy_of(const Options& options, const Request& request, const Url& url, bool is_public_redirect) {
  const bool container = request.trust == Trust::container;
  AddressPolicy policy;
  policy.public_only = !options.allow_private_urls && (container || request.public_only || is_public_redirect);
  policy.loopback_only = !container && url.scheme == "http" && !options.insecure;
  policy.subject = container            ? "URLs in containers"
                   : is_public_redirect ? "redirects from public addresses"
                                        : "requests for a public registry";
  return policy;
}

// The target of a redirect.
Result<Url> redirected(const Url& from, std::string_view location) {
  const std::string to = resolve_url(from.text, std::string(location));
  if (to.empty())
    return failure(Code::corrupt, fmt::format("{}: redirect to an invalid URL", printable_url(from.text)));
  if (!may_redirect(from.text, to))
    return failure(Code::forbidden,
                   fmt::format("{}: refused: redirect from https to {}", printable_url(from.text), printable_url(to)));
  return parse_url(to);
}

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

void Client::record_answer(const std::string& origin, int status) {
  std::optional<std::chrono::system_clock::time_point> since;
  {
    const std::scoped_lock lock(mutex_);
    if (answered_.size() < kMaxOrigins) answered_.insert(origin);
    if (is_temporary(status)) return;
    since.swap(waiting_.since);
    waiting_.is_outage = false;
  }
  if (since && options_.on_answer)
    options_.on_answer(
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now() - *since));
}

bool Client::is_expected_to_answer(const std::string& origin, Trust trust) const {
  if (trust == Trust::user && patience().count() > 0) return true;
  const std::scoped_lock lock(mutex_);
  return answered_.contains(origin);
}

Waiting Client::waiting() const {
  const std::scoped_lock lock(mutex_);
  return waiting_;
}

Client::Wait::Wait(Client& client, const Error& error, std::chrono::milliseconds delay, bool is_outage)
    : client_(client) {
  Waiting now;
  {
    const std::scoped_lock lock(client_.mutex_);
    ++client_.waiting_.requests;
    client_.waiting_.reason = error.message;
    client_.waiting_.is_outage |= is_outage;
    if (!client_.waiting_.since) client_.waiting_.since = std::chrono::system_clock::now();
    now = client_.waiting_;
  }
  if (client_.options_.on_retry) client_.options_.on_retry(now, delay);
}

Client::Wait::~Wait() {
  const std::scoped_lock lock(client_.mutex_);
  --client_.waiting_.requests;
}

std::map<std::string, uint64_t> Client::requests() const {
  const std::scoped_lock lock(mutex_);
  return requests_;
}

Result<void> Client::perform(const Request& request, const ResponseHandler& handler, const std::stop_token& stop) try {
  Url first = TRY(parse_url(request.url));
  const std::string first_origin = first.origin;
  std::string origin = first_origin;  // of the current URL
  const ResponseHandler recorded{[&](const Response& response) {
                                   record_answer(origin, response.status);
                                   return handler.on_response(response);
                                 },
                                 handler.on_body, handler.on_wait};
  ExchangeRequest exchange{.options = options_, .request = request, .handler = recorded, .url = std::move(first)};
  bool is_public_redirect = false;
  bool was_challenged = false;
  for (int redirects = 0;;) {
    exchange.policy = policy_of(options_, request, exchange.url, is_public_redirect);
    const bool same_origin = request.credentials != nullptr && exchange.url.origin == first_origin;
    exchange.may_be_challenged = same_origin && !was_challenged;
    exchange.credential_headers.clear();
    std::string authorization;
    if (same_origin) {
      const bool is_head = request.method == Request::Method::head;
      exchange.credential_headers = request.credentials->headers(is_head ? "HEAD" : "GET", exchange.url.text);
      authorization = request.credentials->authorization();
      if (!authorization.empty()) exchange.credential_headers.push_back("Authorization: " + authorization);
    }
    origin = exchange.url.origin;
    exchange.is_expected_to_answer = is_expected_to_answer(origin, request.trust);
    CurlHandlePtr handle = take(origin);
    const ExchangeResult result = TRY(run_exchange(*handle, exchange, stop));
    give_back(std::move(handle), origin);
    if (result.kind == ExchangeResult::Kind::final) return {};
    record_answer(origin, result.response.status);
    if (result.kind == ExchangeResult::Kind::redirect) {
      if (redirects == 0) is_public_redirect = result.response.from_public;
      if (++redirects > kMaxRedirects)
        return failure(Code::network,
                       fmt::format("{}: more than {} redirects", printable_url(exchange.url.text), kMaxRedirects));
      exchange.url = TRY(redirected(exchange.url, result.response.header("location")));
    } else {
      was_challenged = true;
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
