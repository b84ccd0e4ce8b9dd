#include "cache/http/retry_after.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/text.h"
#include "base/values/http.h"

namespace weightfs::http {
namespace {

constexpr uint64_t kMaxDelay = 24 * 60 * 60;  // in seconds; longer ones are not distinguished

}  // namespace

std::optional<std::chrono::milliseconds> parse_retry_after(std::string_view text,
                                                           std::chrono::system_clock::time_point now) {
  if (const auto seconds = parse_number<uint64_t>(text)) return std::chrono::seconds(std::min(*seconds, kMaxDelay));
  const auto date = parse_http_date(std::string(text));
  if (!date) return std::nullopt;
  const int64_t seconds_left = *date - std::chrono::system_clock::to_time_t(now);
  return std::chrono::seconds(std::clamp<int64_t>(seconds_left, 0, kMaxDelay));
}

std::optional<std::chrono::milliseconds> parse_rate_limit(std::string_view text) {
  for (size_t at = text.find(';'); at != text.npos; at = text.find(';', at + 1)) {
    std::string_view parameter = text.substr(at + 1);
    while (parameter.starts_with(' ')) parameter.remove_prefix(1);
    if (!parameter.starts_with("t=")) continue;
    parameter = parameter.substr(2, parameter.find_first_of(";, ", 2) - 2);
    if (const auto seconds = parse_number<uint64_t>(parameter))
      return std::chrono::seconds(std::min(*seconds, kMaxDelay));
  }
  return std::nullopt;
}

std::optional<std::chrono::milliseconds> requested_delay(const Response& response) {
  const auto delay = parse_retry_after(response.header("retry-after"), std::chrono::system_clock::now());
  return delay || response.status != 429 ? delay : parse_rate_limit(response.header("ratelimit"));
}

}  // namespace weightfs::http
