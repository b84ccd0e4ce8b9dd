// Which IP addresses are public. URLs in containers are fetched from public addresses only, so that a model file cannot
// send requests to services of the user's machine and network (SSRF).
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <string_view>

namespace weightfs {

/// The special use of an address ("loopback", "private", "multicast"…) in IANA's special-purpose registries (RFC 6890);
/// empty for a public address. An IPv4 address embedded in IPv6 (mapped, NAT64, 6to4) is classified as IPv4.
std::string_view special_use(const in_addr& address);
std::string_view special_use(const in6_addr& address);
/// The same; an address that is neither IPv4 nor IPv6 is special.
std::string_view special_use(const sockaddr& address);

/// "127.0.0.1", "fe80::1".
std::string printable_address(const sockaddr& address);

/// Parses a URL's host as an address literal in every notation that resolvers accept: "10.1.2.3", "0x7f.1",
/// "2130706433", "[::1]". "localhost" and its subdomains give 127.0.0.1 (RFC 6761, section 6.3), with or without a
/// trailing dot. Nothing for a name that needs DNS.
std::optional<sockaddr_storage> literal_address(std::string host);

/// Whether a URL's host, with or without a port, is a loopback literal: "localhost:5000", "127.0.0.1", "[::1]:80".
/// False for a name that needs DNS.
bool is_loopback_host(std::string_view host);

}  // namespace weightfs
