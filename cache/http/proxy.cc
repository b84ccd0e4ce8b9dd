#include "cache/http/proxy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "cache/address_policy.h"

namespace weightfs::http {
namespace {

// A name in lower case, without leading and trailing dots.
std::string normalized_name(std::string_view name) {
  if (!name.empty() && name.front() == '.') name.remove_prefix(1);
  if (!name.empty() && name.back() == '.') name.remove_suffix(1);
  return lower_case(name);
}

std::string_view bytes_of(const sockaddr_storage& address) {
  const auto* begin = reinterpret_cast<const char*>(&address);
  return address.ss_family == AF_INET ? std::string_view(begin + offsetof(sockaddr_in, sin_addr), 4)
                                      : std::string_view(begin + offsetof(sockaddr_in6, sin6_addr), 16);
}

bool have_common_prefix(std::string_view a, std::string_view b, size_t bits) {
  for (size_t i = 0; i < bits; ++i)
    if (((a[i / 8] ^ b[i / 8]) & (0x80 >> (i % 8))) != 0) return false;
  return true;
}

// "10.0.0.0/8", "fd00::1".
bool is_in(const sockaddr_storage& host, const std::string& network) {
  const size_t slash = network.find('/');
  const auto named = literal_address(network.substr(0, slash));
  if (!named || named->ss_family != host.ss_family) return false;
  size_t bits = bytes_of(host).size() * 8;
  if (slash != std::string::npos) {
    size_t given = 0;
    const char* const end = network.data() + network.size();
    if (std::from_chars(network.data() + slash + 1, end, given).ptr != end || given > bits) return false;
    bits = given;
  }
  return have_common_prefix(bytes_of(host), bytes_of(*named), bits);
}

bool matches(const std::string& host, const std::optional<sockaddr_storage>& address, const std::string& entry) {
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

std::string proxy_of(const std::string& scheme, const std::string& host) {
  std::string proxy = scheme == "https" ? environment({"https_proxy", "HTTPS_PROXY"}) : environment("http_proxy");
  if (proxy.empty()) proxy = environment({"all_proxy", "ALL_PROXY"});
  return proxy.empty() || is_exempt(host, environment({"no_proxy", "NO_PROXY"})) ? "" : proxy;
}

}  // namespace weightfs::http
