#include "formats/common/gather.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "base/files/leaf.h"
#include "base/parallel.h"
#include "formats/common/transpose.h"

namespace weightfs {
namespace {

constexpr uint64_t kDense = 8;     // one read for elements and at most this many times their bytes
constexpr uint64_t kClose = 4096;  // or at most this many bytes
constexpr uint64_t kLong = 16384;  // bytes of a read that is not worth joining with others by reading what is between
constexpr uint64_t kTile = 16;  // rows and columns that are copied at once, so that both stay in the processor's cache

// A group of pieces stays in the processor's second cache between its read and its copy. More pieces are longer rows of
// the output, which take fewer writes that wait for memory.
constexpr uint64_t kGroupBytes = uint64_t{512} << 10;
constexpr uint64_t kMostPieces = 256;

constexpr uint64_t kLine = 64;  // bytes of a cache line

// A copy of at least this many bytes is worth threads. Each takes about so many parts of it, and keeps its buffer for
// the groups of a part, because new memory costs time, too.
constexpr uint64_t kLarge = uint64_t{1} << 20;
constexpr size_t kMaxThreads = 4;
constexpr uint64_t kPartsPerThread = 4;

// A dimension of the copy from the buffer to the output.
using CopyDimension = BoxDimension;

template <class T>
void copy_tile(const std::byte* from, std::byte* to, const CopyDimension& outer, const CopyDimension& inner) {
  for (uint64_t i = 0; i < outer.count; ++i)
    for (uint64_t j = 0; j < inner.count; ++j)
      std::memcpy(to + (i * outer.out_stride + j * inner.out_stride) * sizeof(T),
                  from + (i * outer.stride + j * inner.stride) * sizeof(T), sizeof(T));
}

struct Wide {
  std::byte bytes[16];
};

void copy_tile(uint32_t width, const std::byte* from, std::byte* to, const CopyDimension& outer,
               const CopyDimension& inner) {
  switch (width) {
    case 1:
      return copy_tile<uint8_t>(from, to, outer, inner);
    case 2:
      return copy_tile<uint16_t>(from, to, outer, inner);
    case 4:
      return copy_tile<uint32_t>(from, to, outer, inner);
    case 8:
      return copy_tile<uint64_t>(from, to, outer, inner);
    case 16:
      return copy_tile<Wide>(from, to, outer, inner);
    default:
      break;
  }
  for (uint64_t i = 0; i < outer.count; ++i)
    for (uint64_t j = 0; j < inner.count; ++j)
      std::memcpy(to + (i * outer.out_stride + j * inner.out_stride) * width,
                  from + (i * outer.stride + j * inner.stride) * width, width);
}

// Copies two dimensions: rows that are contiguous on both sides at once, a transposed plane in blocks, others in tiles.
void copy_plane(uint32_t width, const std::byte* from, std::byte* to, const CopyDimension& outer,
                const CopyDimension& inner) {
  if (inner.stride == 1 && inner.out_stride == 1) {
    for (uint64_t i = 0; i < outer.count; ++i)
      std::memcpy(to + i * outer.out_stride * width, from + i * outer.stride * width, inner.count * width);
    return;
  }
  if (outer.stride == 1 && inner.out_stride == 1 &&
      transpose(width, {from, inner.stride * width}, {to, outer.out_stride * width}, outer.count, inner.count))
    return;
  for (uint64_t i = 0; i < outer.count; i += kTile)
    for (uint64_t j = 0; j < inner.count; j += kTile) {
      CopyDimension rows = outer;
      CopyDimension columns = inner;
      rows.count = std::min(kTile, outer.count - i);
      columns.count = std::min(kTile, inner.count - j);
      copy_tile(width, from + (i * outer.stride + j * inner.stride) * width,
                to + (i * outer.out_stride + j * inner.out_stride) * width, rows, columns);
    }
}

// Copies from the buffer to the output. The two dimensions that are contiguous on one side form planes.
void copy_box(uint32_t width, const std::byte* from, std::byte* to, std::vector<CopyDimension> dimensions) {
  constexpr CopyDimension kSingle{1, 0, 0};
  const auto take = [&](auto less) {
    const auto found = std::min_element(dimensions.begin(), dimensions.end(), less);
    if (found == dimensions.end()) return kSingle;
    const CopyDimension taken = *found;
    dimensions.erase(found);
    return taken;
  };
  const CopyDimension inner = take([](const auto& a, const auto& b) { return a.out_stride < b.out_stride; });
  const CopyDimension outer = take([](const auto& a, const auto& b) { return a.stride < b.stride; });
  std::vector<uint64_t> at(dimensions.size(), 0);
  uint64_t source = 0, target = 0;  // of the plane, in elements
  for (;;) {
    copy_plane(width, from + source * width, to + target * width, outer, inner);
    for (size_t d = dimensions.size();;) {
      if (d == 0) return;
      const CopyDimension& next = dimensions[--d];
      source += next.stride;
      target += next.out_stride;
      if (++at[d] < next.count) break;
      source -= next.count * next.stride;
      target -= next.count * next.out_stride;
      at[d] = 0;
    }
  }
}

// The dimensions of a box: those of a piece, which one read returns, and the others.
struct Plan {
  std::vector<BoxDimension> piece;
  std::vector<BoxDimension> others;
  uint64_t span = 1;  // elements of the storage from the first to the last one of a piece
};

Plan plan(uint32_t width, std::span<const BoxDimension> box) {
  std::vector<BoxDimension> ascending(box.begin(), box.end());
  std::stable_sort(ascending.begin(), ascending.end(),
                   [](const auto& a, const auto& b) { return a.stride < b.stride; });
  Plan made;
  uint64_t elements = 1;  // of a piece, not counting those that repeat
  for (const BoxDimension& dimension : ascending) {
    const uint64_t span = made.span + (dimension.count - 1) * dimension.stride;
    const uint64_t distinct = dimension.stride == 0 ? elements : elements * dimension.count;
    const uint64_t most = made.span * width >= kLong ? distinct : std::max(kDense * distinct, kClose / width);
    const bool close = span <= most && span <= kGatherBuffer / width;
    // Behind a dimension that is not close no other one is: their strides are larger.
    (close && made.others.empty() ? made.piece : made.others).push_back(dimension);
    if (!made.others.empty()) continue;
    made.span = span;
    elements = distinct;
  }
  return made;
}

// A dimension that would belong to a piece, but for the size of the buffer, and how many of its elements fit.
struct Long {
  size_t dimension;
  uint64_t most;
};

// Without splitting it, the box would be read in pieces of a few bytes.
std::optional<Long> long_dimension(uint32_t width, std::span<const BoxDimension> box) {
  std::vector<size_t> ascending(box.size());
  std::iota(ascending.begin(), ascending.end(), size_t{0});
  std::ranges::stable_sort(ascending, {}, [&](size_t d) { return box[d].stride; });
  uint64_t span = 1, elements = 1;
  for (const size_t d : ascending) {
    if (box[d].stride == 0) continue;
    elements *= box[d].count;
    const uint64_t longer = span + (box[d].count - 1) * box[d].stride;
    if (longer > std::max(kDense * elements, kClose / width)) return std::nullopt;
    if (longer > kGatherBuffer / width) {
      const uint64_t most = (kGatherBuffer / width - std::min(span, kGatherBuffer / width)) / box[d].stride + 1;
      return most < 2 || span * width >= kClose ? std::nullopt : std::optional(Long{d, most});
    }
    span = longer;
  }
  return std::nullopt;
}

// A copy of a box, group by group. A group is pieces that are read before they are copied: those that are neighbours in
// the output.
class Gathering {
 public:
  Gathering(const Source& storage, uint64_t first, uint32_t width, Plan plan, std::span<std::byte> out,
            const std::optional<ByteRange>& expected)
      : storage_(storage), first_(first), width_(width), plan_(std::move(plan)), out_(out), expected_(expected) {
    if (!plan_.others.empty()) {
      const auto found = std::min_element(plan_.others.begin(), plan_.others.end(),
                                          [](const auto& a, const auto& b) { return a.out_stride < b.out_stride; });
      batched_ = *found;
      plan_.others.erase(found);
    }
    // Pieces that are a power of two apart would share a few places of the cache.
    pitch_ = plan_.span + (plan_.span * width % kLine == 0 ? kLine / width : 0);
    most_ = std::clamp<uint64_t>(kGroupBytes / width / pitch_, 1, kMostPieces);
    per_row_ = (batched_.count + most_ - 1) / most_;
  }

