#include "protocols/registry/logins.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/cancel.h"
#include "base/text.h"

namespace weightfs::registry {

namespace {

std::vector<std::string> files_of(const CredentialPaths& paths) {
  std::vector<std::string> files = paths.auth_files;
  if (!paths.docker_config.empty() && std::ranges::find(files, paths.docker_config) == files.end())
    files.push_back(paths.docker_config);
  return files;
}

// Fails only if the work of the thread is cancelled: the model may be public.
Result<FoundLogin> login_of_helper(const CredentialPaths& paths, const HelperUse& use, const std::stop_token& stop) {
  const std::string uses = fmt::format("uses the credential helper {} for {}, which", quoted(use.name), use.server);
  if (paths.helpers == nullptr)
    return FoundLogin{.reason = uses +
                                " runs only with --credential-helpers (or use podman login, or a file with the "
                                "login in $REGISTRY_AUTH_FILE)"};
  auto login = paths.helpers->login(use, stop);
  if (!login && login.error().code == Code::network) return failure(std::move(login).error());
  if (!login) return FoundLogin{.reason = fmt::format("{} {}", uses, login.error().message)};
  return FoundLogin{std::move(*login), fmt::format("credential helper {}", use.name)};
}

}  // namespace

std::vector<std::string> auth_files_of_user() {
  constexpr std::string_view kName = "/containers/auth.json";
  std::vector<std::string> files;
  const std::string named = environment("REGISTRY_AUTH_FILE");
  const std::string runtime = environment("XDG_RUNTIME_DIR");
  if (!named.empty())
    files.push_back(named);
  else if (!runtime.empty())
    files.push_back(fmt::format("{}{}", runtime, kName));
  else
    files.push_back(fmt::format("/run/containers/{}/auth.json", ::getuid()));
  std::string config = environment("XDG_CONFIG_HOME");
  const std::string home = environment("HOME");
  if (config.empty() && !home.empty()) config = home + "/.config";
  if (!config.empty()) files.push_back(fmt::format("{}{}", config, kName));
  return files;
}

std::string repository_of(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == url.npos) return {};
  const size_t slash = url.find('/', scheme + 3);
  if (slash == url.npos) return {};
  std::string_view path = std::string_view(url).substr(slash + 1);
  path = path.substr(0, path.find_first_of("?#"));
  if (path.starts_with("v2/")) path.remove_prefix(3);
  while (path.ends_with('/')) path.remove_suffix(1);
  return std::string(path == "v2" ? std::string_view() : path);
}

Result<FoundLogin> find_login(const CredentialPaths& paths, const std::string& host, const std::string& repository,
                              const std::stop_token& stop) {
  std::string reason;
  for (const std::string& file : files_of(paths)) {
    auto entry = docker_entry(file, host, repository);
    if (!entry && entry.error().code == Code::not_found) continue;
    if (!entry && is_cancelled()) return failure(Code::network, entry.error().message);  // not: without a login
    if (!entry && entry.error().code == Code::corrupt) return failure(Code::unsupported, entry.error().message);
    if (entry && entry->helper) {
      FoundLogin of_helper = TRY(login_of_helper(paths, *entry->helper, stop));
      if (of_helper.login) return of_helper;
      entry->reason = std::move(of_helper.reason);
    }
    if (entry && entry->login) return FoundLogin{std::move(entry->login), file};
    if (!reason.empty()) reason += ", and ";
    reason += entry ? fmt::format("{} {}", printable(file), entry->reason) : entry.error().message;
  }
  return FoundLogin{.reason = reason.empty() ? "there is no docker config" : std::move(reason)};
}

std::vector<std::pair<HelperUse, std::string>> configured_helpers(const CredentialPaths& paths,
                                                                  const std::vector<std::string>& hosts) {
  std::vector<std::pair<HelperUse, std::string>> helpers;
  for (const std::string& file : files_of(paths))
    for (const std::string& host : hosts)
      if (auto entry = docker_entry(file, host); entry && entry->helper)
        helpers.emplace_back(std::move(*entry->helper), file);
  return helpers;
}

}  // namespace weightfs::registry
