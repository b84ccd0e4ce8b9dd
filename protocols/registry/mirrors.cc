#include "protocols/mirrors.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>

#include "base/budget.h"
#include "base/text.h"
#include "base/values/value.h"
#include "cache/url.h"

namespace weightfs {
namespace {

constexpr size_t kMaxConfig = 1 << 20;
constexpr size_t kMaxMirrors = 8;  // of one registry

bool is_url(std::string_view text) { return text.starts_with("https://") || text.starts_with("http://"); }

std::string without_slash(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

// The text of a file; nothing if there is none.
std::optional<std::string> read_config_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(kMaxConfig + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

Result<Map> parse_config_file(const std::string& text) {
  if (text.size() > kMaxConfig) return failure(Code::unsupported, "too large");
  Budget budget(text.size());
  return parse_toml(text, budget);
}

bool flag_in(const Map& map, std::string_view key) {
  const bool* const flag = map.find_as<bool>(key);
  return flag != nullptr && *flag;
}

// ---- containerd

// The files of a registry, of which containerd reads the first one that exists; none without a directory.
std::vector<std::string> hosts_files(const std::string& directory, const std::string& registry) {
  std::vector<std::string> files;
  if (directory.empty()) return files;
  const auto add = [&](const std::string& name) { files.push_back(fmt::format("{}/{}/hosts.toml", directory, name)); };
  const size_t colon = registry.rfind(':');
  if (colon != registry.npos) add(fmt::format("{}_{}_", registry.substr(0, colon), registry.substr(colon + 1)));
  add(registry);
  add("_default");
  return files;
}

std::vector<std::string> headers_in(const Map& host) {
  std::vector<std::string> headers;
  const Map* const all = host.find_as<Map>("header");
  if (all == nullptr) return headers;
  for (const auto& [name, value] : *all) {
    if (const auto* const text = std::get_if<std::string>(&value))
      headers.push_back(fmt::format("{}: {}", name, *text));
    if (const auto* const list = std::get_if<List>(&value))
      for (const Value& each : *list)
        if (const auto* const text = std::get_if<std::string>(&each))
          headers.push_back(fmt::format("{}: {}", name, *text));
  }
  std::erase_if(headers, [](const std::string& header) { return header.find_first_of("\r\n") != header.npos; });
  return headers;
}

std::optional<Mirror> containerd_mirror(const std::string& registry, const std::string& url, const Map& host) {
  if (!is_url(url)) return std::nullopt;
  Mirror mirror{.registry = registry, .url = without_slash(url), .name_space = registry, .headers = headers_in(host)};
  mirror.is_complete_path = flag_in(host, "override_path");
  const List* const capabilities = host.find_as<List>("capabilities");
  const auto can = [&](std::string_view what) {
    return capabilities == nullptr || std::ranges::any_of(*capabilities, [&](const Value& value) {
             const auto* const text = std::get_if<std::string>(&value);
             return text != nullptr && *text == what;
           });
  };
  mirror.has_digests = can("pull");
  mirror.has_tags = can("resolve");
  return mirror;
}

Result<std::vector<Mirror>> mirrors_in_hosts(const std::string& registry, const std::string& text) {
  const Map config = TRY(parse_config_file(text));
  std::vector<std::pair<size_t, Mirror>> found;
  if (const Map* const hosts = config.find_as<Map>("host"))
    for (const auto& [url, value] : *hosts)
      if (const auto* const host = std::get_if<Map>(&value))
        if (auto mirror = containerd_mirror(registry, url, *host))
          found.emplace_back(text.find(url), std::move(*mirror));
  // A Map has no order of the file.
  std::ranges::stable_sort(found, {}, &std::pair<size_t, Mirror>::first);
  std::vector<Mirror> mirrors;
  for (auto& [at, mirror] : found) mirrors.push_back(std::move(mirror));
  return mirrors;
}

// ---- containers-registries.conf

// Whether a prefix is the host of `name` or a path on it that ends at a component; `*.example.com` fits its subdomains.
bool fits(std::string_view prefix, std::string_view name) {
  if (prefix.starts_with("*.")) {
    const std::string_view host = name.substr(0, name.find('/'));
    return host.size() > prefix.size() - 1 && host.ends_with(prefix.substr(1));
  }
  return name.starts_with(prefix) && (name.size() == prefix.size() || name[prefix.size()] == '/');
}

// The entry of a registry with its prefix.
struct RegistryEntry {
  std::string prefix;
  Map fields;
};

// Replaces `best` if the text has an entry with a longer prefix, or with the same one.
Result<void> find_registry_entry(const std::string& name, const std::string& text, std::optional<RegistryEntry>& best) {
  const Map config = TRY(parse_config_file(text));
  const List* const registries = config.find_as<List>("registry");
  if (registries == nullptr) return {};
  for (const Value& value : *registries) {
    const auto* const entry = std::get_if<Map>(&value);
    if (entry == nullptr) continue;
    std::string prefix(text_in(*entry, "prefix"));
    if (prefix.empty()) prefix = text_in(*entry, "location");
    if (prefix.empty() || !fits(prefix, name) || (best && prefix.size() < best->prefix.size())) continue;
    best = RegistryEntry{std::move(prefix), *entry};
  }
  return {};
}

std::vector<Mirror> mirrors_in(const RegistryEntry& entry, const std::string& registry) {
  std::vector<Mirror> mirrors;
  const List* const list = entry.fields.find_as<List>("mirror");
  if (list == nullptr) return mirrors;
  for (const Value& value : *list) {
    const auto* const fields = std::get_if<Map>(&value);
    const std::string location = fields == nullptr ? "" : without_slash(std::string(text_in(*fields, "location")));
    if (location.empty()) continue;
    const std::string_view pulls = text_in(*fields, "pull-from-mirror");
    Mirror mirror{.registry = registry};
    const size_t slash = std::min(location.find('/'), location.size());
    mirror.url = fmt::format("{}://{}", flag_in(*fields, "insecure") ? "http" : "https", location.substr(0, slash));
    if (!entry.prefix.starts_with("*.") && entry.prefix.size() > registry.size())
      mirror.replaced = entry.prefix.substr(registry.size() + 1);
    mirror.path = location.substr(std::min(slash + 1, location.size()));
    mirror.has_tags = !flag_in(entry.fields, "mirror-by-digest-only") && pulls != "digest-only";
    mirror.has_digests = pulls != "tag-only";
    mirrors.push_back(std::move(mirror));
  }
  return mirrors;
}

// registries.conf, and the files in registries.conf.d beside it, in the order in which they apply; none without `main`.
std::vector<std::string> registries_files(const std::string& main, const std::function<void(const std::string&)>& log) {
  std::vector<std::string> files;
  if (main.empty()) return files;
  std::error_code error;
  for (std::filesystem::directory_iterator each(main + ".d", error), end; !error && each != end; each.increment(error))
    if (each->path().extension() == ".conf") files.push_back(each->path());
  if (error && error != std::errc::no_such_file_or_directory)
    log(fmt::format("{}.d: {}; not all of its mirrors are used", main, error.message()));
  std::ranges::sort(files);
  files.insert(files.begin(), main);
  return files;
}

}  // namespace

Result<Mirror> parse_mirror(std::string_view text) {
  Mirror mirror;
  const size_t equals = text.find('=');
  if (equals != text.npos && !is_url(text)) {
    mirror.registry = text.substr(0, equals);
    text.remove_prefix(equals + 1);
  }
  mirror.url = without_slash(std::string(text));
  if (!is_url(mirror.url))
    return failure(Code::unsupported, fmt::format("{} is not a mirror; use [HOST=]https://MIRROR", quoted(text)));
  mirror.is_cache = mirror.url.ends_with("/v1/blobs");
  if (mirror.is_cache && !mirror.registry.empty())
    return failure(Code::unsupported, fmt::format("{}: a cache mirrors all sources; leave out HOST=", mirror.url));
  return mirror;
}

MirrorFiles MirrorFiles::of_user() {
  MirrorFiles files{"/etc/containerd/certs.d", environment("CONTAINERS_REGISTRIES_CONF")};
  if (!files.containers.empty()) return files;
  files.containers = environment("HOME") + "/.config/containers/registries.conf";
  if (!std::ifstream(files.containers)) files.containers = "/etc/containers/registries.conf";
  return files;
}

std::vector<Mirror> mirrors_for(const std::string& registry, const std::string& repository,
                                const std::vector<Mirror>& given, const MirrorFiles& files,
                                const std::function<void(const std::string&)>& log) {
  std::vector<Mirror> found;
  const auto report = [&](const std::string& file, const Error& error) {
    log(fmt::format("{}: {}; its mirrors are not used", file, error.message));
  };
  for (const Mirror& mirror : given)
    if (!mirror.is_cache && (mirror.registry.empty() || mirror.registry == registry)) found.push_back(mirror);
  for (const std::string& path : hosts_files(files.containerd, registry)) {
    const auto text = read_config_file(path);
    if (!text) continue;
    auto mirrors = mirrors_in_hosts(registry, *text);
    if (!mirrors) report(path, mirrors.error());
    if (mirrors) std::ranges::move(*mirrors, std::back_inserter(found));
    break;
  }
  std::optional<RegistryEntry> entry;
  for (const std::string& path : registries_files(files.containers, log))
    if (const auto text = read_config_file(path))
      if (const auto read = find_registry_entry(fmt::format("{}/{}", registry, repository), *text, entry); !read)
        report(path, read.error());
  if (entry) std::ranges::move(mirrors_in(*entry, registry), std::back_inserter(found));
  // An entry for the registry itself is not a mirror.
  std::erase_if(found, [&](const Mirror& mirror) {
    return mirror.url == "https://" + registry || mirror.url == "http://" + registry;
  });
  if (found.size() > kMaxMirrors) found.resize(kMaxMirrors);
  return found;
}

std::string repository_at(const Mirror& mirror, const std::string& repository) {
  std::string below = repository;
  if (!mirror.replaced.empty()) below.erase(0, std::min(mirror.replaced.size() + 1, below.size()));
  std::string url = mirror.url + (mirror.is_complete_path ? "" : "/v2");
  for (const std::string& part : {mirror.path, below})
    if (!part.empty()) url += "/" + part;
  return url;
}

}  // namespace weightfs
