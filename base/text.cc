#include "base/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace weightfs {

namespace {

// The sequences of more than one byte (RFC 3629, section 4): the range of their first byte, and that of their second,
// which excludes overlong forms, surrogates and numbers beyond U+10FFFF. Each further byte is from 80 to BF.
struct Sequence {
  uint8_t first, last, low, high, length;
};

constexpr std::array kSequences = {
    Sequence{0xC2, 0xDF, 0x80, 0xBF, 2}, Sequence{0xE0, 0xE0, 0xA0, 0xBF, 3}, Sequence{0xE1, 0xEC, 0x80, 0xBF, 3},
    Sequence{0xED, 0xED, 0x80, 0x9F, 3}, Sequence{0xEE, 0xEF, 0x80, 0xBF, 3}, Sequence{0xF0, 0xF0, 0x90, 0xBF, 4},
    Sequence{0xF1, 0xF3, 0x80, 0xBF, 4}, Sequence{0xF4, 0xF4, 0x80, 0x8F, 4},
};

}  // namespace

size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (text.empty()) return 0;
  if (byte(0) < 0x80) return 1;
  const auto row =
      std::find_if(kSequences.begin(), kSequences.end(), [&](const Sequence& each) { return byte(0) <= each.last; });
  if (row == kSequences.end() || byte(0) < row->first || text.size() < row->length) return 0;
  if (byte(1) < row->low || byte(1) > row->high) return 0;
  for (size_t i = 2; i < row->length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return row->length;
}

std::string_view begin_of_text(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<uint8_t>(text[most]) & 0xC0) == 0x80) --most;
  return text.substr(0, most);
}

