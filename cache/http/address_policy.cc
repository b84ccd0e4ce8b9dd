#include "cache/address_policy.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/text.h"

namespace weightfs {
namespace {

struct Block4 {
  uint32_t network;
  int bits;
  std::string_view use;
};

// https://www.iana.org/assignments/iana-ipv4-special-registry, and multicast.
constexpr std::array kBlocks4 = {
    Block4{0x00000000, 8, "unspecified"},     // 0.0.0.0/8
    Block4{0x0A000000, 8, "private"},         // 10.0.0.0/8
    Block4{0x64400000, 10, "shared"},         // 100.64.0.0/10, behind a carrier's NAT (RFC 6598)
    Block4{0x7F000000, 8, "loopback"},        // 127.0.0.0/8
    Block4{0xA9FE0000, 16, "link-local"},     // 169.254.0.0/16: also where clouds serve their credentials
    Block4{0xAC100000, 12, "private"},        // 172.16.0.0/12
    Block4{0xC0000000, 24, "reserved"},       // 192.0.0.0/24
    Block4{0xC0000200, 24, "documentation"},  // 192.0.2.0/24
    Block4{0xC0586300, 24, "reserved"},       // 192.88.99.0/24
    Block4{0xC0A80000, 16, "private"},        // 192.168.0.0/16
    Block4{0xC6120000, 15, "benchmarking"},   // 198.18.0.0/15
    Block4{0xC6336400, 24, "documentation"},  // 198.51.100.0/24
    Block4{0xCB007100, 24, "documentation"},  // 203.0.113.0/24
    Block4{0xE0000000, 4, "multicast"},       // 224.0.0.0/4
    Block4{0xF0000000, 4, "reserved"},        // 240.0.0.0/4, and broadcast
};

struct Block6 {
  std::array<uint16_t, 8> network;
  int bits;
  std::string_view use;
};

// https://www.iana.org/assignments/iana-ipv6-special-registry. The first match decides. Everything outside 2000::/3 is
// not global unicast.
constexpr std::array kBlocks6 = {
    Block6{{}, 128, "unspecified"},
    Block6{{0, 0, 0, 0, 0, 0, 0, 1}, 128, "loopback"},
    Block6{{0x64, 0xff9b, 1}, 48, "private"},  // NAT64 of a network's own (RFC 8215)
    Block6{{0xfc00}, 7, "private"},            // unique local
    Block6{{0xfe80}, 10, "link-local"},
    Block6{{0xfec0}, 10, "site-local"},
    Block6{{0xff00}, 8, "multicast"},
    Block6{{0x2001, 0xdb8}, 32, "documentation"},
    Block6{{0x3fff}, 20, "documentation"},
    Block6{{0x2001}, 23, "reserved"},  // IETF protocols: Teredo, benchmarking, ORCHID
};

// Where an IPv6 address embeds an IPv4 address.
struct Ipv4Embedding {
  std::array<uint16_t, 8> network;
  int bits;
  size_t at;  // offset of the IPv4 address
};
constexpr std::array kIpv4Embeddings = {
    Ipv4Embedding{{0, 0, 0, 0, 0, 0xffff}, 96, 12},  // mapped (RFC 4291, section 2.5.5.2)
    Ipv4Embedding{{0x64, 0xff9b}, 96, 12},           // NAT64 (RFC 6052)
    Ipv4Embedding{{0x2002}, 16, 2},                  // 6to4 (RFC 3056)
};

bool is_in(const in6_addr& address, const std::array<uint16_t, 8>& network, int bits) {
  for (size_t group = 0; group < network.size() && bits > 0; ++group, bits -= 16) {
    const auto found = static_cast<uint16_t>(address.s6_addr[2 * group] << 8 | address.s6_addr[2 * group + 1]);
    const auto mask = static_cast<uint16_t>(bits >= 16 ? 0xffff : 0xffff << (16 - bits));
    if ((found & mask) != network.at(group)) return false;
  }
  return true;
}

std::optional<in_addr> embedded_ipv4(const in6_addr& address) {
  for (const Ipv4Embedding& embedding : kIpv4Embeddings) {
    if (!is_in(address, embedding.network, embedding.bits)) continue;
    in_addr inner{};
    std::memcpy(&inner, address.s6_addr + embedding.at, sizeof inner);
    return inner;
  }
  return std::nullopt;
}

// Copies a sockaddr to the type of its family, since it may be unaligned.
template <class Address>
Address as(const sockaddr& address) {
  Address copy;
  std::memcpy(&copy, &address, sizeof copy);
  return copy;
}

template <class Address>
sockaddr_storage stored(const Address& address) {
  sockaddr_storage storage{};
  std::memcpy(&storage, &address, sizeof address);
  return storage;
}

sockaddr_storage stored4(in_addr address) {
  sockaddr_in socket{};
  socket.sin_family = AF_INET;
  socket.sin_addr = address;
  return stored(socket);
}

}  // namespace

std::string_view special_use(const in_addr& address) {
  const uint32_t found = ntohl(address.s_addr);
  const auto* const block = std::find_if(kBlocks4.begin(), kBlocks4.end(), [&](const Block4& b) {
    return (found & (UINT32_MAX << (32 - b.bits))) == b.network;
  });
  return block == kBlocks4.end() ? std::string_view() : block->use;
}

std::string_view special_use(const in6_addr& address) {
  if (const auto inner = embedded_ipv4(address)) return special_use(*inner);
  for (const Block6& block : kBlocks6)
    if (is_in(address, block.network, block.bits)) return block.use;
  return is_in(address, {0x2000}, 3) ? "" : "reserved";
}

std::string_view special_use(const sockaddr& address) {
  if (address.sa_family == AF_INET) return special_use(as<sockaddr_in>(address).sin_addr);
  if (address.sa_family == AF_INET6) return special_use(as<sockaddr_in6>(address).sin6_addr);
  return "unknown";
}

std::string printable_address(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const char* printed = nullptr;
  if (address.sa_family == AF_INET) {
    const in_addr inner = as<sockaddr_in>(address).sin_addr;
    printed = ::inet_ntop(AF_INET, &inner, text.data(), text.size());
  } else if (address.sa_family == AF_INET6) {
    const in6_addr inner = as<sockaddr_in6>(address).sin6_addr;
    printed = ::inet_ntop(AF_INET6, &inner, text.data(), text.size());
  }
  return printed == nullptr ? "an unknown address family" : printed;
}

std::optional<sockaddr_storage> literal_address(std::string host) {
  host = lower_case(host);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  if (::inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &six.sin6_addr) == 1) return stored(six);
  if (!host.empty() && host.back() == '.') host.pop_back();
  in_addr four{};
  if (::inet_aton(host.c_str(), &four) != 0) return stored4(four);
  constexpr std::string_view kBelow = ".localhost";
  const bool below =
      host.size() > kBelow.size() && std::string_view(host).substr(host.size() - kBelow.size()) == kBelow;
  if (host == "localhost" || below) return stored4(in_addr{htonl(INADDR_LOOPBACK)});
  return std::nullopt;
}

bool is_loopback_host(std::string_view host) {
  const size_t colon = host.rfind(':');
  // Other colons belong to an IPv6 address.
  const bool has_port = colon != host.npos && (host.find(':') == colon || host[colon - 1] == ']');
  const auto address = literal_address(std::string(has_port ? host.substr(0, colon) : host));
  return address && special_use(reinterpret_cast<const sockaddr&>(*address)) == "loopback";
}

}  // namespace weightfs
