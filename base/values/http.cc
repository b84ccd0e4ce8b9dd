#include "base/values/http.h"

#include <algorithm>
#include <array>
#include <clocale>
#include <utility>

namespace weightfs {
namespace {

constexpr auto kReasons = std::to_array<std::pair<int, std::string_view>>({
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {410, "Gone"},
    {412, "Precondition Failed"},
    {414, "URI Too Long"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {451, "Unavailable For Legal Reasons"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
});

// strptime(3) and strftime(3) would use the names of days of the user's locale.
locale_t c_locale() {
  static const locale_t locale = ::newlocale(LC_ALL_MASK, "C", nullptr);
  return locale;
}

}  // namespace

std::string_view reason_of(int status) {
  const auto* const found = std::ranges::find(kReasons, status, &std::pair<int, std::string_view>::first);
  return found == kReasons.end() ? "" : found->second;
}

std::string http_date(std::time_t time) {
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::array<char, 64> text{};
  const size_t size = ::strftime_l(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts, c_locale());
  return {text.data(), size};
}

std::optional<std::time_t> parse_http_date(const std::string& text) {
  // IMF-fixdate, and the two forms that recipients must accept as well.
  for (const char* form : {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"}) {
    std::tm parts{};
    const char* const end = ::strptime_l(text.c_str(), form, &parts, c_locale());
    if (end != nullptr && *end == '\0') return ::timegm(&parts);
  }
  return std::nullopt;
}

}  // namespace weightfs
