// The server of a name, and the user's token for it.
#include <fmt/core.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/files/file_source.h"
#include "base/text.h"
#include "cache/address_policy.h"
#include "protocols/huggingface/api.h"

namespace weightfs::huggingface {
namespace {

constexpr const char* kDefaultEndpoint = "https://huggingface.co";

constexpr size_t kMaxTokenSize = 8 * 1024;

// The values that huggingface_hub takes as true.
bool is_true(const char* name) {
  const std::string value = lower_case(environment(name));
  return value == "1" || value == "on" || value == "yes" || value == "true";
}

// The directory of huggingface_hub; empty if there is none.
std::string home_path() {
  if (const std::string home = environment("HF_HOME"); !home.empty()) return home;
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) return cache + "/huggingface";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/huggingface";
}

}  // namespace

std::string token_path() {
  if (const std::string path = environment("HF_TOKEN_PATH"); !path.empty()) return path;
  const std::string home = home_path();
  return home.empty() ? "" : home + "/token";
}

std::string cache_path() {
  if (const std::string path = environment("HF_HUB_CACHE"); !path.empty()) return path;
  const std::string home = home_path();
  return home.empty() ? "" : home + "/hub";
}

bool is_offline() { return is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE"); }

Result<Token> token_of_user() {
  if (is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return Token{};
  Token token;
  for (const char* const name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
    if (token.text.empty()) token = {std::string(trimmed(environment(name))), fmt::format("${}", name)};
  if (token.text.empty()) {
    token.from = token_path();
    const auto file = weightfs::open_file(token.from);
    if (!file) return Token{};
    const auto text = read_text(**file, 0, std::min<uint64_t>((*file)->size(), kMaxTokenSize));
    if (text) token.text = trimmed(*text);
  }
  if (token.text.size() >= kMaxTokenSize || !is_visible_ascii(token.text))
    return failure(Code::unsupported, fmt::format("{}: not a token", printable(token.from)));
  return token;
}

namespace {

std::string configured_endpoint() {
  std::string configured = environment("HF_ENDPOINT");
  while (configured.ends_with('/')) configured.pop_back();
  return configured.empty() ? kDefaultEndpoint : configured;
}

// The token as it is when a request is sent: the user may log in again while a mount lasts.
class UserToken final : public http::Credentials {
 public:
  explicit UserToken(Token token) : token_(std::move(token)), read_(http::current_second()) {}

  std::string authorization() override {
    auto now = token_of_user();
    const std::scoped_lock lock(mutex_);
    if (now) {
      token_ = std::move(*now);
      read_ = http::current_second();
    }
    return token_.text.empty() ? "" : "Bearer " + token_.text;
  }

  http::KeyOrigin key_origin() override {
    const std::scoped_lock lock(mutex_);
    return token_.text.empty() ? http::KeyOrigin() : http::KeyOrigin{token_.from, read_};
  }

  std::string description() override {
    const std::scoped_lock lock(mutex_);
    return token_.text.empty() ? "" : "with the token of " + token_.from;
  }

 private:
  std::mutex mutex_;  // guards the rest
  Token token_;       // the last valid one
  std::chrono::sys_seconds read_;
};

}  // namespace

Result<http::CredentialsPtr> credentials_for(const std::string& endpoint) {
  const std::string origin = http::origin_of(endpoint);
  const bool is_trusted =
      origin == http::origin_of(configured_endpoint()) || origin == http::origin_of(kDefaultEndpoint);
  if (!is_trusted) return std::make_shared<http::FixedCredentials>("");
  return std::make_shared<UserToken>(TRY(token_of_user()));
}

Result<Hub> hub_of(const Name& name, BlobStorePtr store, http::ClientPtr http, bool is_insecure) {
  std::string endpoint = configured_endpoint();
  if (!name.server.empty()) {
    const bool is_plain = is_insecure || is_loopback_host(name.server);
    const bool has_scheme = name.server.find("://") != name.server.npos;
    endpoint = has_scheme ? name.server : fmt::format("{}://{}", is_plain ? "http" : "https", name.server);
    if (name.server == "hf.co" || name.server == "huggingface.co") endpoint = kDefaultEndpoint;
  }
  const std::string origin = http::origin_of(endpoint);
  if (origin.empty() || endpoint.find_first_of("@?#") != endpoint.npos)
    return failure(Code::unsupported,
                   fmt::format("{}{}: not the URL of a server", name.server.empty() ? "HF_ENDPOINT=" : "",
                               http::printable_url(endpoint)));
  if (!is_insecure && !is_confidential(origin))
    return failure(Code::unsupported, fmt::format("{}: http:// needs --insecure", http::printable_url(endpoint)));
  http::CredentialsPtr credentials = std::make_shared<http::FixedCredentials>("");
  if (http != nullptr) credentials = TRY(http->credentials({http::CredentialsName::Kind::hub, endpoint}));
  return Hub{endpoint, std::move(http), std::move(store), std::move(credentials)};
}

}  // namespace weightfs::huggingface
