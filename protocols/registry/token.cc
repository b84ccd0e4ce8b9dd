#include "protocols/registry/token.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <memory>
#include <new>
#include <stop_token>

#include "base/digest.h"
#include "base/text.h"
#include "base/values/base64.h"
#include "cache/download/request_with_retry.h"

namespace weightfs::registry {

using download::error_detail;
using download::request_keys_with_retry;
using download::Response;
namespace {

using Parameters = std::vector<std::pair<std::string, std::string>>;

constexpr size_t kMaxTokenBody = 256 * 1024;
constexpr size_t kMaxToken = 64 * 1024;

// Longer than any useful token lifetime.
constexpr int64_t kMaxLifetime = 24 * 3600;

std::string form_encoded(std::string_view text) {
  std::string out = http::url_encoded(text, " ");
  std::ranges::replace(out, ' ', '+');
  return out;
}

// Calls `each` with the nonempty parts of `text` between separators.
template <class Each>
void split(std::string_view text, char separator, Each each) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) each(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

Parameters parse_query(std::string query) {
  std::ranges::replace(query, '+', ' ');
  Parameters out;
  split(query, '&', [&](std::string_view part) {
    const size_t equals = std::min(part.find('='), part.size());
    out.emplace_back(http::url_decoded(part.substr(0, equals)),
                     http::url_decoded(part.substr(std::min(equals + 1, part.size()))));
  });
  return out;
}

// Whether the text is valid in a header.
bool is_token(std::string_view text) { return !text.empty() && text.size() <= kMaxToken && is_visible_ascii(text); }

Result<Token> parse_token(const Response& page) {
  const Value value = TRY(download::parse_body(page));
  const auto* object = std::get_if<Map>(&value);
  if (object == nullptr) return failure(Code::corrupt, "not a JSON object");
  Token token;
  for (const char* key : {"access_token", "token"})
    if (const auto* found = object->find_as<std::string>(key)) token.value = *found;
  if (!is_token(token.value)) return failure(Code::corrupt, "no token");
  const auto* seconds = object->find_as<int64_t>("expires_in");
  if (seconds != nullptr && *seconds > 0) token.lifetime = std::min(*seconds, kMaxLifetime);
  return token;
}

Result<Token> send_token_request(http::Client& http, const http::Request& request, const std::stop_token& stop) {
  // The request that needs the token is not repeated for this: each repetition would repeat these requests, too.
  const auto page = TRY(request_keys_with_retry(http, request, kMaxTokenBody, stop).map_error([](const Error& error) {
    return is_about_the_network(error) ? given_up(error) : error;
  }));
  const bool is_denied = page.head.status == 401 || page.head.status == 403;
  const std::string prefix =
      fmt::format("{}no token from {}", is_denied ? "access denied: " : "", http::printable_url(request.url));
  if (page.head.status != 200)
    return failure(is_denied ? Code::forbidden : Code::unsupported, prefix + error_detail(page));
  if (const auto refused = download::web_page_error(page)) return failure(*refused);
  return parse_token(page).map_error([&](const Error& error) {
    return Error{Code::unsupported, prefix + ": " + error.message};
  });
}

}  // namespace

ClockAndNonce ClockAndNonce::of_system() {
  const auto nonce = [] {
    std::string bytes(16, '\0');
    if (::getrandom(bytes.data(), bytes.size(), 0) != 16) throw std::bad_alloc();
    return base64url(bytes);
  };
  return {[] { return static_cast<int64_t>(std::time(nullptr)); }, nonce};
}

std::string query_of(Parameters parameters) {
  std::stable_sort(parameters.begin(), parameters.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string out;
  for (const auto& [name, value] : parameters)
    out += (out.empty() ? "" : "&") + form_encoded(name) + "=" + form_encoded(value);
  return out;
}

std::string token_url(const AuthChallenge& bearer, Parameters more) {
  std::string_view realm = bearer.parameter("realm");
  realm = realm.substr(0, realm.find('#'));
  const size_t question = std::min(realm.find('?'), realm.size());
  Parameters all = parse_query(std::string(realm.substr(std::min(question + 1, realm.size()))));
  if (const auto service = bearer.parameter("service"); !service.empty()) all.emplace_back("service", service);
  split(bearer.parameter("scope"), ' ', [&](std::string_view scope) { all.emplace_back("scope", scope); });
  std::move(more.begin(), more.end(), std::back_inserter(all));
  const std::string query = query_of(std::move(all));
  return std::string(realm.substr(0, question)) + (query.empty() ? "" : "?" + query);
}

std::string basic_authorization(const Login& login) { return "Basic " + base64(login.user + ":" + login.password); }

Result<std::string> signature(const SigningKey& key, const std::string& url) {
  // The last part is the digest of the empty request body.
  const std::string bytes = TRY(key.sign(fmt::format("GET,{},{}", url, base64(sha256("").hex()))));
  return base64(key.public_blob()) + ":" + base64(bytes);
}

Result<Token> request_token(http::Client& http, const std::string& url, const std::string& authorization,
                            bool public_only, const std::stop_token& stop) {
  http::Request request{.url = url, .headers = {"Accept: application/json"}, .public_only = public_only};
  if (!authorization.empty()) request.credentials = std::make_shared<http::FixedCredentials>(authorization);
  return send_token_request(http, request, stop);
}

Result<Token> exchange_identity_token(http::Client& http, const AuthChallenge& bearer, const std::string& scope,
                                      const std::string& identity_token, bool public_only,
                                      const std::stop_token& stop) {
  const std::string_view realm = bearer.parameter("realm");
  Parameters form = {
      {"client_id", "weightfs"}, {"grant_type", "refresh_token"}, {"refresh_token", identity_token}, {"scope", scope}};
  if (const auto service = bearer.parameter("service"); !service.empty()) form.emplace_back("service", service);
  const http::Request request{.url = std::string(realm.substr(0, realm.find('#'))),
                              .method = http::Request::Method::post,
                              .headers = {"Accept: application/json"},
                              .public_only = public_only,
                              .purpose = http::Purpose::keys,
                              .body = query_of(std::move(form))};
  return send_token_request(http, request, stop);
}

}  // namespace weightfs::registry
