#include "cli/time.h"

#include <array>
#include <regex>

namespace weightfs {

timespec now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return time;
}

std::string utc_time(const timespec& time) {
  std::tm parts{};
  std::array<char, 32> text{};
  if (::gmtime_r(&time.tv_sec, &parts) != nullptr)
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::optional<timespec> time_in(const std::string& utc) {
  static const std::regex form(R"((\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d{1,9})?Z)");
  std::smatch found;
  if (utc.size() > 40 || !std::regex_match(utc, found, form)) return {};
  const auto number = [&](size_t group) { return std::stoi(found.str(group)); };
  std::tm parts{};
  parts.tm_year = number(1) - 1900;
  parts.tm_mon = number(2) - 1;
  parts.tm_mday = number(3);
  parts.tm_hour = number(4);
  parts.tm_min = number(5);
  parts.tm_sec = number(6);
  return timespec{::timegm(&parts), 0};
}

std::string local_time(const timespec& time) {
  std::tm parts{};
  std::array<char, 32> text{};
  if (::localtime_r(&time.tv_sec, &parts) != nullptr) std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &parts);
  return text.data();
}

}  // namespace weightfs
