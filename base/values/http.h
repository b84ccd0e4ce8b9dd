// Words of HTTP that its clients and servers share (RFC 9110).
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>

namespace weightfs {

/// The reason phrase of a status; empty for one that is not known.
std::string_view reason_of(int status);

/// A time as IMF-fixdate (section 5.6.7).
std::string http_date(std::time_t time);

/// The time of a date in one of the three forms of that section; nothing for other texts.
std::optional<std::time_t> parse_http_date(const std::string& text);

}  // namespace weightfs
