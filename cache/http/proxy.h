// Finds the proxy for a URL in the environment. libcurl does the same internally, but does not report it; through a
// proxy, the server's address is not known and cannot be checked.
#pragma once

#include <string>

namespace weightfs::http {

/// The proxy for a URL with this scheme ("http", "https") and host (IPv6 with or without brackets), as described in
/// curl(1), ENVIRONMENT: http_proxy (lower case only), https_proxy, all_proxy, no_proxy. Empty for none.
std::string proxy_of(const std::string& scheme, const std::string& host);

}  // namespace weightfs::http
