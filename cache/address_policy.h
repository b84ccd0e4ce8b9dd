// Which IP addresses are public. URLs in containers are fetched from public addresses only, so that a model file cannot
// send requests to services of the user's machine and network (SSRF). An IPv4 address is the mapped one of IPv6,
// ::ffff:a.b.c.d (RFC 4291, section 2.5.5.2).
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <string_view>

namespace weightfs {

/// The special use of an address ("loopback", "private", "multicast"…) in IANA's special-purpose registries (RFC 6890);
/// empty for a public address. An IPv4 address embedded in IPv6 (mapped, NAT64, 6to4) is classified as IPv4.
std::string_view special_use(const in6_addr& address);

/// Whether the address is one of those, all link-local or private, where AWS serves keys to its own machines and
/// containers: 169.254.169.254, 169.254.170.2, 169.254.170.23, fd00:ec2::254 and fd00:ec2::23. (docs.aws.amazon.com:
/// "Instance metadata service", "Amazon ECS task IAM role", "EKS Pod Identity".)
bool is_metadata_address(const in6_addr& address);

/// Whether the address is in a network, "10.0.0.0/8" or "fd00::/8", or is this address: "::1". An IPv4 address is in no
/// IPv6 network.
bool is_in(const in6_addr& address, std::string_view network);

/// "127.0.0.1", "fe80::1".
std::string printable_address(const in6_addr& address);

/// The address of a socket; nothing if it is neither IPv4 nor IPv6.
std::optional<in6_addr> address_of(const sockaddr& address);

/// Parses a URL's host as an address literal in every notation that resolvers accept: "10.1.2.3", "0x7f.1",
/// "2130706433", "[::1]". "localhost" and its subdomains give 127.0.0.1 (RFC 6761, section 6.3), with or without a
/// trailing dot. Nothing for a name that needs DNS.
std::optional<in6_addr> literal_address(std::string host);

/// Whether a URL's host, with or without a port, is a loopback literal: "localhost:5000", "127.0.0.1", "[::1]:80".
/// False for a name that needs DNS.
bool is_loopback_host(std::string_view host);

/// Whether no network can read requests to an origin: with https, or to a loopback literal ("http://localhost:80").
bool is_confidential(std::string_view origin);

}  // namespace weightfs
