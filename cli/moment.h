// Points in time as they are written: for people, and for programs.
#pragma once

#include <ctime>
#include <optional>
#include <string>

namespace weightfs {

/// To the minute and in this machine's time zone: "2026-11-20 12:03".
std::string time_here(std::time_t time);

/// RFC 3339, in UTC: "2026-11-20T11:03:00Z".
std::string time_in_utc(std::time_t time);

/// The point in time that such a text tells, fractions of a second left out; nothing when it is none.
std::optional<std::time_t> time_of(const std::string& utc);

}  // namespace weightfs
