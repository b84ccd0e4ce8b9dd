// Builds TVM's .params files for tests, right or wrong: a list of names and a list of arrays.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weightfs::test {

/// A little-endian number of `width` bytes.
inline std::string little(uint64_t n, size_t width = 8) {
  std::string bytes;
  for (size_t i = 0; i < width; ++i) bytes += static_cast<char>(n >> (8 * i) & 0xFF);
  return bytes;
}

inline constexpr uint64_t kParamsMagic = 0xF7E58D4F05049CB7;
inline constexpr uint64_t kArrayMagic = 0xDD5E40F096B4A13F;

/// DLDataType, as its four bytes.
inline std::string tvm_type(uint8_t code, uint8_t bits, uint16_t lanes = 1) {
  return little(code, 1) + little(bits, 1) + little(lanes, 2);
}

inline const std::string kTvmInt8 = tvm_type(0, 8);
inline const std::string kTvmFloat32 = tvm_type(2, 32);

/// The header of an array, of which everything can be wrong.
struct ArrayHeader {
  std::string type;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
  uint64_t magic = kArrayMagic;
  uint64_t reserved = 0;
  uint32_t device = 1;
  uint32_t device_number = 0;
  uint32_t dimensions = UINT32_MAX;  ///< default: the number of the shape

  std::string build() const {
    const uint64_t stated = dimensions == UINT32_MAX ? shape.size() : dimensions;
    std::string out =
        little(magic) + little(reserved) + little(device, 4) + little(device_number, 4) + little(stated, 4) + type;
    for (const uint64_t size : shape) out += little(size);
    return out + little(bytes);
  }
};

class ParamsBuilder {
 public:
  /// Adds an array of these bytes.
  ParamsBuilder& array(std::string_view name, std::string type, std::vector<uint64_t> shape, std::string_view data) {
    return array(name, ArrayHeader{std::move(type), std::move(shape), data.size()}, data);
  }
  ParamsBuilder& array(std::string_view name, const ArrayHeader& header, std::string_view data) {
    names_ += little(name.size()) + std::string(name);
    arrays_ += header.build() + std::string(data);
    ++count_;
    return *this;
  }

  std::string build() const { return build(count_, count_); }
  /// With these counts, which may be wrong.
  std::string build(uint64_t names, uint64_t arrays) const {
    return little(kParamsMagic) + little(0) + little(names) + names_ + little(arrays) + arrays_;
  }

 private:
  std::string names_, arrays_;
  uint64_t count_ = 0;
};

/// A small file with most of the format: a matrix, a scalar, a tensor of no bytes, a type of one bit, names that are
/// paths.
inline std::string small_params() {
  ParamsBuilder b;
  b.array("w", kTvmFloat32, {2, 2}, std::string(16, 'w')).array("a/b", kTvmInt8, {}, "s");
  return b.array("empty", kTvmInt8, {0, 3}, "").array("mask", tvm_type(1, 1), {3}, std::string("\1\0\1", 3)).build();
}

}  // namespace weightfs::test
