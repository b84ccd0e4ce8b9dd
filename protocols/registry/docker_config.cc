#include "protocols/registry/docker_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "base/files/file_source.h"
#include "base/text.h"
#include "base/values/base64.h"
#include "base/values/json.h"

namespace weightfs::registry {
namespace {

constexpr uint64_t kMaxConfig = 1024 * 1024;

// What a key in `auths` is for: all of a registry, or the repositories below a path.
struct KeyPlace {
  std::string registry;
  std::string_view path;  // of the key; empty: all of the registry
};

// "https://index.docker.io/v1/" is Docker Hub, and a URL means its host.
KeyPlace place_of(std::string_view key) {
  for (const std::string_view scheme : {"https://", "http://"})
    if (key.starts_with(scheme)) key.remove_prefix(scheme.size());
  const size_t slash = std::min(key.find('/'), key.size());
  std::string_view path = key.substr(std::min(slash + 1, key.size()));
  while (path.ends_with('/')) path.remove_suffix(1);
  if (path == "v1" || path == "v2") path = {};
  std::string host = lower_case(key.substr(0, slash));
  if (host.ends_with(":443")) host.resize(host.size() - 4);
  const bool hub = host == "docker.io" || host == "index.docker.io" || host == "registry-1.docker.io";
  return {hub ? "docker.io" : host, path};
}

bool is_at_or_below(std::string_view repository, std::string_view path) {
  return path.empty() ||
         (repository.starts_with(path) && (repository.size() == path.size() || repository[path.size()] == '/'));
}

// The value in a map by registry: of the longest key that applies, and of equally long ones that which is written like
// the name, else the first one.
const Value* find_for(const Map* registries, const std::string& host, const std::string& repository) {
  if (registries == nullptr) return nullptr;
  const std::string registry = place_of(host).registry;
  const Value* best = nullptr;
  size_t best_size = 0;
  bool is_exact = false;
  for (const auto& [key, value] : *registries) {
    const KeyPlace place = place_of(key);
    if (place.registry != registry || !is_at_or_below(repository, place.path)) continue;
    const bool is_same = key.starts_with(host) && key.size() == host.size() + place.path.size() + !place.path.empty();
    const bool is_longer = place.path.size() > best_size;
    if (best != nullptr && !is_longer && (place.path.size() < best_size || is_exact || !is_same)) continue;
    best = &value;
    best_size = place.path.size();
    is_exact = is_same;
  }
  return best;
}

// "auth" is base64 of "user:password"; some tools write two fields instead. An identity token replaces the password.
Result<std::optional<Login>> parse_login(const Map& entry) {
  if (const std::string_view token = text_in(entry, "identitytoken"); !token.empty())
    return Login{{}, {}, std::string(token)};
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

// An empty name in `credHelpers` means that the registry has none.
std::optional<HelperUse> find_helper(const Map& config, const std::string& host) {
  const Value* value = find_for(config.find_as<Map>("credHelpers"), host, "");
  const auto* named = value == nullptr ? nullptr : std::get_if<std::string>(value);
  const std::string_view name = named != nullptr ? *named : text_in(config, "credsStore");
  if (name.empty()) return std::nullopt;
  const std::string registry = place_of(host).registry;
  return HelperUse{std::string(name), registry == "docker.io" ? "https://index.docker.io/v1/" : registry};
}

Result<DockerEntry> find_entry(const Source& file, const std::string& host, const std::string& repository) {
  if (file.size() > kMaxConfig)
    return failure(Code::corrupt,
                   fmt::format("docker config of {}, at most 1 MiB is allowed", human_size(file.size())));
  const Value value = TRY(parse_json(file, 0, file.size()));
  const auto* config = std::get_if<Map>(&value);
  if (config == nullptr) return failure(Code::corrupt, "not a JSON object");
  const Value* found = find_for(config->find_as<Map>("auths"), host, repository);
  const auto* entry = found == nullptr ? nullptr : std::get_if<Map>(found);
  DockerEntry all{{}, find_helper(*config, host), fmt::format("has no login for {}", host)};
  if (entry != nullptr) all.login = TRY(parse_login(*entry));
  return all;
}

}  // namespace

Result<DockerEntry> docker_entry(const std::string& path, const std::string& host, const std::string& repository) {
  const SourcePtr file = TRY(open_file(path));
  return find_entry(*file, host, repository).map_error([&](Error error) {
    error.message = printable(path) + ": " + error.message;
    return error;
  });
}

}  // namespace weightfs::registry
