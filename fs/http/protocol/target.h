// The target of a request: the path as segments, and the query (RFC 3986, RFC 9112 section 3.2).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fs/http/protocol/message.h"

namespace weightfs::httpd {

struct Target {
  std::string authority;              ///< of the absolute form; empty for the origin form
  std::vector<std::string> segments;  ///< decoded, without empty ones; none for the root
  bool is_directory = false;          ///< the path ends in a slash
  std::string path;                   ///< as sent, without the query
  std::string query;                  ///< as sent, without the question mark
};

/// Parses a target in origin form or absolute form. Dot segments are removed before segments are decoded. Refuses
/// invalid escapes, and segments that are a dot segment or contain NUL after decoding, with 400.
Accepted<Target> parse_target(std::string_view target);

/// The value of a parameter of a query, decoded; nothing if it is missing or has invalid escapes.
std::optional<std::string> parameter(std::string_view query, std::string_view name);

/// A name as a segment of a URL: all but unreserved characters are escaped.
std::string url_segment(std::string_view name);

}  // namespace weightfs::httpd
