#include "cache/http/proxy.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "cache/address_policy.h"
#include "cache/url.h"

namespace weightfs::http {
namespace {

// A name in lower case, without leading and trailing dots.
std::string normalized_name(std::string_view name) {
  if (!name.empty() && name.front() == '.') name.remove_prefix(1);
  if (!name.empty() && name.back() == '.') name.remove_suffix(1);
  return lower_case(name);
}

bool matches(const std::string& host, const std::optional<in6_addr>& address, const std::string& entry) {
  if (entry == "*") return true;
  if (address && is_in(*address, entry)) return true;
  const std::string name = normalized_name(host);
  const std::string tail = normalized_name(entry);
  if (tail.empty() || name.size() < tail.size() || name.substr(name.size() - tail.size()) != tail) return false;
  return name.size() == tail.size() || (!address && name[name.size() - tail.size() - 1] == '.');
}

bool is_exempt(const std::string& host, const std::string& list) {
  constexpr const char* kSeparators = ", \t";
  const auto address = literal_address(host);
  for (size_t at = list.find_first_not_of(kSeparators); at != std::string::npos;) {
    const size_t end = std::min(list.find_first_of(kSeparators, at), list.size());
    if (matches(host, address, list.substr(at, end - at))) return true;
    at = list.find_first_not_of(kSeparators, end);
  }
  return false;
}

}  // namespace

std::string to_text(const Proxy& proxy) {
  const bool has_scheme = proxy.url.find("://") != std::string::npos;
  return fmt::format("the proxy {} (${})", printable_url(has_scheme ? proxy.url : "http://" + proxy.url),
                     proxy.variable);
}

std::string refusal_text(const Proxy& proxy, int status) {
  const std::string_view hint = status == 407 ? ", which needs a user and password in it" : "";
  return fmt::format("{} answers {}{}", to_text(proxy), status, hint);
}

Proxy proxy_of(const std::string& scheme, const std::string& host) {
  constexpr std::array kOfHttps = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
  constexpr std::array kOfHttp = {"http_proxy", "all_proxy", "ALL_PROXY"};
  const std::span<const char* const> names = scheme == "https" ? std::span<const char* const>(kOfHttps) : kOfHttp;
  for (const char* const name : names)
    if (std::string url = environment(name); !url.empty())
      return is_exempt(host, environment({"no_proxy", "NO_PROXY"})) ? Proxy() : Proxy{std::move(url), name};
  return {};
}

}  // namespace weightfs::http
