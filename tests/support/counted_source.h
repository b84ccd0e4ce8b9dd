// Bytes in memory, then a hole; reads are counted.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "base/source.h"

namespace weightfs::test {

class CountedSource final : public Source {
 public:
  explicit CountedSource(std::string bytes) : bytes_(std::move(bytes)), size_(bytes_.size()) {}

  /// With zeros up to `size`, which take no space.
  CountedSource(std::string bytes, uint64_t size) : bytes_(std::move(bytes)), size_(size) {}

  uint64_t size() const override { return size_; }
  uint64_t occupied() const override { return bytes_.size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const auto count = static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - std::min(offset, size_)));
    bytes_read += count;
    for (size_t i = 0; i < count; ++i)
      out[i] =
          offset + i < bytes_.size() ? static_cast<std::byte>(bytes_[static_cast<size_t>(offset) + i]) : std::byte{0};
    return count;
  }

  mutable uint64_t bytes_read = 0;

 private:
  std::string bytes_;
  uint64_t size_;
};

}  // namespace weightfs::test