  uint64_t groups() const {
    uint64_t groups = per_row_;
    for (const BoxDimension& dimension : plan_.others) groups *= dimension.count;
    return groups;
  }

  // The size of the buffer for copy().
  uint64_t buffer_size() const { return ((std::min(most_, batched_.count) - 1) * pitch_ + plan_.span) * width_; }

  Result<void> copy(uint64_t group, std::byte* buffer) const {
    const uint64_t begin = group % per_row_ * most_;
    const uint64_t pieces = std::min(most_, batched_.count - begin);
    uint64_t source = first_ + begin * batched_.stride;
    uint64_t target = begin * batched_.out_stride;
    uint64_t left = group / per_row_;
    for (size_t d = plan_.others.size(); d-- > 0; left /= plan_.others[d].count) {
      source += left % plan_.others[d].count * plan_.others[d].stride;
      target += left % plan_.others[d].count * plan_.others[d].out_stride;
    }
    TRY_VOID(read(source, pieces, buffer));
    std::vector<CopyDimension> copied = plan_.piece;
    copied.push_back({pieces, pitch_, batched_.out_stride});
    copy_box(width_, buffer, out_.data() + target * width_, std::move(copied));
    return {};
  }

 private:
  Result<void> read(uint64_t source, uint64_t pieces, std::byte* buffer) const {
    std::vector<Piece> reads;
    for (uint64_t i = 0; i < pieces; ++i)
      reads.push_back({(source + i * batched_.stride) * width_, {buffer + i * pitch_ * width_, plan_.span * width_}});
    if (!expected_ || TRY(storage_.place(reads.front().offset, Opens::files)).leaf != nullptr)
      return read_pieces(storage_, reads);
    for (const Piece& piece : reads) TRY_VOID(read_exact(storage_, piece.offset, piece.out, *expected_));
    return {};
  }

