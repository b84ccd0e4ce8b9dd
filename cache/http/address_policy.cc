#include "cache/address_policy.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/text.h"
#include "cache/http/exchange.h"

namespace weightfs {
namespace {

struct Block {
  const char* network;
  std::string_view use;
};

// https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry, and multicast. The first
// match decides.
constexpr auto kBlocks = std::to_array<Block>({
    {"0.0.0.0/8", "unspecified"},
    {"10.0.0.0/8", "private"},
    {"100.64.0.0/10", "shared"},  // behind a carrier's NAT (RFC 6598)
    {"127.0.0.0/8", "loopback"},
    {"169.254.0.0/16", "link-local"},  // also where clouds serve their credentials
    {"172.16.0.0/12", "private"},
    {"192.0.0.0/24", "reserved"},
    {"192.0.2.0/24", "documentation"},
    {"192.88.99.0/24", "reserved"},
    {"192.168.0.0/16", "private"},
    {"198.18.0.0/15", "benchmarking"},
    {"198.51.100.0/24", "documentation"},
    {"203.0.113.0/24", "documentation"},
    {"224.0.0.0/4", "multicast"},
    {"240.0.0.0/4", "reserved"},  // and broadcast
    {"::", "unspecified"},
    {"::1", "loopback"},
    {"64:ff9b:1::/48", "private"},  // NAT64 of a network's own (RFC 8215)
    {"fc00::/7", "private"},        // unique local
    {"fe80::/10", "link-local"},
    {"fec0::/10", "site-local"},
    {"ff00::/8", "multicast"},
    {"2001:db8::/32", "documentation"},
    {"3fff::/20", "documentation"},
    {"2001::/23", "reserved"},  // IETF protocols: Teredo, benchmarking, ORCHID
});

// Where an IPv6 address embeds an IPv4 address.
struct Embedding {
  const char* network;
  size_t at;  // offset of the IPv4 address
};
constexpr auto kEmbeddings = std::to_array<Embedding>({
    {"64:ff9b::/96", 12},  // NAT64 (RFC 6052)
    {"2002::/16", 2},      // 6to4 (RFC 3056)
});

constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

in6_addr mapped(const void* ipv4) {
  in6_addr address{};
  std::memcpy(address.s6_addr, kMapped.data(), kMapped.size());
  std::memcpy(address.s6_addr + kMapped.size(), ipv4, sizeof(in_addr));
  return address;
}

bool is_mapped(const in6_addr& address) { return std::memcmp(address.s6_addr, kMapped.data(), kMapped.size()) == 0; }

}  // namespace

bool is_in(const in6_addr& address, std::string_view network) {
  const size_t slash = network.find('/');
  const auto first = literal_address(std::string(network.substr(0, slash)));
  if (!first || is_mapped(*first) != is_mapped(address)) return false;
  const size_t before = is_mapped(address) ? kMapped.size() * 8 : 0;
  const size_t most = sizeof address * 8 - before;
  const auto bits = slash == network.npos ? most : parse_number<size_t>(network.substr(slash + 1));
  if (!bits || *bits > most) return false;
  for (size_t i = 0; i < before + *bits; ++i)
    if (((address.s6_addr[i / 8] ^ first->s6_addr[i / 8]) & (0x80 >> (i % 8))) != 0) return false;
  return true;
}

std::string_view special_use(const in6_addr& address) {
  for (const Embedding& embedding : kEmbeddings)
    if (is_in(address, embedding.network)) return special_use(mapped(address.s6_addr + embedding.at));
  for (const Block& block : kBlocks)
    if (is_in(address, block.network)) return block.use;
  // Everything else outside 2000::/3 is not global unicast.
  return is_mapped(address) || is_in(address, "2000::/3") ? "" : "reserved";
}

bool is_metadata_address(const in6_addr& address) {
  constexpr std::array kAddresses = {"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "fd00:ec2::254",
                                     "fd00:ec2::23"};
  return std::any_of(kAddresses.begin(), kAddresses.end(), [&](const char* each) { return is_in(address, each); });
}

std::string printable_address(const in6_addr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (is_mapped(address))
    ::inet_ntop(AF_INET, address.s6_addr + kMapped.size(), text.data(), text.size());
  else
    ::inet_ntop(AF_INET6, &address, text.data(), text.size());
  return text.data();
}

std::optional<in6_addr> address_of(const sockaddr& address) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&address);
  if (address.sa_family == AF_INET) return mapped(bytes + offsetof(sockaddr_in, sin_addr));
  if (address.sa_family != AF_INET6) return std::nullopt;
  in6_addr found{};
  std::memcpy(&found, bytes + offsetof(sockaddr_in6, sin6_addr), sizeof found);
  return found;
}

std::optional<in6_addr> literal_address(std::string host) {
  host = lower_case(host);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  in6_addr six{};
  if (::inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &six) == 1) return six;
  if (host.ends_with('.')) host.pop_back();
  constexpr std::string_view kBelow = ".localhost";
  if (host == "localhost" || (host.size() > kBelow.size() && host.ends_with(kBelow))) host = "127.0.0.1";
  in_addr four{};
  if (::inet_aton(host.c_str(), &four) != 0) return mapped(&four);
  return std::nullopt;
}

bool is_loopback_host(std::string_view host) {
  const size_t colon = host.rfind(':');
  // Other colons belong to an IPv6 address.
  const bool has_port = colon != host.npos && (host.find(':') == colon || host[colon - 1] == ']');
  const auto address = literal_address(std::string(has_port ? host.substr(0, colon) : host));
  return address && special_use(*address) == "loopback";
}

bool is_confidential(std::string_view origin) {
  constexpr std::string_view kHttp = "http://";
  return origin.starts_with("https://") || (origin.starts_with(kHttp) && is_loopback_host(origin.substr(kHttp.size())));
}

}  // namespace weightfs

namespace weightfs::http {

std::string AddressPolicy::refusal(const std::optional<in6_addr>& address) const {
  if (!address) return "refused: unknown address";
  const std::string_view use = special_use(*address);
  // App Service gives tokens at changing addresses of this network.
  const bool is_local_service = is_metadata_address(*address) || is_in(*address, "169.254.0.0/16");
  if (loopback_only && use != "loopback" && !(metadata && is_local_service))
    return fmt::format("plain http to {} refused; use https or --insecure", printable_address(*address));
  if (public_only && !use.empty())
    return fmt::format("refused: {} is a {} address; {} must have public addresses; use --allow-private-urls",
                       printable_address(*address), use, subject);
  if (!metadata && is_metadata_address(*address))
    return fmt::format("refused: {} gives keys of this machine", printable_address(*address));
  return "";
}

}  // namespace weightfs::http
