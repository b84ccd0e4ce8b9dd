// Numbers as people write them: all of the text, or none.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <system_error>

namespace weightfs {

/// The number that all of `text` is; nothing when it is none, or too large for its type.
template <class Number>
std::optional<Number> number_of(const std::string& text, int base = 10) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base);
  return error == std::errc{} && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace weightfs
