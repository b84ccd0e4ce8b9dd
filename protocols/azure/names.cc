// Names of accounts and containers, and the URLs of what is in them.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "cache/url.h"
#include "protocols/azure.h"

namespace weightfs::azure {
namespace {

bool consists_of(std::string_view text, std::string_view others) {
  return std::ranges::all_of(
      text, [&](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || others.find(c) != others.npos; });
}

// Takes the parameters of a list from a query, each at most once; false for another query.
bool is_list_below(std::string_view query, const std::string& folder) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"comp", "include", "marker", "maxresults", "prefix", "restype"});
  std::vector<std::string_view> seen;
  bool is_list = false;
  bool is_below = folder.empty();
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), one.size() + 1));
    const std::string_view name = one.substr(0, one.find('='));
    if (std::ranges::find(kNames, name) == kNames.end() || std::ranges::find(seen, name) != seen.end()) return false;
    seen.push_back(name);
    if (name == "comp" && one != "comp=list") return false;
    if (name == "restype" && one != "restype=container") return false;
    is_list |= name == "comp";
    if (name == "prefix") is_below = one.starts_with("prefix=" + http::url_encoded(folder));
  }
  return is_list && is_below;
}

}  // namespace

std::optional<std::pair<std::string, std::string>> account_of_host(std::string_view host) {
  constexpr auto kDomains =
      std::to_array<std::string_view>({kPublicCloud, "core.usgovcloudapi.net", "core.chinacloudapi.cn"});
  const std::string name = lower_case(host);
  const size_t dot = std::min(name.find('.'), name.size());
  for (const std::string_view service : {".blob.", ".dfs."})
    for (const std::string_view domain : kDomains)
      if (dot > 0 && name.substr(dot) == fmt::format("{}{}", service, domain))
        return std::pair(name.substr(0, dot), std::string(domain));
  return std::nullopt;
}

std::string domain_of_url(std::string_view url) {
  url.remove_prefix(std::min(url.size(), url.find("://") + 3));
  const auto found = account_of_host(url.substr(0, url.find_first_of(":/")));
  return found ? found->second : "";
}

std::string Settings::domain() const {
  std::string found = domain_of_url(endpoint);
  return found.empty() ? kPublicCloud : found;
}

bool Place::is_valid() const {
  constexpr size_t kMinAccount = 3;
  constexpr size_t kMaxAccount = 24;
  constexpr size_t kMaxContainer = 63;
  return account.size() >= kMinAccount && account.size() <= kMaxAccount && consists_of(account, "") && !name.empty() &&
         name.size() <= kMaxContainer && consists_of(name, "-$") && name.find('$', 1) == name.npos;
}

std::string Place::url(const Settings& settings) const {
  if (settings.endpoint.empty() || is_url || !settings.is_for(account, domain))
    return fmt::format("https://{}.blob.{}/{}", account, domain.empty() ? kPublicCloud : domain,
                       http::url_encoded(name));
  const std::string& endpoint = settings.endpoint;
  return fmt::format("{}/{}", endpoint.substr(0, endpoint.find_last_not_of('/') + 1), http::url_encoded(name));
}

http::CredentialsName Place::credentials(const Settings& settings) const {
  http::CredentialsName found{.kind = http::CredentialsName::Kind::azure, .server = url(settings), .region = account};
  if (!sas.empty()) found.headers.push_back(sas);
  return found;
}

bool is_of_container(std::string_view url, const std::string& below, const std::string& folder) {
  const size_t question = std::min(url.find('?'), url.size());
  const std::string_view path = url.substr(0, question);
  if (question == url.size())
    return path.size() > below.size() && path.starts_with(below + http::url_encoded(folder, "/"));
  return path == std::string_view(below).substr(0, below.size() - 1) && is_list_below(url.substr(question + 1), folder);
}

}  // namespace weightfs::azure
