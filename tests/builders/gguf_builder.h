// Builds valid and invalid GGUF files for tests, with every byte under the test's control.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weightfs::test {

/// The numbers of value types and tensor types in files.
enum GgufValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

class GgufBuilder {
 public:
  explicit GgufBuilder(uint32_t version = 3, std::endian order = std::endian::little)
      : version_(version), order_(order) {}

  /// A number in the file's byte order.
  template <class T>
  std::string number(T value) const {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    if (order_ != std::endian::native) std::reverse(bytes.begin(), bytes.end());
    return bytes;
  }
  /// A count or length: 32 bits in version 1.
  std::string count(uint64_t n) const { return version_ == 1 ? number(static_cast<uint32_t>(n)) : number(n); }
  std::string text(std::string_view bytes) const { return count(bytes.size()) + std::string(bytes); }
  std::string array(uint32_t element_type, uint64_t n, std::string_view elements) const {
    return number(element_type) + count(n) + std::string(elements);
  }

  /// Adds an entry of metadata whose value is `value`, already encoded.
  GgufBuilder& key(std::string_view name, uint32_t type, std::string_view value) {
    entries_ += text(name) + number(type) + std::string(value);
    ++keys_;
    return *this;
  }
  GgufBuilder& string(std::string_view name, std::string_view value) { return key(name, kString, text(value)); }
  GgufBuilder& u16(std::string_view name, uint16_t value) { return key(name, kU16, number(value)); }
  GgufBuilder& u32(std::string_view name, uint32_t value) { return key(name, kU32, number(value)); }
  GgufBuilder& i32(std::string_view name, int32_t value) { return key(name, kI32, number(value)); }
  GgufBuilder& f32(std::string_view name, float value) { return key(name, kF32, number(value)); }

  /// Adds a tensor behind the one before; `dims` innermost first, as on disk.
  GgufBuilder& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, std::string_view data) {
    list(name, dims, type, data_.size());
    data_ += data;
    return pad(data_);
  }
  /// Lists a tensor without adding bytes.
  GgufBuilder& list(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    list_ += text(name) + number(static_cast<uint32_t>(dims.size()));
    for (const uint64_t size : dims) list_ += count(size);
    list_ += number(type) + number(offset);
    ++tensors_;
    return *this;
  }
  /// Adds bytes to the tensors' section.
  GgufBuilder& data(std::string_view bytes) {
    data_ += bytes;
    return *this;
  }
  /// The alignment of padding; not stored in the file.
  GgufBuilder& padded_to(size_t alignment) {
    alignment_ = alignment;
    return *this;
  }
  /// Replaces the counts in the header.
  GgufBuilder& announcing(uint64_t tensors, uint64_t keys) {
    announced_ = {tensors, keys};
    return *this;
  }

  /// Everything before the tensors' section, without the padding.
  std::string header() const {
    const auto [tensors, keys] = announced_.value_or(std::pair{tensors_, keys_});
    return "GGUF" + number(version_) + count(tensors) + count(keys) + entries_ + list_;
  }
  std::string build() const {
    std::string file = header();
    if (tensors_ > 0) pad(file);
    return file + data_;
  }

 private:
  GgufBuilder& pad(std::string& bytes) {
    std::as_const(*this).pad(bytes);
    return *this;
  }
  void pad(std::string& bytes) const { bytes.resize((bytes.size() + alignment_ - 1) / alignment_ * alignment_, '\0'); }

  uint32_t version_;
  std::endian order_;
  size_t alignment_ = 32;
  std::string entries_;
  std::string list_;
  std::string data_;
  uint64_t keys_ = 0;
  uint64_t tensors_ = 0;
  std::optional<std::pair<uint64_t, uint64_t>> announced_;
};

/// A small file that uses most of the format: scalars, strings, arrays, nested ones, three tensors.
inline std::string small_gguf(uint32_t version = 3, std::endian order = std::endian::little) {
  GgufBuilder b(version, order);
  b.string("general.architecture", "llama").string("general.name", "Tiny").u32("general.file_type", 15);
  b.f32("llama.attention.layer_norm_rms_epsilon", 1e-6F).key("flag", kBool, "\1");
  b.key("numbers", kArray, b.array(kI16, 2, b.number<int16_t>(-1) + b.number<int16_t>(2)));
  b.key("words", kArray, b.array(kString, 2, b.text("a") + b.text("b")));
  b.key("nested", kArray, b.array(kArray, 2, b.array(kU8, 2, "\1\2") + b.array(kU8, 0, "")));
  b.tensor("w", {4, 2}, 0, std::string(32, 'w')).tensor("q", {32}, 2, std::string(18, 'q'));
  return b.tensor("scalar", {}, 24, "s").build();
}

}  // namespace weightfs::test
