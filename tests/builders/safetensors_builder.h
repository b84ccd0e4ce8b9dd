// Builds valid and invalid safetensors files for tests: from tensors, or from a header.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/text.h"

namespace weightfs::test {

/// `n` as the eight little-endian bytes that such a file begins with.
inline std::string length_prefix(uint64_t n) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(n >> (8 * i) & 0xFF);
  return bytes;
}

/// A file of this header and this data.
inline std::string safetensors_file(std::string_view header, std::string_view data = {}) {
  return length_prefix(header.size()) + std::string(header) + std::string(data);
}

/// A line of a header; `shape` as JSON spells it, "2,3".
inline std::string safetensors_entry(std::string_view name, std::string_view dtype, std::string_view shape,
                                     uint64_t begin, uint64_t end) {
  return fmt::format("\"{}{}{}{}{}{}{},{}]}}", name, R"(":{"dtype":")", dtype, R"(","shape":[)", shape,
                     R"(],"data_offsets":[)", begin, end);
}

class SafetensorsBuilder {
 public:
  /// Adds a tensor of the bytes `data` behind the one before.
  SafetensorsBuilder& tensor(std::string_view name, std::string_view dtype, std::string_view shape,
                             std::string_view data) {
    const uint64_t begin = data_.size();
    data_ += data;
    return line(safetensors_entry(name, dtype, shape, begin, data_.size()));
  }
  /// Adds `__metadata__`, as JSON spells it.
  SafetensorsBuilder& metadata(std::string_view json) { return line(fmt::format("\"__metadata__\":{}", json)); }

  std::string build() const { return safetensors_file(fmt::format("{{{}}}", lines_), data_); }

 private:
  SafetensorsBuilder& line(const std::string& line) {
    if (!lines_.empty()) lines_ += ',';
    lines_ += line;
    return *this;
  }

  std::string lines_;
  std::string data_;
};

/// A small file that uses most of the format: metadata, a matrix, a scalar, a tensor of no bytes, a sub-byte type.
inline std::string small_safetensors() {
  SafetensorsBuilder b;
  b.metadata(R"({"format":"pt","modelspec.title":"Tiny"})").tensor("w", "F32", "2,1", "wwwwWWWW");
  return b.tensor("empty", "I64", "0", "").tensor("s", "U8", "", "s").tensor("f4", "F4", "4", "ff").build();
}

}  // namespace weightfs::test
