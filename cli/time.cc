#include "cli/time.h"

#include <algorithm>
#include <array>
<<<<<<< HEAD
=======
#include <cstring>
>>>>>>> main
#include <string_view>

namespace weightfs {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A digit where `form` has one, elsewhere the same; what stands behind it does not matter.
bool has_form(std::string_view text, std::string_view form) {
  return std::equal(form.begin(), form.end(), text.begin(),
                    [](char wanted, char c) { return is_digit(wanted) ? is_digit(c) : c == wanted; });
}

// Fractions of a second, at most nine digits, or none; then Z.
bool is_rest(std::string_view text) {
  if (text == "Z") return true;
  const std::string_view fraction = text.substr(0, text.size() - 1);
  return text.ends_with('Z') && fraction.size() >= 2 && fraction.size() <= 10 && fraction[0] == '.' &&
         std::all_of(fraction.begin() + 1, fraction.end(), is_digit);
}

}  // namespace

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
<<<<<<< HEAD
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  if (utc.size() <= kForm.size() || !has_form(utc, kForm) || !is_rest(std::string_view(utc).substr(kForm.size())))
    return {};
  const auto number = [&](size_t at, size_t digits) { return std::stoi(utc.substr(at, digits)); };
  std::tm parts{};
  parts.tm_year = number(0, 4) - 1900;
  parts.tm_mon = number(5, 2) - 1;
  parts.tm_mday = number(8, 2);
  parts.tm_hour = number(11, 2);
  parts.tm_min = number(14, 2);
  parts.tm_sec = number(17, 2);
=======
  std::tm parts{};
  const char* rest = ::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return {};
  if (*rest == '.') rest += 1 + std::strspn(rest + 1, "0123456789");
  if (std::string_view(rest) != "Z") return {};
>>>>>>> main
  return timespec{::timegm(&parts), 0};
}

std::string local_time(const timespec& time) {
  std::tm parts{};
  std::array<char, 32> text{};
  if (::localtime_r(&time.tv_sec, &parts) != nullptr) std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &parts);
  return text.data();
}

}  // namespace weightfs
