// Interprets response headers, and checks them against the request and earlier responses. (RFC 9110: 8.4 encodings,
// 8.8.3 ETag, 10.2.3 Retry-After, 13.1.5 If-Range, 14 ranges.)
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/source.h"
#include "cache/http/client.h"

namespace weightfs::download {

/// "bytes 0-9/100", "bytes 0-9/*", "bytes */100".
struct ContentRange {
  std::optional<uint64_t> first;
  std::optional<uint64_t> last;
  std::optional<uint64_t> total;
};
/// Nothing for an invalid or contradictory text.
std::optional<ContentRange> parse_content_range(std::string_view text);

/// The delay in a Retry-After header: seconds, or a date relative to `now`.
std::optional<std::chrono::milliseconds> parse_retry_after(std::string_view text,
                                                           std::chrono::system_clock::time_point now);

/// The response's ETag if it is strong (equal tags mean equal bytes), else empty.
std::string strong_etag(const http::Response& response);

bool is_encoded(const http::Response& response);

/// The length of the decoded body, if known.
std::optional<uint64_t> content_length(const http::Response& response);

/// What an origin reported about the blob.
struct OriginInfo {
  std::string url;  ///< after redirects
  std::string etag = {};
  std::optional<uint64_t> size = {};
  bool encoded = false;
  bool ranges = false;     ///< supports range requests
  bool no_ranges = false;  ///< does not support them
  bool is_public = false;  ///< after redirects
};

/// Checks that a response 200 can be the blob: the known size, and unchanged since `info`. Fails with corrupt.
Result<void> check_full_response(const http::Response& response, const OriginInfo& info, std::optional<uint64_t> size);

/// The same for a response 206 to a request for `requested`; its end may be ReassemblyBuffer::kUnknown.
Result<ContentRange> check_partial_response(const http::Response& response, ByteRange requested, const OriginInfo& info,
                                            std::optional<uint64_t> size);

/// The result of a request.
struct Outcome {
  enum class Next {
    done,         ///< bytes were received, or are no longer needed
    retry_now,    ///< send a different request at once
    retry_later,  ///< retry after a delay
    give_up,      ///< do not use this origin again
  };
  Next next = Next::done;
  Error error = {Code::network, ""};
  std::optional<std::chrono::milliseconds> retry_after = {};  ///< as requested by the server
};

/// The result for an error status. `credentials` are those sent, for the message of a denied request; may be null.
Outcome outcome_of(const http::Response& response, http::Credentials* credentials = nullptr);

/// The result for a request that failed before or during the response.
Outcome outcome_of(const Error& error);

/// "404 Not Found".
std::string printable_status(int status);

}  // namespace weightfs::download
