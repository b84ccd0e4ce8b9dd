#include "cli/time.h"

#include <array>

namespace weightfs {
namespace {

std::string formatted(const std::tm& parts, const char* format) {
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), format, &parts);
  return text.data();
}

}  // namespace

timespec now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return time;
}

std::string utc_time(const timespec& time) {
  std::tm parts{};
  return ::gmtime_r(&time.tv_sec, &parts) != nullptr ? formatted(parts, "%Y-%m-%dT%H:%M:%SZ") : "";
}

std::string local_time(const timespec& time) {
  std::tm parts{};
  return ::localtime_r(&time.tv_sec, &parts) != nullptr ? formatted(parts, "%Y-%m-%d %H:%M") : "";
}

}  // namespace weightfs
