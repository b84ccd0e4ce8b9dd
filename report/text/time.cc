#include "report/text/time.h"

#include <array>
#include <cstring>
#include <string_view>

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

std::optional<timespec> parse_utc_time(const std::string& utc) {
  std::tm parts{};
  const char* rest = ::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return {};
  if (*rest == '.') rest += 1 + std::strspn(rest + 1, "0123456789");
  if (std::string_view(rest) != "Z") return {};
  return timespec{::timegm(&parts), 0};
}

std::string local_time(const timespec& time) {
  std::tm parts{};
  std::array<char, 32> text{};
  if (::localtime_r(&time.tv_sec, &parts) != nullptr) std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &parts);
  return text.data();
}

}  // namespace weightfs
