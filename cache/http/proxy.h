// Which proxy the environment names for a URL. libcurl would find it by itself, but it does not tell whether it did,
// and through a proxy nobody but the proxy knows the address that a name leads to.
#pragma once

#include <string>

namespace weightfs {

/// The proxy for a URL of this scheme ("http", "https") and host (IPv6 with or without brackets), as curl(1) describes
/// it under ENVIRONMENT: http_proxy (in lower case only), https_proxy, all_proxy, no_proxy. Empty for none.
std::string proxy_of(const std::string& scheme, const std::string& host);

}  // namespace weightfs
