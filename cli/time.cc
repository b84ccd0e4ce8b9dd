#include "cli/time.h"

#include <array>

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

std::string local_time(const timespec& time) {
  std::tm parts{};
  std::array<char, 32> text{};
  if (::localtime_r(&time.tv_sec, &parts) != nullptr) std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &parts);
  return text.data();
}

}  // namespace weightfs
