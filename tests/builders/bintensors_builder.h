// Builds valid and invalid BinTensors files for tests, in both layouts: from tensors, or from metadata byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weightfs::test {

namespace bincode {

/// bincode's number of one of the widths 1, 2, 4 and 8 bytes behind their markers, the least that holds it.
inline std::string varint(uint64_t n, int width = 0) {
  if (width == 0) width = n <= 250 ? 1 : n <= 0xFFFF ? 2 : n <= 0xFFFFFFFF ? 4 : 8;
  std::string bytes = width == 1 ? "" : width == 2 ? "\xFB" : width == 4 ? "\xFC" : "\xFD";
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(n >> (8 * i) & 0xFF);
  return bytes;
}

/// bincode's string.
inline std::string text(std::string_view bytes) { return varint(bytes.size()) + std::string(bytes); }

/// A TensorInfo; `dtype` is the discriminant.
inline std::string tensor_info(uint64_t dtype, const std::vector<uint64_t>& shape, uint64_t begin, uint64_t end) {
  std::string bytes = varint(dtype) + varint(shape.size());
  for (const uint64_t size : shape) bytes += varint(size);
  return bytes + varint(begin) + varint(end);
}

}  // namespace bincode

/// A file of these bytes of metadata, padding and all, and this data.
inline std::string bintensors_file(std::string_view metadata, std::string_view data = {}) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(uint64_t{metadata.size()} >> (8 * i) & 0xFF);
  return file + std::string(metadata) + std::string(data);
}

/// `metadata` with the spaces that a writer adds.
inline std::string padded(std::string metadata) {
  metadata.resize((metadata.size() + 7) / 8 * 8, ' ');
  return metadata;
}

class BinTensorsBuilder {
 public:
  /// Adds a tensor of the bytes `data` behind the one before.
  BinTensorsBuilder& tensor(std::string_view name, uint64_t dtype, const std::vector<uint64_t>& shape,
                            std::string_view data) {
    const uint64_t begin = data_.size();
    data_ += data;
    const std::string info = bincode::tensor_info(dtype, shape, begin, data_.size());
    named_ += bincode::text(name) + info;
    infos_ += info;
    index_ += bincode::text(name) + bincode::varint(tensors_++);
    return *this;
  }
  /// Adds an entry to the map of texts, which is None without one.
  BinTensorsBuilder& metadata(std::string_view key, std::string_view value) {
    texts_ += bincode::text(key) + bincode::text(value);
    ++text_count_;
    return *this;
  }

  std::string release() const { return bintensors_file(padded(option() + bincode::varint(tensors_) + named_), data_); }
  std::string legacy() const {
    return bintensors_file(padded(option() + bincode::varint(tensors_) + infos_ + bincode::varint(tensors_) + index_),
                           data_);
  }

 private:
  std::string option() const {
    return text_count_ == 0 ? std::string(1, '\0') : std::string(1, '\1') + bincode::varint(text_count_) + texts_;
  }

  std::string texts_, named_, infos_, index_, data_;
  uint64_t text_count_ = 0;
  uint64_t tensors_ = 0;
};

/// A small model that uses most of the format: metadata, a matrix, a scalar, a tensor of no bytes, an offset beyond
/// 250.
inline BinTensorsBuilder small_bintensors() {
  BinTensorsBuilder b;
  b.metadata("format", "pt").tensor("w", 11, {32, 2}, std::string(256, 'w'));
  return b.tensor("empty", 9, {0, 3}, "").tensor("s", 1, {}, "s");
}

}  // namespace weightfs::test
