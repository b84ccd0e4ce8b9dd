// Parses numbers in option values.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <system_error>

namespace weightfs {

/// Parses the whole of `text`; nothing if it is not a number, or out of range.
template <class Number>
std::optional<Number> parse_number(const std::string& text, int base = 10) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base);
  return error == std::errc{} && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace weightfs
