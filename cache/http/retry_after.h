// When a server wants to be asked again. (RFC 9110, 10.2.3 Retry-After.)
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "cache/http/request.h"

namespace weightfs::http {

/// The delay in a Retry-After header: seconds, or a date relative to `now`.
std::optional<std::chrono::milliseconds> parse_retry_after(std::string_view text,
                                                           std::chrono::system_clock::time_point now);

/// The seconds until requests are accepted again, in a RateLimit header: `"api";r=0;t=55`
/// (draft-ietf-httpapi-ratelimit-headers).
std::optional<std::chrono::milliseconds> parse_rate_limit(std::string_view text);

/// The delay that a response 429 or 503 requests, in Retry-After or in RateLimit.
std::optional<std::chrono::milliseconds> requested_delay(const Response& response);

}  // namespace weightfs::http
