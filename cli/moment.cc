#include "cli/moment.h"

#include <array>
#include <regex>

namespace weightfs {

std::string time_here(std::time_t time) {
  std::tm parts{};
  std::array<char, 64> text{};
  if (::localtime_r(&time, &parts) != nullptr) std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &parts);
  return text.data();
}

std::string time_in_utc(std::time_t time) {
  std::tm parts{};
  std::array<char, 64> text{};
  if (::gmtime_r(&time, &parts) != nullptr) std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::optional<std::time_t> time_of(const std::string& utc) {
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
  return ::timegm(&parts);
}

}  // namespace weightfs
