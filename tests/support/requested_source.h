// Bytes of a server: notes which ones are requested, and how.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/source.h"

namespace weightfs::test {

class RequestedSource final : public Source {
 public:
  explicit RequestedSource(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    bytes_read += out.size();
    return bytes_.copy(reinterpret_cast<char*>(out.data()), out.size(), offset);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange range) const override {
    EXPECT_LE(range.from, offset);
    EXPECT_GE(range.to, offset + out.size());
    expected = range;
    return read(offset, out);
  }
  Result<void> prefetch(ByteRange range) const override {
    prefetched.emplace_back(range.from, range.to);
    return {};
  }
  Result<CachedBytes> cached(ByteRange range) const override {
    const uint64_t now = std::min(range.to, cached_end) - std::min(range.from, cached_end);
    return CachedBytes{now, now};
  }

  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
  mutable uint64_t bytes_read = 0;
  mutable ByteRange expected{0, 0};
  mutable Ranges prefetched;
  uint64_t cached_end = 0;

 private:
  std::string bytes_;
};

}  // namespace weightfs::test
