// Points in time as people and programs read them.
#pragma once

#include <ctime>
#include <optional>
#include <string>

namespace weightfs {

timespec now();

/// To the second, for programs: RFC 3339 in UTC, "2026-11-20T09:30:00Z".
std::string utc_time(const timespec& time);

/// The point in time that such a text tells, fractions of a second left out; nothing when it is none.
std::optional<timespec> time_in(const std::string& utc);

/// To the minute and in the local time zone, for people: "2026-11-20 10:30".
std::string local_time(const timespec& time);

}  // namespace weightfs
