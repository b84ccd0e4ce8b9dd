#include "cache/registry/credentials.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string_view>

#include "base/text.h"
#include "cache/address_policy.h"

namespace weightfs {
namespace {

constexpr uint64_t kLongestKey = 64 * 1024;

// How often one who waits for another's token looks whether to stop.
constexpr std::chrono::milliseconds kLook{100};

// Host and port, if it has one.
std::string_view host_of(std::string_view url) {
  const size_t begin = url.find("://");
  if (begin == std::string_view::npos) return {};
  url.remove_prefix(begin + 3);
  return url.substr(0, url.find_first_of("/?#"));
}

bool is_loopback(std::string_view origin) { return is_loopback_host(host_of(origin)); }

bool is_secret_there(std::string_view origin) { return origin.starts_with("https://") || is_loopback(origin); }

// What `url` is the token server's address by, or why it must not be asked.
Result<std::string> token_server(const std::string& url, const std::string& registry) {
  const std::string origin = origin_of(url);
  const bool is_plain = std::all_of(url.begin(), url.end(), [](char c) { return c > ' ' && c < '\x7F'; });
  if (origin.empty() || !is_plain || host_of(url).find('@') != std::string_view::npos)
    return failure(Code::unsupported, str(registry, " names ", quoted(url), " to ask for a token: no URL for that"));
  if (origin.starts_with("https://") || origin == registry || (is_loopback(origin) && is_loopback(registry)))
    return origin;
  return failure(Code::unsupported,
                 str(registry, " names ", quoted(url), " to ask for a token: another host is asked only over https"));
}

bool is_ollamas_path(std::string_view realm) {
  return realm.substr(0, realm.find_first_of("?#")).ends_with("/v2/token");
}

Result<SigningKey> key_at(const std::string& path) {
  const auto read = [&]() -> Result<SigningKey> {
    const SourcePtr file = TRY(open_file(path));
    if (file->size() > kLongestKey) return failure(Code::unsupported, "too long for a private key");
    return SigningKey::parse(TRY(read_text(*file, 0, file->size())));
  };
  return read().map_error([&](const Error& error) {
    return Error{Code::unsupported, str(printable(path), ": ", error.message)};
  });
}

const Challenge* find(const std::vector<Challenge>& challenges, std::string_view scheme) {
  const auto found =
      std::find_if(challenges.begin(), challenges.end(), [&](const Challenge& c) { return c.scheme == scheme; });
  return found == challenges.end() ? nullptr : &*found;
}

// An exception must not get past those who wait: it would leave them waiting for ever.
template <class Ask>
auto caught(const Ask& ask) -> decltype(ask()) {
  try {
    return ask();
  } catch (const std::exception& error) {
    return failure(Code::resource, str("no token: ", error.what()));
  }
}

}  // namespace

RegistryCredentials::RegistryCredentials(HttpPtr http, const std::string& registry, Keys keys, Chance chance)
    : http_(std::move(http)),
      host_(host_of(registry)),
      origin_(origin_of(registry)),
      keys_(std::move(keys)),
      chance_(std::move(chance)) {}

bool RegistryCredentials::is_current() const { return !value_.authorization.empty() && chance_.seconds() < until_; }

std::string RegistryCredentials::authorization() {
  const std::scoped_lock lock(mutex_);
  return is_current() ? value_.authorization : std::string();
}

std::string RegistryCredentials::tried() {
  const std::scoped_lock lock(mutex_);
  return value_.tried;
}

Result<bool> RegistryCredentials::challenged(const Denial& denial, const std::atomic<bool>& stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (is_current() && value_.authorization != denial.sent) return true;
    if (renewal_ == nullptr) return renew(denial, stop, lock);
    const auto renewal = renewal_;
    while (!renewal->ended) {
      if (stop) return failure(Code::network, str(origin_, ": stopped while waiting for a token"));
      renewed_.wait_for(lock, kLook);
    }
    const bool is_ours = is_current() && value_.authorization != denial.sent;
    if (!is_ours && !renewal->stopped) return renewal->result;
  }
}

