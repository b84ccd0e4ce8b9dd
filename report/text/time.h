// Times in output, for people and for programs.
#pragma once

#include <ctime>
#include <optional>
#include <string>

namespace weightfs {

timespec now();

/// RFC 3339 in UTC, to the second, for programs: "2026-11-20T09:30:00Z".
std::string utc_time(const timespec& time);

/// Parses such a text, without fractions of a second; nothing if it is invalid.
std::optional<timespec> parse_utc_time(const std::string& utc);

/// Local time, to the minute, for people: "2026-11-20 10:30".
std::string local_time(const timespec& time);

}  // namespace weightfs
