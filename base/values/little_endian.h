// Numbers of at most 8 bytes, the least significant byte first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weightfs {

/// The number in `bytes`, which are at most 8.
constexpr uint64_t little_endian(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

/// Appends the `size` low bytes of a number.
inline void append_little_endian(std::string& to, uint64_t number, size_t size) {
  for (size_t i = 0; i < size; ++i) to += static_cast<char>(number >> 8 * i & 0xFF);
}

}  // namespace weightfs
