// Finds the proxy for a URL in the environment. libcurl does the same internally, but does not report it; through a
// proxy, the server's address is not known and cannot be checked.
#pragma once

#include <string>
#include <string_view>

namespace weightfs::http {

struct Proxy {
  std::string url = {};            ///< as it is written: "http://user:password@proxy:3128", "proxy"; empty: none
  std::string_view variable = {};  ///< of the environment, which has it
};

/// "the proxy http://proxy:3128/ ($http_proxy)", without its user and password, for messages.
std::string to_text(const Proxy& proxy);

/// "the proxy http://proxy:3128/ ($http_proxy) answers 403": the answer to CONNECT, or 407.
std::string refusal_text(const Proxy& proxy, int status);

/// The proxy for a URL with this scheme ("http", "https") and host (IPv6 with or without brackets), as described in
/// curl(1), ENVIRONMENT: http_proxy (lower case only), https_proxy, all_proxy, no_proxy.
Proxy proxy_of(const std::string& scheme, const std::string& host);

}  // namespace weightfs::http
