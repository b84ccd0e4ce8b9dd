#include "protocols/registry_server.h"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>

#include "base/text.h"
#include "cache/address_policy.h"
#include "cache/url.h"

namespace weightfs::registry {
namespace {

constexpr size_t kMaxName = 255;
constexpr std::string_view kDockerHub = "registry-1.docker.io";

bool is_docker_hub(std::string_view host) {
  return host == "docker.io" || host == "index.docker.io" || host == kDockerHub;
}

// [a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*
bool is_component_of_name(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (text.empty() || !is_letter(text.front()) || !is_letter(text.back())) return false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (is_letter(text[at])) continue;
    const size_t begin = at;
    while (!is_letter(text[at + 1])) ++at;
    const std::string_view run = text.substr(begin, at + 1 - begin);
    if (run != "." && run != "_" && run != "__" && run.find_first_not_of('-') != run.npos) return false;
  }
  return true;
}

bool is_repository_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxName || name.ends_with('/')) return false;
  for (std::string_view rest = name; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    if (!is_component_of_name(part)) return false;
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  }
  return true;
}

}  // namespace

Result<std::string> parse_server(std::string_view text) {
  std::string server = lower_case(text);
  const size_t scheme = server.find("://");
  std::string host = scheme == server.npos ? server : server.substr(scheme + 3);
  while (host.ends_with('/')) host.pop_back();
  const std::string kind = scheme != server.npos ? server.substr(0, scheme) : is_loopback_host(host) ? "http" : "https";
  if (is_docker_hub(host)) host = kDockerHub;
  server = fmt::format("{}://{}", kind, host);
  const bool is_one = (kind == "https" || kind == "http") && host.find_first_of("/@?#") == host.npos &&
                      (host.find_first_of(".:") != host.npos || host == "localhost");
  if (!is_one || http::origin_of(server).empty())
    return failure(Code::unsupported, "not the name of a registry");  // it may have a password
  return server;
}

bool is_namespace_of(std::string_view name_space, const std::string& server) {
  const std::string host = server.substr(server.find("://") + 3);
  const std::string sent = lower_case(name_space);
  return sent == host || (is_docker_hub(sent) && is_docker_hub(host));
}

bool is_permitted_repository(const std::string& name, const std::vector<std::string>& patterns) {
  return is_repository_name(name) && std::ranges::any_of(patterns, [&](const std::string& pattern) {
           return ::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
         });
}

std::string repository_in(std::string_view url, std::string_view below) {
  if (!url.starts_with(below)) return {};
  url.remove_prefix(below.size());
  const size_t last = url.rfind('/');
  if (last == url.npos || last + 1 == url.size() || url.find('?') != url.npos) return {};
  url = url.substr(0, last);
  for (const std::string_view kind : {"/manifests", "/blobs"})
    if (url.ends_with(kind)) return std::string(url.substr(0, url.size() - kind.size()));
  return {};
}

}  // namespace weightfs::registry
