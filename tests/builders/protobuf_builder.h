// Builds Protocol Buffers messages for tests, right or wrong.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace weightfs::test {

inline std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>((number & 0x7F) | 0x80);
  return bytes + static_cast<char>(number);
}

/// A message; fields are stored in the order of the calls.
class ProtobufBuilder {
 public:
  ProtobufBuilder& number(uint32_t field, uint64_t value) { return raw(varint(uint64_t{field} << 3) + varint(value)); }
  ProtobufBuilder& fixed32(uint32_t field, uint32_t value) { return fixed(field, 5, value, 4); }
  ProtobufBuilder& fixed64(uint32_t field, uint64_t value) { return fixed(field, 1, value, 8); }
  ProtobufBuilder& real(uint32_t field, float value) { return fixed32(field, std::bit_cast<uint32_t>(value)); }

  /// A string, or the bytes of a message or of a packed field.
  ProtobufBuilder& bytes(uint32_t field, std::string_view value) {
    return raw(varint(uint64_t{field} << 3 | 2) + varint(value.size()) + std::string(value));
  }
  ProtobufBuilder& message(uint32_t field, const ProtobufBuilder& value) { return bytes(field, value.build()); }
  ProtobufBuilder& group(uint32_t field, const ProtobufBuilder& content) {
    return raw(varint(uint64_t{field} << 3 | 3) + content.build() + varint(uint64_t{field} << 3 | 4));
  }
  ProtobufBuilder& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }

  const std::string& build() const { return bytes_; }

 private:
  ProtobufBuilder& fixed(uint32_t field, uint64_t type, uint64_t value, size_t size) {
    raw(varint(uint64_t{field} << 3 | type));
    for (size_t i = 0; i < size; ++i) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }

  std::string bytes_;
};

}  // namespace weightfs::test