void append_utf8(std::string& out, uint32_t point) {
  const auto add = [&](uint32_t byte) { out += static_cast<char>(byte); };
  const auto add_rest = [&](int shift) { add(0x80 | (point >> shift & 0x3F)); };
  if (point < 0x80) return add(point);
  if (point < 0x800) {
    add(0xC0 | point >> 6);
  } else if (point < 0x10000) {
    add(0xE0 | point >> 12);
    add_rest(6);
  } else {
    add(0xF0 | point >> 18);
    add_rest(12);
    add_rest(6);
  }
  add_rest(0);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_control(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  // U+0080 to U+009F steer terminals as ESC does.
  const bool c1 =
      first == 0xC2 && text.size() > 1 && static_cast<uint8_t>(text[1]) >= 0x80 && static_cast<uint8_t>(text[1]) < 0xA0;
  return first < 0x20 || first == 0x7F || c1;
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kUnquoted = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-";
  if (!text.empty() && text.find_first_not_of(kUnquoted) == text.npos) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return printable(word + "'");
}

bool is_utf8(std::string_view text) {
  // No early exit from the loop, so that the compiler can vectorise it.
  uint8_t bits = 0;
  for (const char c : text) bits |= static_cast<uint8_t>(c);
  if (bits < 0x80) return true;
  while (!text.empty()) {
    const size_t length = utf8_sequence(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string to_utf8(std::string_view text) {
  if (is_utf8(text)) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const size_t length = utf8_sequence(text);
    if (length == 0) {
      out += "\uFFFD";
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out;
}

namespace {

// `text` with the sequences that `escapes` selects, and the bytes that are not UTF-8, written %XX.
template <class Escapes>
std::string percent_encoded(std::string_view text, const Escapes& escapes) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  while (!text.empty()) {
    const size_t known = utf8_sequence(text);
    const std::string_view sequence = text.substr(0, std::max<size_t>(known, 1));
    if (known > 0 && !escapes(sequence)) {
      out += sequence;
    } else {
      for (const char c : sequence)
        out += {'%', kHex[static_cast<uint8_t>(c) >> 4], kHex[static_cast<uint8_t>(c) & 15]};
    }
    text.remove_prefix(sequence.size());
  }
  return out;
}

// Not shown, or changing the order in which the rest of a line is shown, so that a name could pass for another: soft
// hyphen, marks of direction, characters of no width, separators of lines, tags. Not those that only change the one
// before them.
struct CodePoints {
  uint32_t first, last;
};

constexpr std::array kInvisible = {
    CodePoints{0x00AD, 0x00AD}, CodePoints{0x061C, 0x061C}, CodePoints{0x180E, 0x180E},
    CodePoints{0x200B, 0x200F}, CodePoints{0x2028, 0x202E}, CodePoints{0x2060, 0x206F},
    CodePoints{0xFEFF, 0xFEFF}, CodePoints{0xFFF9, 0xFFFB}, CodePoints{0xE0000, 0xE007F},
};

bool is_invisible(std::string_view sequence) {
  if (sequence.size() < 2) return false;
  constexpr std::array<uint8_t, 5> kMasks = {0, 0, 0x1F, 0x0F, 0x07};
  uint32_t code = static_cast<uint8_t>(sequence[0]) & uint32_t{kMasks.at(sequence.size())};
  for (const char c : sequence.substr(1)) code = code << 6 | (static_cast<uint8_t>(c) & 0x3FU);
  return std::ranges::any_of(kInvisible,
                             [&](const CodePoints& each) { return code >= each.first && code <= each.last; });
}

// Take the first byte, or the first character, off `text`.
void append_escaped(std::string& out, std::string_view& text) {
  constexpr char kHex[] = "0123456789abcdef";
  const auto first = static_cast<uint8_t>(text[0]);
  out += {'\\', 'x', kHex[first >> 4], kHex[first & 15]};
  text.remove_prefix(1);
}

void append_printable(std::string& out, std::string_view& text) {
  const size_t length = utf8_sequence(text);
  if (length == 0 || is_control(text)) return append_escaped(out, text);
  if (is_invisible(text.substr(0, length))) {
    for (size_t i = 0; i < length; ++i) append_escaped(out, text);
    return;
  }
  out += text.substr(0, length);
  text.remove_prefix(length);
}

}  // namespace

std::string to_utf8_key(std::string_view text) {
  return is_utf8(text) ? std::string(text) : percent_encoded(text, [](std::string_view) { return false; });
}

std::string percent_escaped(std::string_view text) {
  return percent_encoded(text, [](std::string_view c) { return is_control(c) || c == "%" || c == "/"; });
}

std::string quoted(std::string_view name) {
  constexpr size_t kMaxLength = 80;
  std::string out = "\"";
  while (!name.empty()) {
    if (out.size() > kMaxLength) return out + "...\"";
    if (name[0] == '"' || name[0] == '\\')
      append_escaped(out, name);
    else
      append_printable(out, name);
  }
  return out + "\"";
}

std::string printable(std::string_view name) {
  std::string out;
  while (!name.empty()) append_printable(out, name);
  return out;
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(kSpace);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

bool is_visible_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos && name.find('\0') == name.npos;
}

std::string_view cut_component(std::string_view& rest) {
  const std::string_view component = rest.substr(0, rest.find('/'));
  rest.remove_prefix(std::min(component.size() + 1, rest.size()));
  return component;
}

bool is_plain_path(std::string_view path) {
  bool is_plain = true;
  for_each_component(path, [&](std::string_view component) { is_plain = is_plain && is_file_name(component); });
  return is_plain;
}

std::optional<std::string> normalize(std::string_view path, Dots dots) {
  std::string clean;
  bool is_valid = true;
  for_each_component(path, [&](std::string_view component) {
    if (component.empty() || component == ".") return;
    if (component != ".." || dots == Dots::kept) {
      clean.append(clean.empty() ? "" : "/").append(component);
      return;
    }
    is_valid = is_valid && dots == Dots::resolved && !clean.empty();
    clean.erase(clean.find('/') == clean.npos ? 0 : clean.rfind('/'));
  });
  return is_valid ? std::optional(std::move(clean)) : std::nullopt;
}

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string environment(std::initializer_list<const char*> names) {
  for (const char* const name : names)
    if (std::string value = environment(name); !value.empty()) return value;
  return {};
}

std::string human_size(uint64_t count) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (count < 1024) return fmt::format("{} B", count);
  auto size = static_cast<double>(count);
  size_t unit = 0;
  while (size >= 1024 && unit + 1 < kUnits.size()) {
    size /= 1024;
    ++unit;
  }
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.1f %s", size, kUnits.at(unit));
  return out.data();
}

std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

}  // namespace weightfs
