#include "protocols/registry/credentials.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <stop_token>
#include <string_view>

#include "base/cancel.h"
#include "base/files/file_source.h"
#include "base/text.h"
#include "cache/address_policy.h"

namespace weightfs::registry {
namespace {

constexpr uint64_t kMaxKeyFile = 64 * 1024;

// Host and port, if present.
std::string_view host_of(std::string_view url) {
  const size_t begin = url.find("://");
  if (begin == std::string_view::npos) return {};
  url.remove_prefix(begin + 3);
  return url.substr(0, url.find_first_of("/?#"));
}

bool is_loopback(std::string_view origin) { return is_loopback_host(host_of(origin)); }

// The origin of the token server, or why it is refused.
Result<std::string> check_token_server(const std::string& url, const std::string& registry) {
  const std::string origin = http::origin_of(url);
  if (origin.empty() || !is_visible_ascii(url) || host_of(url).find('@') != std::string_view::npos)
    return failure(Code::unsupported, fmt::format("{}: token server {}: invalid URL", registry, quoted(url)));
  if (origin.starts_with("https://") || origin == registry || (is_loopback(origin) && is_loopback(registry)))
    return origin;
  return failure(Code::unsupported,
                 fmt::format("{}: token server {} refused: https required for another host", registry, quoted(url)));
}

bool is_ollama_realm(std::string_view realm) {
  return realm.substr(0, realm.find_first_of("?#")).ends_with("/v2/token");
}

Result<SigningKey> read_key(const std::string& path) {
  const auto read = [&]() -> Result<SigningKey> {
    const SourcePtr file = TRY(open_file(path));
    if (file->size() > kMaxKeyFile) return failure(Code::unsupported, "too large for a private key");
    return SigningKey::parse(TRY(read_text(*file, 0, file->size())));
  };
  return read().map_error([&](const Error& error) {
    return Error{Code::unsupported, fmt::format("{}: {}", printable(path), error.message)};
  });
}

std::string login_description(const FoundLogin& found) {
  if (!found.login->identity_token.empty())
    return fmt::format("tried with the identity token of {}", printable(found.file));
  return fmt::format("tried as {} of {}", quoted(found.login->user), printable(found.file));
}

// A login that expires is obtained again 15 minutes before its end, or in the last third of a shorter life.
int64_t lifetime_of(const FoundLogin& found, int64_t now) {
  constexpr int64_t kBeforeEnd = 15 * 60;
  if (!found.expiry) return INT32_MAX;
  const int64_t left = *found.expiry - now;
  return left - std::min(kBeforeEnd, left / 3);
}

const AuthChallenge* find(const std::vector<AuthChallenge>& challenges, std::string_view scheme) {
  const auto found =
      std::find_if(challenges.begin(), challenges.end(), [&](const AuthChallenge& c) { return c.scheme == scheme; });
  return found == challenges.end() ? nullptr : &*found;
}

}  // namespace

Credentials::Credentials(http::ClientPtr http, const std::string& registry, CredentialPaths paths,
                         std::vector<std::string> headers, ClockAndNonce clock,
                         std::shared_ptr<const CloudLogins> clouds)
    : http_(std::move(http)),
      host_(host_of(registry)),
      origin_(http::origin_of(registry)),
      repository_(repository_of(registry)),
      paths_(std::move(paths)),
      headers_(std::move(headers)),
      clock_(std::move(clock)),
      clouds_(std::move(clouds)) {}

bool Credentials::is_current() const { return !authorization_.authorization.empty() && clock_.seconds() < expires_; }

std::string Credentials::authorization() {
  const std::scoped_lock lock(mutex_);
  return is_current() ? authorization_.authorization : std::string();
}

std::string Credentials::description() {
  const std::scoped_lock lock(mutex_);
  return authorization_.description;
}

http::KeyOrigin Credentials::key_origin() {
  const std::scoped_lock lock(mutex_);
  http::KeyOrigin origin{authorization_.keys_from, read_};
  if (authorization_.keys_expire)
    origin.expires = std::chrono::sys_seconds(std::chrono::seconds(*authorization_.keys_expire));
  return origin;
}

uint64_t Credentials::generation() {
  const std::scoped_lock lock(mutex_);
  return is_current() ? generation_ : 0;
}

bool Credentials::read_again(uint64_t sent, const std::stop_token& /*stop*/) {
  constexpr int64_t kInterval = 10;  // seconds
  const std::scoped_lock lock(mutex_);
  if (!is_current() || generation_ != sent) return true;
  if (clock_.seconds() - renewed_at_ < kInterval) return false;
  authorization_.authorization.clear();
  return true;
}

Result<bool> Credentials::on_unauthorized(const http::Response& response, const http::SentKeys& sent,
                                          const std::stop_token& stop) {
  const auto is_renewed = [&] { return is_current() && authorization_.authorization != sent.authorization; };
  std::unique_lock lock(mutex_);
  while (!is_renewed()) {
    if (!is_renewing_) return renew(response, sent.authorization, stop, lock);
    renewed_.wait_for(lock, stop, kCancelCheck, [&] { return !is_renewing_; });
    if (stop.stop_requested() || is_cancelled())
      return failure(Code::network, fmt::format("{}: stopped while waiting for a token", origin_));
    if (is_renewing_) continue;
    if (!is_renewed() && renewal_) return *renewal_;
  }
  return true;
}

Result<bool> Credentials::renew(const http::Response& response, const std::string& sent, const std::stop_token& stop,
                                std::unique_lock<std::mutex>& lock) {
  is_renewing_ = true;
  lock.unlock();
  // An exception must not leave the other threads waiting forever.
  auto value = exceptions_to_errors([&] { return authorize(response, stop); });
  lock.lock();
  is_renewing_ = false;
  renewal_.reset();
  renewed_.notify_all();
  Result<bool> result = value.map(
      [&](const Authorization& renewed) { return !renewed.authorization.empty() && renewed.authorization != sent; });
  if (value) {
    authorization_ = std::move(*value);
    ++generation_;
    read_ = http::current_second();
    renewed_at_ = clock_.seconds();
    expires_ = renewed_at_ + authorization_.lifetime;
  }
  if (!stop.stop_requested() && !is_cancelled()) renewal_ = result;
  return result;
}

Result<Credentials::Authorization> Credentials::authorize(const http::Response& response, const std::stop_token& stop) {
  std::vector<AuthChallenge> challenges;
  for (const auto& [name, value] : response.headers)
    if (name == "www-authenticate") std::ranges::move(parse_challenges(value), std::back_inserter(challenges));
  if (const AuthChallenge* bearer = find(challenges, "bearer")) return with_token(*bearer, response.from_public, stop);
  if (find(challenges, "basic") != nullptr) return with_basic_login(stop);
  return Authorization{{}, 0, "unsupported authentication scheme; no credentials sent"};
}

Result<Credentials::Authorization> Credentials::with_token(const AuthChallenge& bearer, bool public_only,
                                                           const std::stop_token& stop) {
  const std::string realm(bearer.parameter("realm"));
  const std::string server = TRY(check_token_server(realm, origin_));
  const bool may_sign = server == origin_ && !paths_.ollama_key.empty();
  if (may_sign && bearer.parameter("service") == "ollama") return with_key(bearer, public_only, stop);
  const FoundLogin found = TRY(login_for(server, stop));
  if (may_sign && is_ollama_realm(realm) && !found.login) {
    auto value = with_key(bearer, public_only, stop);
    if (value || is_about_the_network(value.error())) return value;
  }
  return with_login(bearer, found, public_only, stop);
}

Result<Credentials::Authorization> Credentials::with_key(const AuthChallenge& bearer, bool public_only,
                                                         const std::stop_token& stop) {
  const SigningKey key = TRY(read_key(paths_.ollama_key));
  const std::string url = token_url(bearer, {{"ts", std::to_string(clock_.seconds())}, {"nonce", clock_.nonce()}});
  const auto token = signature(key, url).and_then(
      [&](const std::string& authorization) { return request_token(*http_, url, authorization, public_only, stop); });
  return with_description(token, "tried with the key " + printable(paths_.ollama_key), paths_.ollama_key);
}

// The description is part of the error, too.
Result<Credentials::Authorization> Credentials::with_description(const Result<Token>& token, std::string description,
                                                                 std::string keys_from) {
  if (!token) return failure(with_message(token.error(), fmt::format("{} ({})", token.error().message, description)));
  return Authorization{"Bearer " + token->value, token->lifetime, std::move(description), std::move(keys_from)};
}

std::string Credentials::anonymous_reason(const AuthChallenge& bearer, const FoundLogin& found) const {
  const bool wants_key = bearer.parameter("service") == "ollama" && paths_.ollama_key.empty();
  return fmt::format("tried anonymously: {}{}", wants_key ? "there is no ollama key, and " : "", found.reason);
}

// For a challenge that names none.
std::string Credentials::default_scope() const {
  return repository_.empty() ? "" : fmt::format("repository:{}:pull", repository_);
}

Result<Credentials::Authorization> Credentials::with_login(const AuthChallenge& bearer, const FoundLogin& found,
                                                           bool public_only, const std::stop_token& stop) {
  const std::string named(bearer.parameter("scope"));
  const std::string scope = named.empty() ? default_scope() : "";
  if (found.login && !found.login->identity_token.empty())
    return with_description(
        exchange_identity_token(*http_, bearer, named + scope, found.login->identity_token, public_only, stop),
        login_description(found), found.file);
  const std::string authorization = found.login ? basic_authorization(*found.login) : "";
  std::vector<std::pair<std::string, std::string>> more;
  if (!scope.empty()) more.emplace_back("scope", scope);
  auto value =
      with_description(request_token(*http_, token_url(bearer, std::move(more)), authorization, public_only, stop),
                       found.login ? login_description(found) : anonymous_reason(bearer, found), found.file);
  if (value) value->keys_expire = found.expiry;
  return value;
}

Result<Credentials::Authorization> Credentials::with_basic_login(const std::stop_token& stop) {
  const FoundLogin found = TRY(login_for(origin_, stop));
  if (!found.login) return Authorization{{}, 0, "tried anonymously: " + found.reason};
  if (!found.login->identity_token.empty())
    return Authorization{
        {},
        0,
        fmt::format("{} has only an identity token, and the registry has no token server", printable(found.file))};
  return Authorization{basic_authorization(*found.login), lifetime_of(found, clock_.seconds()),
                       login_description(found), found.file, found.expiry};
}

// The registry's login, if it may be sent to `origin`; without a stored one that of its cloud.
Result<FoundLogin> Credentials::login_for(const std::string& origin, const std::stop_token& stop) const {
  FoundLogin found = TRY(find_login(paths_, host_, repository_, stop));
  if (!found.login && clouds_ != nullptr) {
    FoundLogin of_cloud = TRY(clouds_->find(origin_, origin, http_, stop));
    if (of_cloud.login) return of_cloud;
    if (!of_cloud.reason.empty()) found.reason += ", and " + of_cloud.reason;
  }
  if (!found.login || is_confidential(origin)) return found;
  return FoundLogin{.reason = fmt::format("the login of {} is not sent over http", printable(found.file))};
}

}  // namespace weightfs::registry
