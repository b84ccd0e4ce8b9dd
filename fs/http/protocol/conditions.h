// Conditional requests and ranges (RFC 9110, sections 13 and 14).
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fs/http/protocol/message.h"

namespace weightfs::httpd {

/// What identifies the bytes of a response.
struct Validators {
  std::string etag;                          ///< strong, with its quotes; empty: none
  std::optional<std::time_t> modified = {};  ///< Last-Modified
};

/// The result of the conditions of a request.
enum class Verdict {
  whole,         ///< 200
  ranges,        ///< Range may be used
  not_modified,  ///< 304
  failed         ///< 412
};

/// Evaluates the conditions of a GET or HEAD in the order of RFC 9110, section 13.2.2. `now` bounds If-Modified-Since.
Verdict evaluate(const Request& request, const Validators& validators, std::time_t now);

/// The ranges of `field`, the value of Range, in a file of `size` bytes, in the order of the request; those that
/// overlap or touch are joined.
struct Ranges {
  bool is_satisfiable = true;         ///< false: 416
  std::vector<ByteRange> parts = {};  ///< empty: the whole file
};

/// At most this number of parts is sent; more are answered with the whole file (RFC 9110, section 14.2).
inline constexpr size_t kMaxParts = 16;

Ranges ranges_of(std::string_view field, uint64_t size);

}  // namespace weightfs::httpd
