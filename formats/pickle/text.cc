#include "formats/pickle/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "base/text.h"

namespace weightfs::pickle {
namespace {

// The length of an escape at the beginning of `text`, and its code; 0 if there is none.
size_t escape(std::string_view text, uint32_t& code) {
  if (text.size() < 2 || text[0] != '\\' || (text[1] != 'u' && text[1] != 'U')) return 0;
  const size_t digits = text[1] == 'u' ? 4 : 8;
  if (text.size() < 2 + digits) return 0;
  const char* const begin = text.data() + 2;
  const auto [stop, error] = std::from_chars(begin, begin + digits, code, 16);
  constexpr uint32_t kLast = 0x10FFFF;
  return error == std::errc() && stop == begin + digits && code <= kLast ? 2 + digits : 0;
}

// The code of the digits at the beginning of `text`, at most `most` of them, and how many there are.
std::pair<uint32_t, size_t> digits_at(std::string_view text, size_t most, int base) {
  uint32_t code = 0;
  const char* const begin = text.data();
  const auto [stop, error] = std::from_chars(begin, begin + std::min(most, text.size()), code, base);
  return {code, error == std::errc() ? static_cast<size_t>(stop - begin) : 0};
}

// Appends what the escape at the beginning of `text` stands for. Returns its length; 0 if it is invalid.
size_t unescape(std::string_view text, std::string& out) {
  constexpr std::string_view kLetters = "abfnrtv\\'\"";
  constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
  constexpr size_t kOctal = 3;
  if (text.size() < 2) return 0;
  if (const size_t letter = kLetters.find(text[1]); letter != kLetters.npos) return out += kMeanings[letter], 2;
  if (text[1] == '\n') return 2;
  if (const auto [code, length] = digits_at(text.substr(1), kOctal, 8); length > 0)
    return out += static_cast<char>(code), 1 + length;
  if (text[1] != 'x') return out += text.substr(0, 2), 2;
  const auto [code, length] = digits_at(text.substr(2), 2, 16);
  if (length != 2) return 0;
  out += static_cast<char>(code);
  return 4;
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view digits) { return parse_number<int64_t>(digits); }

std::optional<double> parse_real(std::string_view digits) { return parse_number<double>(digits); }

bool is_decimal(std::string_view digits) {
  if (digits.starts_with('-')) digits.remove_prefix(1);
  return !digits.empty() && digits.find_first_not_of("0123456789") == digits.npos;
}

std::string decimal(std::string_view little_endian) {
  const bool negative = !little_endian.empty() && (static_cast<uint8_t>(little_endian.back()) & 0x80) != 0;
  std::vector<uint32_t> groups = {0};  // of nine digits, the last ones first
  constexpr uint64_t kGroup = 1'000'000'000;
  // The magnitude of a negative number is one more than that of its complement.
  uint64_t carry = negative ? 1 : 0;
  std::string magnitude;
  for (const char c : little_endian) {
    carry += static_cast<uint8_t>(negative ? ~c : c);
    magnitude += static_cast<char>(carry & 0xFF);
    carry >>= 8;
  }
  for (auto byte = magnitude.rbegin(); byte != magnitude.rend(); ++byte) {
    uint64_t over = static_cast<uint8_t>(*byte);
    for (uint32_t& group : groups) {
      over += uint64_t{group} << 8;
      group = static_cast<uint32_t>(over % kGroup);
      over /= kGroup;
    }
    if (over > 0) groups.push_back(static_cast<uint32_t>(over));
  }
  std::string digits = fmt::format("{}{}", negative ? "-" : "", groups.back());
  for (size_t i = groups.size() - 1; i-- > 0;) digits += fmt::format("{:09}", groups[i]);
  return digits;
}

std::string unescape_unicode(std::string_view line) {
  std::string out;
  while (!line.empty()) {
    uint32_t code = static_cast<uint8_t>(line[0]);
    const size_t length = std::max<size_t>(escape(line, code), 1);
    if (length == 1) code = static_cast<uint8_t>(line[0]);
    append_utf8(out, code);
    line.remove_prefix(length);
  }
  return out;
}

std::optional<std::string> unquote(std::string_view line) {
  const bool quoted = line.size() >= 2 && line.front() == line.back() && (line.front() == '\'' || line.front() == '"');
  if (!quoted) return std::string(line);
  line = line.substr(1, line.size() - 2);
  std::string bytes;
  while (!line.empty()) {
    const size_t plain = std::min(line.find('\\'), line.size());
    bytes += line.substr(0, plain);
    line.remove_prefix(plain);
    if (line.empty()) break;
    const size_t length = unescape(line, bytes);
    if (length == 0) return std::nullopt;
    line.remove_prefix(length);
  }
  return bytes;
}

}  // namespace weightfs::pickle
