// Which addresses belong to the public internet. What containers name is fetched from there only, so that a model file
// cannot make its reader ask the services of his own machine and network.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <string_view>

namespace weightfs {

/// What an address is instead of a public one ("loopback", "private", "multicast"…), by IANA's registries of
/// special-purpose addresses (RFC 6890); empty for a public one. IPv4 addresses in IPv6 clothes (mapped, NAT64, 6to4)
/// are what the IPv4 address is.
std::string_view special_use(const in_addr& address);
std::string_view special_use(const in6_addr& address);
/// The same; an address that is neither IPv4 nor IPv6 is special.
std::string_view special_use(const sockaddr& address);

/// "127.0.0.1", "fe80::1".
std::string printable_address(const sockaddr& address);

/// The address that a URL's host spells in any of the ways that resolvers know: "10.1.2.3", "0x7f.1", "2130706433",
/// "[::1]"; also 127.0.0.1 for "localhost" and names below it (RFC 6761, section 6.3), with or without a dot at the
/// end. Nothing for a name that has to be looked up.
std::optional<sockaddr_storage> spelled_address(std::string host);

/// Whether a URL's host, with or without a port, is this machine by how it is spelled: "localhost:5000", "127.0.0.1",
/// "[::1]:80". False for a name that has to be looked up.
bool is_loopback_host(std::string_view host);

}  // namespace weightfs