Result<bool> RegistryCredentials::renew(const Denial& denial, const std::atomic<bool>& stop,
                                        std::unique_lock<std::mutex>& lock) {
  const auto renewal = renewal_ = std::make_shared<Renewal>();
  lock.unlock();
  auto value = caught([&] { return answer(denial, stop); });
  lock.lock();
  if (value) {
    renewal->result = !value->authorization.empty() && value->authorization != denial.sent;
    value_ = std::move(*value);
    until_ = chance_.seconds() + value_.lifetime;
  } else {
    renewal->result = tl::unexpected(value.error());
  }
  renewal->ended = true;
  renewal->stopped = stop;
  renewal_ = nullptr;
  renewed_.notify_all();
  return renewal->result;
}

Result<RegistryCredentials::Value> RegistryCredentials::answer(const Denial& denial, const std::atomic<bool>& stop) {
  std::vector<Challenge> challenges;
  for (const std::string& header : denial.challenges)
    for (Challenge& challenge : parse_challenges(header)) challenges.push_back(std::move(challenge));
  const Reach reach = denial.from_public ? Reach::only_public : Reach::anywhere;
  if (const Challenge* bearer = find(challenges, "bearer")) return with_token(*bearer, reach, stop);
  if (find(challenges, "basic") != nullptr) return with_password();
  return Value{{}, 0, "without a name: it asks for nothing that is known here"};
}

Result<RegistryCredentials::Value> RegistryCredentials::with_token(const Challenge& bearer, Reach reach,
                                                                   const std::atomic<bool>& stop) {
  const std::string realm(bearer.parameter("realm"));
  const std::string server = TRY(token_server(realm, origin_));
  const bool may_sign = server == origin_ && !keys_.ollama_key.empty();
  if (may_sign && bearer.parameter("service") == "ollama") return with_key(bearer, reach, stop);
  if (may_sign && is_ollamas_path(realm) && !TRY(entry_for(server)).login) {
    auto value = with_key(bearer, reach, stop);
    if (value || value.error().code == Code::network) return value;
  }
  return with_login(bearer, reach, stop);
}

Result<RegistryCredentials::Value> RegistryCredentials::with_key(const Challenge& bearer, Reach reach,
                                                                 const std::atomic<bool>& stop) {
  const SigningKey key = TRY(key_at(keys_.ollama_key));
  const std::string tried = "with the key " + printable(keys_.ollama_key);
  const auto token = signed_token(*http_, bearer, key, chance_, reach, stop);
  if (!token) return failure(token.error().code, str(token.error().message, " (asked ", tried, ")"));
  return Value{"Bearer " + token->value, token->lifetime, tried};
}

std::string RegistryCredentials::without_a_name(const Challenge& bearer, const DockerEntry& entry) const {
  const bool wants_key = bearer.parameter("service") == "ollama" && keys_.ollama_key.empty();
  return str("without a name: ", wants_key ? "there is no ollama key, and " : "", entry.reason);
}

Result<RegistryCredentials::Value> RegistryCredentials::with_login(const Challenge& bearer, Reach reach,
                                                                   const std::atomic<bool>& stop) {
  const auto entry = TRY(entry_for(origin_of(std::string(bearer.parameter("realm")))));
  const std::string tried = entry.login ? str("as ", quoted(entry.login->user), " of ", printable(keys_.docker_config))
                                        : without_a_name(bearer, entry);
  const auto token = plain_token(*http_, bearer, entry.login, reach, stop);
  if (!token) return failure(token.error().code, str(token.error().message, " (asked ", tried, ")"));
  return Value{"Bearer " + token->value, token->lifetime, tried};
}

Result<RegistryCredentials::Value> RegistryCredentials::with_password() {
  const auto entry = TRY(entry_for(origin_));
  if (!entry.login) return Value{{}, 0, "without a name: " + entry.reason};
  return Value{basic(*entry.login), INT32_MAX,
               str("as ", quoted(entry.login->user), " of ", printable(keys_.docker_config))};
}

// The registry's login, to be sent to `origin`.
Result<DockerEntry> RegistryCredentials::entry_for(const std::string& origin) const {
  if (keys_.docker_config.empty()) return DockerEntry{std::nullopt, "there is no docker config"};
  auto entry = docker_entry(keys_.docker_config, host_).map_error([](const Error& error) {
    return Error{Code::unsupported, error.message};
  });
  if (!entry) return entry;
  if (!entry->login) return DockerEntry{std::nullopt, str(printable(keys_.docker_config), " ", entry->reason)};
  if (is_secret_there(origin)) return entry;
  return DockerEntry{std::nullopt, str("the login of ", printable(keys_.docker_config), " is not sent over http")};
}

}  // namespace weightfs
