// What an answer says of the bytes that follow it, and whether that fits what was asked and what is known already.
// (RFC 9110: 8.4 encodings, 8.8.3 ETag, 10.2.3 Retry-After, 13.1.5 If-Range, 14 ranges.)
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cache/http/client.h"

namespace weightfs {

/// "bytes 0-9/100", "bytes 0-9/*", "bytes */100".
struct ContentRange {
  std::optional<uint64_t> first;
  std::optional<uint64_t> last;
  std::optional<uint64_t> total;
};
/// Nothing when it is none of these, or contradicts itself.
std::optional<ContentRange> content_range_of(std::string_view text);

/// How long to wait by a Retry-After header: seconds, or a date seen from `now`.
std::optional<std::chrono::milliseconds> retry_after_of(std::string_view text,
                                                        std::chrono::system_clock::time_point now);

/// The answer's ETag when it is a strong one (equal tags mean equal bytes), else empty.
std::string strong_tag_of(const Answer& answer);

bool is_encoded(const Answer& answer);

/// The length of the plain bytes that follow, if it says.
std::optional<uint64_t> length_of(const Answer& answer);

/// The bytes asked for.
struct Span {
  uint64_t from;
  uint64_t to;  ///< the byte after the last, or Window::kUnknown
};

/// What an origin has said of the blob.
struct Told {
  std::string url;  ///< where it led to
  std::string tag = {};
  std::optional<uint64_t> size = {};
  bool encoded = false;
  bool ranges = false;     ///< it gives ranges
  bool no_ranges = false;  ///< it does not
  bool is_public = false;  ///< where it led to
};

/// Whether an answer 200 may be the blob: its size is the one that is known, and it is what `told` told. Fails with
/// corrupt.
Result<void> check_whole(const Answer& answer, const Told& told, std::optional<uint64_t> size);

/// The same of an answer 206 to a request for `asked`.
Result<ContentRange> check_part(const Answer& answer, Span asked, const Told& told, std::optional<uint64_t> size);

/// What becomes of a request.
struct Outcome {
  enum class Then {
    go_on,    ///< it gave bytes, or what it gave is not needed any more
    again,    ///< ask at once, otherwise
    later,    ///< ask after a pause
    give_up,  ///< nothing is to be had there
  };
  Then then = Then::go_on;
  Error error = {Code::network, ""};
  std::optional<std::chrono::milliseconds> pause = {};  ///< that the server asks for
};

/// What becomes of one that was answered by a status that brings no bytes. `asked` says who asked, if the one who
/// answered was told: a refusal names it.
Outcome outcome_of(const Answer& answer, Credentials* asked = nullptr);

/// What becomes of one that failed without an answer, or in the middle of one.
Outcome outcome_of(const Error& error);

/// Printed as "404 Not Found".
std::string printable_status(int status);

}  // namespace weightfs
