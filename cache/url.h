// URLs, by libcurl's parser: the one that requests use (cache/http/url.cc).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weightfs::http {

/// A parsed URL.
struct Url {
  std::string text;  ///< normalized, without the fragment
  std::string scheme;
  std::string host;
  std::string origin;
};

/// Fails with unsupported when the URL must not be fetched.
Result<Url> parse_url(const std::string& text);

/// The origin of a URL ("https://example.com:443"), to which credentials are limited; empty unless it is a valid http
/// or https URL.
std::string origin_of(const std::string& url);

/// Resolves `reference` against `base` (RFC 3986, section 5); empty when it is invalid.
std::string resolve_url(const std::string& base, const std::string& reference);

/// A URL whose scheme and host are in lower case, if it is one of http or https: both are the same in any case (RFC
/// 3986, section 6.2.2.1). Keys of the cache need one spelling.
std::string with_lower_case_host(std::string url);

/// A URL as it is requested: encoded, its host in lower case, without the fragment; unchanged if it is invalid.
std::string normalized_url(const std::string& url);

/// Whether a redirect between the URLs is allowed: never from https to http.
bool may_redirect(const std::string& from, const std::string& to);

/// A URL for logs and files: without user, password and query.
std::string printable_url(const std::string& url);

/// Each byte but A-Z, a-z, 0-9, `-`, `.`, `_`, `~` and those of `kept` as %XX (RFC 3986, section 2).
std::string url_encoded(std::string_view text, std::string_view kept = "");

/// Decodes %XX. A `%` without two hex digits is kept, and sets `is_valid` to false.
std::string url_decoded(std::string_view text, bool* is_valid = nullptr);

}  // namespace weightfs::http
