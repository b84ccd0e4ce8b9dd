// Builds Flax's MessagePack files for tests, right or wrong.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weightfs::test::msgpack {

/// A big-endian number of `width` bytes.
inline std::string big(uint64_t n, size_t width) {
  std::string bytes;
  for (size_t i = width; i-- > 0;) bytes += static_cast<char>(n >> (8 * i) & 0xFF);
  return bytes;
}

inline std::string text(std::string_view bytes) { return "\xDA" + big(bytes.size(), 2) + std::string(bytes); }
inline std::string binary(std::string_view bytes) { return "\xC6" + big(bytes.size(), 4) + std::string(bytes); }
inline std::string integer(int64_t n) { return "\xD3" + big(static_cast<uint64_t>(n), 8); }
inline std::string size(uint64_t n) { return n < 128 ? big(n, 1) : "\xCF" + big(n, 8); }

inline std::string list(const std::vector<std::string>& values) {
  std::string out = "\xDD" + big(values.size(), 4);
  for (const std::string& value : values) out += value;
  return out;
}

using Entries = std::vector<std::pair<std::string, std::string>>;  // keys, and encoded values

inline std::string map(const Entries& entries) {
  std::string out = entries.size() < 16 ? big(0x80 + entries.size(), 1) : "\xDF" + big(entries.size(), 4);
  for (const auto& [key, value] : entries) out += text(key) + value;
  return out;
}

inline std::string extension(uint8_t type, std::string_view payload) {
  return "\xC9" + big(payload.size(), 4) + big(type, 1) + std::string(payload);
}

/// An array of Flax, or with type 3 a NumPy scalar.
inline std::string array(const std::vector<uint64_t>& shape, std::string_view dtype, std::string_view data,
                         uint8_t type = 1) {
  std::vector<std::string> sizes;
  for (const uint64_t n : shape) sizes.push_back(size(n));
  return extension(type, list({list(sizes), text(dtype), binary(data)}));
}

/// An array in pieces.
inline std::string chunked(const std::vector<uint64_t>& shape, std::string_view dtype,
                           const std::vector<std::string>& pieces) {
  Entries sizes, chunks;
  for (const uint64_t n : shape) sizes.emplace_back(std::to_string(sizes.size()), size(n));
  for (const std::string& piece : pieces)
    chunks.emplace_back(std::to_string(chunks.size()), array({piece.size()}, dtype, piece));
  return map({{"__msgpack_chunked_array__", "\xC3"}, {"shape", map(sizes)}, {"chunks", map(chunks)}});
}

}  // namespace weightfs::test::msgpack

namespace weightfs::test {

inline std::string small_flax() {
  using namespace msgpack;
  const std::string params =
      map({{"w", array({2, 2}, "float32", std::string(16, 'w'))}, {"c", chunked({2, 2}, "int8", {"abc", "d"})}});
  return map({{"params", params}, {"s", array({}, "float16", "ss", 3)}, {"step", size(7)}, {"list", list({"\xC0"})}});
}

}  // namespace weightfs::test
