#include "cache/direct_client.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <stop_token>

#include "base/cancel.h"
#include "base/text.h"
#include "cache/http/exchange.h"
#include "cache/http/retry_after.h"

namespace weightfs::http {
namespace {

constexpr int kMaxRedirects = 10;
constexpr size_t kMaxIdle = 32;  // handles, each with a few connections

// `is_public_redirect`: a server with a public address redirected to `url`, or to a server that did.
AddressPolicy policy_of(const Options& options, const Request& request, const Url& url, bool is_public_redirect) {
  const bool container = request.trust == Trust::container;
  AddressPolicy policy;
  policy.public_only = !options.allow_private_urls && (container || request.public_only || is_public_redirect);
  policy.metadata = request.purpose == Purpose::metadata;
  policy.loopback_only = !container && url.scheme == "http" && (!options.insecure || policy.metadata);
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

// The headers of credentials for the request; none for null.
std::vector<std::string> headers_of(Credentials* credentials, const Request& request, const Url& url,
                                    const std::string& authorization) {
  if (credentials == nullptr) return {};
  const bool is_head = request.method == Request::Method::head;
  auto headers = credentials->headers_beside(is_head ? "HEAD" : "GET", url.text, request.headers);
  if (!authorization.empty()) headers.push_back("Authorization: " + authorization);
  return headers;
}

Certificates certificates_of(const Request& request) {
  return request.certificates.empty() && request.credentials != nullptr ? request.credentials->certificates()
                                                                        : request.certificates;
}

// Sets the keys of the request; null: none.
SentKeys set_keys(ExchangeRequest& exchange, Credentials* sent) {
  SentKeys keys;
  if (sent != nullptr) keys = {sent->generation(), sent->authorization()};
  exchange.may_be_refused = keys.generation != 0;
  exchange.credential_headers = headers_of(sent, exchange.request, exchange.url, keys.authorization);
  exchange.secret_query = sent == nullptr ? "" : sent->query();
  return keys;
}

// Instead of the response to a request that was not sent.
Response deferred_response(const RequestQueue::Admission& admission, const Url& url) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(admission.left);
  return {.status = admission.status,
          .headers = {{"retry-after", std::to_string(seconds.count())}},
          .url = url.text,
          .from_public = false,
          .is_deferred = true};
}

// An object store answers 400 if keys have expired.
bool is_about_old_keys(const ExchangeResult& refusal) {
  const auto says = [&](std::string_view code) { return refusal.body.find(code) != std::string::npos; };
  return refusal.response.status == 400 && (says("ExpiredToken") || says("InvalidToken"));
}

// Delivers the response to a challenge that was not answered, or a refusal.
Result<void> deliver(const ExchangeResult& result, const ResponseHandler& handler) {
  Response response = result.response;
  if (is_about_old_keys(result)) response.status = 403;  // that is what every caller knows
  TRY_VOID(handler.on_response(response));
  if (result.body.empty()) return {};
  return handler.on_body(std::as_bytes(std::span(result.body)));
}

// Fails if a redirect from this URL must not be followed. Its target may repeat the query, so with a secret there.
Result<void> check_redirect(const ExchangeRequest& exchange, int redirects) {
  const std::string url = printable_url(exchange.url.text);
  if (exchange.request.purpose != Purpose::content)
    return failure(Code::forbidden, fmt::format("{}: refused: redirect of a request for keys", url));
  if (!exchange.secret_query.empty())
    return failure(Code::forbidden, fmt::format("{}: refused: redirect of a request with a signature in its URL", url));
  if (redirects > kMaxRedirects)
    return failure(Code::unsupported, fmt::format("{}: more than {} redirects", url, kMaxRedirects));
  return {};
}

// Whether other keys may be accepted; a HEAD has no text.
bool is_about_keys(const ExchangeResult& refusal) {
  return refusal.response.status != 400 || refusal.body.empty() || is_about_old_keys(refusal);
}

// How a request was repeated with other keys: once each.
struct RepeatedWithKeys {
  bool after_challenge = false;
  bool after_refusal = false;
};

// Requests for keys, which a service may delay, are not repeated after the deadline of the request that needs them.
CancelScope until_deadline_of(const Request& request) {
  return CancelScope([&request] { return std::chrono::steady_clock::now() >= request.deadline; });
}

Result<void> prepare_keys(Credentials* sent, const Request& request, const std::stop_token& stop) {
  if (sent == nullptr) return {};
  const CancelScope late = until_deadline_of(request);
  return sent->prepare(stop);
}

// Whether there are other keys than those of the request that was challenged or refused.
Result<bool> has_other_keys(const Request& request, const ExchangeResult& result, const SentKeys& keys,
                            RepeatedWithKeys& repeated, const std::stop_token& stop) {
  const CancelScope late = until_deadline_of(request);
  if (result.kind == ExchangeResult::Kind::challenge) {
    repeated.after_challenge = true;
    return request.credentials->on_unauthorized(result.response, keys, stop);
  }
  const bool is_second = std::exchange(repeated.after_refusal, true);
  return !is_second && is_about_keys(result) && request.credentials->read_again(keys.generation, stop);
}

}  // namespace

CurlHandlePtr DirectClient::take(const std::string& origin) {
  count_request(origin);
  const std::scoped_lock lock(mutex_);
  auto found = std::find_if(idle_.begin(), idle_.end(), [&](const auto& handle) { return handle.first == origin; });
  if (found == idle_.end() && idle_.size() < kMaxIdle) return new_curl_handle();
  if (found == idle_.end()) found = idle_.begin();
  CurlHandlePtr handle = std::move(found->second);
  idle_.erase(found);
  return handle;
}

void DirectClient::give_back(CurlHandlePtr handle, const std::string& origin) {
  const std::scoped_lock lock(mutex_);
  if (idle_.size() < kMaxIdle) idle_.emplace_back(origin, std::move(handle));
}

Result<ExchangeResult> DirectClient::send(const ExchangeRequest& exchange, const std::stop_token& stop) {
  CurlHandlePtr handle = take(exchange.url.origin);
  ExchangeResult result = TRY(run_exchange(*handle, exchange, stop));
  give_back(std::move(handle), exchange.url.origin);
  return result;
}

const std::string* DirectClient::certificate_for(const std::string& origin, Trust trust) const {
  const auto found = certificates_.find(origin);
  return found == certificates_.end() || trust == Trust::container ? nullptr : &found->second;
}

Result<void> DirectClient::perform(const Request& request, const ResponseHandler& handler,
                                   const std::stop_token& stop) try {
  Url first = TRY(parse_url(request.url));
  const std::string first_origin = first.origin;
  std::string origin = first_origin;  // of the current URL
  std::unique_ptr<RequestQueue::Turn> turn;
  const auto record = [&](const Response& response) {
    record_answer(origin, response);
    turn->record(response.status, requested_delay(response));
  };
  const ResponseHandler recorded{[&](const Response& response) {
                                   record(response);
                                   return handler.on_response(response);
                                 },
                                 handler.on_body, handler.on_wait};
  ExchangeRequest exchange{.options = options(),
                           .request = request,
                           .handler = recorded,
                           .url = std::move(first),
                           .rate = rate_ ? &*rate_ : nullptr};
  bool is_public_redirect = false;
  RepeatedWithKeys repeated;
  for (int redirects = 0;;) {
    exchange.policy = policy_of(options(), request, exchange.url, is_public_redirect);
    origin = exchange.url.origin;
    Credentials* const sent = origin == first_origin ? request.credentials.get() : nullptr;
    TRY_VOID(prepare_keys(sent, request, stop));
    auto admission = TRY(queue_.enter({origin, request.urgency, request.deadline, stop, handler.on_wait}));
    if (admission.turn == nullptr) return handler.on_response(deferred_response(admission, exchange.url));
    turn = std::move(admission.turn);
    const SentKeys keys = set_keys(exchange, sent);
    exchange.client_certificate = certificate_for(origin, request.trust);
    exchange.certificates = origin == first_origin ? certificates_of(request) : Certificates();
    if (sent != nullptr) record_keys(request.url, sent->key_origin());
    exchange.may_be_challenged = sent != nullptr && !repeated.after_challenge;
    exchange.is_expected_to_answer = is_expected_to_answer(origin, request.trust);
    const ExchangeResult result = TRY(send(exchange, stop));
    if (result.kind == ExchangeResult::Kind::final) return {};
    exchange.is_decoded = result.kind != ExchangeResult::Kind::not_encoded;
    if (exchange.is_decoded) record(result.response);
    turn.reset();  // new keys may need requests
    if (result.kind == ExchangeResult::Kind::redirect) {
      TRY_VOID(check_redirect(exchange, ++redirects));
      is_public_redirect |= result.response.from_public;
      exchange.url = TRY(redirected(exchange.url, result.response.header("location")));
    } else if (exchange.is_decoded && !TRY(has_other_keys(request, result, keys, repeated, stop))) {
      return deliver(result, handler);
    }
  }
} catch (const std::bad_alloc&) {
  return failure(Code::resource, "out of memory");
}

Result<CredentialsPtr> DirectClient::credentials(const CredentialsName& name) {
  if (keyring_ == nullptr) return std::make_shared<FixedCredentials>("");
  return keyring_->find(name, shared_from_this());
}

}  // namespace weightfs::http
