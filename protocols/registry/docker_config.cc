#include "protocols/registry/docker_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/files/file_source.h"
#include "base/text.h"
#include "base/values/base64.h"
#include "base/values/json.h"

namespace weightfs::registry {
namespace {

constexpr uint64_t kMaxConfig = 1024 * 1024;

// The registry of a key in `auths`: "https://index.docker.io/v1/" is Docker Hub, and a URL means its host. A key with
// another path belongs to a part of a registry, and is ignored.
std::string registry_of(std::string_view key) {
  for (const std::string_view scheme : {"https://", "http://"})
    if (key.starts_with(scheme)) key.remove_prefix(scheme.size());
  const size_t slash = std::min(key.find('/'), key.size());
  constexpr std::array<std::string_view, 6> kPaths = {"", "/", "/v1", "/v1/", "/v2", "/v2/"};
  if (std::find(kPaths.begin(), kPaths.end(), key.substr(slash)) == kPaths.end()) return {};
  std::string host = lower_case(key.substr(0, slash));
  if (host.ends_with(":443")) host.resize(host.size() - 4);
  const bool hub = host == "docker.io" || host == "index.docker.io" || host == "registry-1.docker.io";
  return hub ? "docker.io" : host;
}

// The value for `host` in a map by registry: of the exact key, else of the first equivalent key.
const Value* find_for_host(const Map* registries, const std::string& host) {
  if (registries == nullptr) return nullptr;
  if (const Value* same = registries->find(host)) return same;
  const std::string ref = registry_of(host);
  const auto found = std::find_if(registries->begin(), registries->end(),
                                  [&](const Map::Entry& entry) { return registry_of(entry.first) == ref; });
  return found == registries->end() ? nullptr : &found->second;
}

bool has_identity_token(const Map& entry) { return !text_in(entry, "identitytoken").empty(); }

// "auth" is base64 of "user:password"; some tools write two fields instead. An identity token replaces the password.
Result<std::optional<Login>> parse_login(const Map& entry) {
  if (has_identity_token(entry)) return std::nullopt;
  if (const std::string_view auth = text_in(entry, "auth"); !auth.empty()) {
    const auto both = from_base64(auth);
    const size_t colon = both ? both->find(':') : std::string::npos;
    if (colon == std::string::npos) return failure(Code::corrupt, "\"auth\" is not base64 of user:password");
    return Login{both->substr(0, colon), both->substr(colon + 1)};
  }
  const std::string_view user = text_in(entry, "username");
  const std::string_view password = text_in(entry, "password");
  if (user.empty() || password.empty()) return std::nullopt;
  return Login{std::string(user), std::string(password)};
}

// Why there is no login.
std::string no_login_reason(const Map& config, const Map* entry, const std::string& host) {
  if (entry != nullptr && has_identity_token(*entry))
    return fmt::format("has only an identity token for {}, which is not supported", host);
  const Value* value = find_for_host(config.find_as<Map>("credHelpers"), host);
  const auto* named = value == nullptr ? nullptr : std::get_if<std::string>(value);
  const std::string_view helper = named != nullptr ? *named : text_in(config, "credsStore");
  if (!helper.empty())
    return fmt::format("uses the credential helper {} for {}, which is not supported", quoted(helper), host);
  return fmt::format("has no login for {}", host);
}

Result<DockerEntry> find_entry(const Source& file, const std::string& host) {
  if (file.size() > kMaxConfig)
    return failure(Code::corrupt,
                   fmt::format("docker config of {}, at most 1 MiB is allowed", human_size(file.size())));
  const Value value = TRY(parse_json(file, 0, file.size()));
  const auto* config = std::get_if<Map>(&value);
  if (config == nullptr) return failure(Code::corrupt, "not a JSON object");
  const Value* found = find_for_host(config->find_as<Map>("auths"), host);
  const auto* entry = found == nullptr ? nullptr : std::get_if<Map>(found);
  std::optional<Login> login;
  if (entry != nullptr) login = TRY(parse_login(*entry));
  if (login) return DockerEntry{std::move(login), {}};
  return DockerEntry{std::nullopt, no_login_reason(*config, entry, host)};
}

}  // namespace

Result<DockerEntry> docker_entry(const std::string& path, const std::string& host) {
  const SourcePtr file = TRY(open_file(path));
  return find_entry(*file, host).map_error([&](Error error) {
    error.message = printable(path) + ": " + error.message;
    return error;
  });
}

}  // namespace weightfs::registry
