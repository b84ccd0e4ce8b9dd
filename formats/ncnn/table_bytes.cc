#include "formats/ncnn/table_bytes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/files/leaf.h"

namespace weightfs::ncnn {
namespace {

class TableBytes final : public Source {
 public:
  TableBytes(Slice table, Slice indices) : table_(std::move(table)), indices_(std::move(indices)) {}

  uint64_t size() const override { return indices_.size() * kWidth; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t wanted = bytes_inside(size(), offset, out.size());
    if (wanted == 0) return wanted;
    std::array<std::byte, kTableSize> table;
    TRY_VOID(read_exact(table_, 0, table));
    std::array<std::byte, 4096> indices;
    for (size_t done = 0; done < wanted;) {
      const uint64_t first = (offset + done) / kWidth;
      const uint64_t last = (offset + wanted - 1) / kWidth;
      const auto count = static_cast<size_t>(std::min<uint64_t>(indices.size(), last - first + 1));
      TRY_VOID(read_exact(indices_, first, std::span(indices).first(count)));
      for (size_t i = 0; i < count && done < wanted; ++i) {
        const size_t skipped = (offset + done) % kWidth;
        const size_t copied = std::min(kWidth - skipped, wanted - done);
        std::memcpy(&out[done], &table[std::to_integer<size_t>(indices[i]) * kWidth + skipped], copied);
        done += copied;
      }
    }
    return wanted;
  }

  Result<void> prefetch(ByteRange range) const override {
    TRY_VOID(table_.prefetch({0, kTableSize}));
    return indices_.prefetch({range.from / kWidth, (range.to + kWidth - 1) / kWidth});
  }

  Result<weightfs::Place> place(uint64_t offset, Opens) const override {
    return weightfs::Place{.length = bytes_after(offset), .is_ready = is_ready(indices_)};
  }

 private:
  static constexpr size_t kWidth = 4;

  Slice table_;
  Slice indices_;
};

}  // namespace

SourcePtr table_bytes(Slice table, Slice indices) {
  return std::make_shared<TableBytes>(std::move(table), std::move(indices));
}

}  // namespace weightfs::ncnn