  const Source& storage_;
  uint64_t first_;
  uint32_t width_;
  Plan plan_;  // without the dimension of the pieces of a group
  std::span<std::byte> out_;
  std::optional<ByteRange> expected_;
  BoxDimension batched_{1, 0, 0};  // from one piece of a group to the next
  uint64_t pitch_;                 // elements of the buffer from one piece to the next
  uint64_t most_;                  // pieces of a group
  uint64_t per_row_;               // groups of the dimension `batched_`
};

}  // namespace

Result<void> gather(const Source& storage, uint64_t first, uint32_t width, std::span<const BoxDimension> box,
                    std::span<std::byte> out, const std::optional<ByteRange>& expected) {
  if (const auto split = long_dimension(width, box)) {
    std::vector<BoxDimension> part(box.begin(), box.end());
    const auto [count, stride, out_stride] = part[split->dimension];
    for (uint64_t begin = 0; begin < count; begin += split->most) {
      part[split->dimension].count = std::min(split->most, count - begin);
      TRY_VOID(gather(storage, first + begin * stride, width, part, out.subspan(begin * out_stride * width), expected));
    }
    return {};
  }
  const Gathering gathering(storage, first, width, plan(width, box), out, expected);
  const size_t threads = out.size() < kLarge ? 1 : processors(kMaxThreads);
  const uint64_t groups = gathering.groups();
  const uint64_t parts = std::min(groups, threads * kPartsPerThread);
  return in_parallel(parts, threads, [&](uint64_t part) -> Result<void> {
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(gathering.buffer_size());
    const uint64_t end = groups / parts * (part + 1) + std::min(part + 1, groups % parts);
    for (uint64_t group = groups / parts * part + std::min(part, groups % parts); group < end; ++group)
      TRY_VOID(gathering.copy(group, buffer.get()));
    return {};
  });
}

}  // namespace weightfs
