// Names of repositories, the server, and the user's token for it.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "base/files/file_source.h"
#include "base/text.h"
#include "cache/address_policy.h"
#include "cache/url.h"
#include "protocols/modelscope.h"

namespace weightfs::modelscope {
namespace {

constexpr size_t kMaxName = 4096;
constexpr size_t kMaxToken = 8 * 1024;

tl::unexpected<Error> invalid_name(std::string_view text, std::string_view problem) {
  return failure(Code::unsupported, fmt::format("{}: {}", quoted("ms:" + std::string(text)), problem));
}

bool is_id_part(std::string_view part) {
  constexpr std::string_view kOthers = "-_.";
  return is_file_name(part) && std::ranges::all_of(part, [&](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  kOthers.find(c) != kOthers.npos;
         });
}

std::string configured_endpoint() {
  std::string endpoint = environment({"MODELSCOPE_ENDPOINT", "MODELSCOPE_DOMAIN"});
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (endpoint.empty()) return "https://modelscope.cn";
  return endpoint.find("://") == endpoint.npos ? "https://" + endpoint : endpoint;
}

// Older endpoints read the cookie, newer ones the header.
class TokenCredentials final : public http::Credentials {
 public:
  TokenCredentials(std::string token, std::string from) : token_(std::move(token)), from_(std::move(from)) {}

  std::string authorization() override { return "Bearer " + token_; }
  std::vector<std::string> headers(std::string_view, const std::string&) override {
    return {"Cookie: m_session_id=" + token_};
  }
  std::string description() override { return "with the token of " + printable(from_); }
  http::KeyOrigin key_origin() override { return {from_, read_}; }

 private:
  const std::string token_;
  const std::string from_;
  const std::chrono::sys_seconds read_ = http::current_second();
};

}  // namespace

std::string Name::text() const { return fmt::format("ms://{}@{}{}{}", id, revision, path.empty() ? "" : "/", path); }

Result<Name> parse_name(std::string_view text) {
  if (!text.starts_with("//") || text.size() > kMaxName) return invalid_name(text, "ms://ORG/NAME expected");
  std::string_view rest = text.substr(2);
  const std::string_view organization = cut_component(rest);
  const std::string_view repository = cut_component(rest);
  const size_t at = std::min(repository.find('@'), repository.size());
  if (!is_id_part(organization) || !is_id_part(repository.substr(0, at)))
    return invalid_name(text, "names no repository; ms://ORG/NAME expected");
  Name name{.id = fmt::format("{}/{}", organization, repository.substr(0, at))};
  if (at < repository.size()) {
    bool is_valid = true;
    name.revision = http::url_decoded(repository.substr(at + 1), &is_valid);
    if (!is_valid || !is_visible_ascii(name.revision) || !is_plain_path(name.revision))
      return invalid_name(text, "not a valid revision");
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (!rest.empty() && !is_plain_path(rest)) return invalid_name(text, "not a path in the repository");
  name.path = rest;
  return name;
}

std::string token_path() {
  const std::string configured = environment("MODELSCOPE_HOME");
  const std::string home = environment("HOME");
  if (!configured.empty()) return configured + "/token";
  return home.empty() ? "" : home + "/.modelscope/token";
}

Result<http::CredentialsPtr> credentials_for(const std::string& endpoint) {
  std::string token(trimmed(environment("MODELSCOPE_API_TOKEN")));
  std::string from = "$MODELSCOPE_API_TOKEN";
  if (token.empty()) {
    from = token_path();
    if (const auto file = weightfs::open_file(from); file)
      token = trimmed(read_text(**file, 0, std::min<uint64_t>((*file)->size(), kMaxToken)).value_or(""));
  }
  const std::string origin = http::origin_of(endpoint);
  if (token.empty() || origin != http::origin_of(configured_endpoint()) || !is_confidential(origin))
    return std::make_shared<http::FixedCredentials>("");
  // It is the value of a cookie, too (RFC 6265, section 4.1.1).
  if (token.size() >= kMaxToken || !is_visible_ascii(token) || token.find_first_of("\",;\\") != token.npos)
    return failure(Code::unsupported, fmt::format("{}: not a token", printable(from)));
  return std::make_shared<TokenCredentials>(std::move(token), std::move(from));
}

Result<Hub> hub_of(BlobStorePtr store, http::ClientPtr http, bool is_insecure) {
  Hub hub{configured_endpoint(), std::move(http), std::move(store), std::make_shared<http::FixedCredentials>("")};
  const std::string origin = http::origin_of(hub.endpoint);
  const char* problem = nullptr;
  if (origin.empty() || hub.endpoint.find_first_of("@?#") != hub.endpoint.npos)
    problem = "not the URL of a server";
  else if (!is_insecure && !is_confidential(origin))
    problem = "http:// needs --insecure";
  if (problem != nullptr)
    return failure(Code::unsupported, fmt::format("{}: {}", http::printable_url(hub.endpoint), problem));
  if (hub.http == nullptr) return hub;
  hub.credentials = TRY(hub.http->credentials({http::CredentialsName::Kind::modelscope, hub.endpoint}));
  return hub;
}

}  // namespace weightfs::modelscope
