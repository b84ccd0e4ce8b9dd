#include "cache/registry/docker_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"
#include "base/values/json.h"
#include "cache/registry/base64.h"

namespace weightfs {
namespace {

constexpr uint64_t kLongestConfig = 1024 * 1024;

const std::string* text_of(const Map& map, std::string_view key) {
  const Value* value = map.find(key);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr || text->empty() ? nullptr : text;
}

const Map* map_of(const Map& map, std::string_view key) {
  const Value* value = map.find(key);
  return value == nullptr ? nullptr : std::get_if<Map>(value);
}

// The registry that a key of `auths` means: "https://index.docker.io/v1/" is Docker Hub, and a URL its host. A key with
// another path is for a part of a registry only, and is none of ours.
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

// The value for `host` in a map by registries: that of the key that spells it so, or else of the first that means it.
const Value* for_host(const Map* registries, const std::string& host) {
  if (registries == nullptr) return nullptr;
  if (const Value* same = registries->find(host)) return same;
  const std::string wanted = registry_of(host);
  const auto found = std::find_if(registries->begin(), registries->end(),
                                  [&](const Map::Entry& entry) { return registry_of(entry.first) == wanted; });
  return found == registries->end() ? nullptr : &found->second;
}

// "auth" is the base 64 of "user:password"; some write the two by themselves.
Result<std::optional<Login>> login_of(const Map& entry) {
  if (const std::string* auth = text_of(entry, "auth")) {
    const auto both = from_base64(*auth);
    const size_t colon = both ? both->find(':') : std::string::npos;
    if (colon == std::string::npos) return failure(Code::corrupt, "\"auth\" is no base 64 of user:password");
    return Login{both->substr(0, colon), both->substr(colon + 1)};
  }
  const std::string* user = text_of(entry, "username");
  const std::string* password = text_of(entry, "password");
  if (user == nullptr || password == nullptr) return std::nullopt;
  return Login{*user, *password};
}

// Why there is no login.
std::string reason_of(const Map& config, const Map* entry, const std::string& host) {
  if (entry != nullptr && text_of(*entry, "identitytoken") != nullptr)
    return str("has only an identity token for ", host, ", which is not used");
  const Value* value = for_host(map_of(config, "credHelpers"), host);
  const auto* helper = value == nullptr ? nullptr : std::get_if<std::string>(value);
  if (helper == nullptr) helper = text_of(config, "credsStore");
  if (helper != nullptr)
    return str("leaves ", host, " to the credential helper ", quoted(*helper), ", a program that is not run");
  return str("has no login for ", host);
}

Result<DockerEntry> entry_in(const Source& file, const std::string& host) {
  if (file.size() > kLongestConfig)
    return failure(Code::corrupt, str("a docker config of ", human_size(file.size()), ", at most 1 MiB is read"));
  const Value value = TRY(parse_json(file, 0, file.size()));
  const auto* config = std::get_if<Map>(&value);
  if (config == nullptr) return failure(Code::corrupt, "no JSON object");
  const Value* found = for_host(map_of(*config, "auths"), host);
  const auto* entry = found == nullptr ? nullptr : std::get_if<Map>(found);
  // An identity token stands in for the password of its entry.
  const bool has_token = entry != nullptr && text_of(*entry, "identitytoken") != nullptr;
  std::optional<Login> login;
  if (entry != nullptr && !has_token) login = TRY(login_of(*entry));
  if (login) return DockerEntry{std::move(login), {}};
  return DockerEntry{std::nullopt, reason_of(*config, entry, host)};
}

}  // namespace

Result<DockerEntry> docker_entry(const std::string& path, const std::string& host) {
  const SourcePtr file = TRY(open_file(path));
  return entry_in(*file, host).map_error([&](Error error) {
    error.message = printable(path) + ": " + error.message;
    return error;
  });
}

}  // namespace weightfs
