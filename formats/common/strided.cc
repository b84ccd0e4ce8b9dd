#include "formats/common/strided.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/files/leaf.h"
#include "base/verity/recent_blocks.h"
#include "formats/common/gather.h"

namespace weightfs {
namespace {

// The size of a block, which is gathered at once for reads that follow each other. The larger it is, the more bytes of
// a transposed matrix are read at once; two blocks are kept, because the reads of a sequential reader arrive in any
// order.
constexpr uint64_t kBlockBytes = kMaxRecentBlocks / 2;

// That of a block whose bytes are in one part of the storage, so that a larger one saves no reads. Many readers have
// one each.
constexpr uint64_t kSmallBlockBytes = uint64_t{512} << 10;

// A read of at least one of so many parts of a block computes the block.
constexpr uint64_t kLargePart = 8;

// The requests of one sequential reader arrive in any order, this far from each other.
constexpr uint64_t kNear = uint64_t{4} << 20;

// Bytes that are stored one after the other and worth a read of their own: a block of such rows saves nothing.
constexpr uint64_t kLongRow = 4096;

// Bytes between parts of the storage that are requested with them: a request costs more.
constexpr uint64_t kMaxGap = uint64_t{64} << 10;

// No block was read: the first read is not known to be sequential.
constexpr uint64_t kNoBlock = ~uint64_t{0};

// A dimension of the tensor, and the elements of the output from one index to the next.
struct Dimension {
  uint64_t count;
  uint64_t stride;
  uint64_t block;
};

void reverse_each(std::span<std::byte> bytes, uint32_t width) {
  for (size_t at = 0; at + width <= bytes.size(); at += width)
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.begin() + static_cast<ptrdiff_t>(at + width));
}

// Applies a conversion to whole elements.
class Converter {
 public:
  Converter(const DType& dtype, const Conversion& conversion)
      : conversion_(conversion),
        width_(dtype.block_bytes),
        complex_(dtype.name.starts_with("complex")),
        integer_(dtype.name.find("int") != dtype.name.npos) {}

  void apply(std::span<std::byte> elements) const {
    if (conversion_.swap > 1) reverse_each(elements, conversion_.swap);
    for (size_t at = 0; (conversion_.conjugate || conversion_.negate) && at < elements.size(); at += width_)
      convert(elements.subspan(at, width_));
  }

 private:
  // The sign of a number with a sign bit is its last bit.
  static void flip_sign(std::span<std::byte> number) { number.back() ^= std::byte{0x80}; }

  void convert(std::span<std::byte> element) const {
    if (complex_ && conversion_.conjugate != conversion_.negate) flip_sign(element);
    if (!conversion_.negate) return;
    if (complex_) return flip_sign(element.first(width_ / 2));
    if (!integer_) return flip_sign(element);
    uint64_t number = 0;
    std::memcpy(&number, element.data(), width_);
    number = 0 - number;
    std::memcpy(element.data(), &number, width_);
  }

  Conversion conversion_;
  uint32_t width_;
  bool complex_;
  bool integer_;
};

class Gathered final : public Source {
 public:
  Gathered(Slice storage, uint64_t first, std::vector<Dimension> dimensions, uint64_t elements, const DType& dtype,
           const Conversion& conversion)
      : storage_(std::move(storage)),
        first_(first),
        dimensions_(std::move(dimensions)),
        elements_(elements),
        width_(dtype.block_bytes),
        converter_(dtype, conversion),
        span_(span_below(0)),
        per_block_(elements_per_block()) {}

  uint64_t size() const override { return elements_ * width_; }
  uint64_t occupied() const override { return std::min(size(), storage_.occupied()); }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return read_blocks(offset, out, std::nullopt);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    const Groups groups = groups_of(expected);
    return read_blocks(offset, out, groups.from < groups.to ? std::optional(groups) : std::nullopt);
  }
  Result<void> prefetch(ByteRange range) const override {
    return each_part(groups_of(range), [&](ByteRange part) { return storage_.prefetch(part); });
  }
  Result<CachedBytes> cached(ByteRange range) const override {
    CachedBytes sum;
    uint64_t stored = 0;
    const auto add = [&](ByteRange part) -> Result<void> {
      sum += TRY(storage_.cached(part));
      stored += part.to - part.from;
      return {};
    };
    TRY_VOID(each_part(groups_of(range), add));
    return in_proportion(sum, stored, bytes_inside(size(), range.from, range.to - range.from));
  }

  VerifiedBy verification() const override { return storage_.verification(); }
  std::shared_ptr<const void> keep_cached() const override {
    return std::make_shared<const std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
        storage_.keep_cached(), blocks_.hold());
  }

 private:
  // Indices of the outermost dimension.
  struct Groups {
    uint64_t from;
    uint64_t to;
  };

  // The groups that have bytes of the range.
  Groups groups_of(ByteRange range) const {
    const uint64_t group = dimensions_.front().block * width_;
    const uint64_t to = std::min(range.to, size());
    if (range.from >= to) return {0, 0};
    return {range.from / group, to / group + (to % group == 0 ? 0 : 1)};
  }

  // The bytes of the storage from the first to the last of these groups.
  ByteRange stored_bytes(Groups groups) const {
    const uint64_t stride = dimensions_.front().stride;
    return {(first_ + groups.from * stride) * width_, (first_ + (groups.to - 1) * stride + span_) * width_};
  }

  // Whether there is so much between the groups that each is a part of the storage.
  bool are_apart() const {
    const uint64_t stride = dimensions_.front().stride;
    return stride > span_ && stride - span_ > kMaxGap / width_;
  }

  // Calls `use` with each part of the storage that has bytes of these groups.
  template <class Use>
  Result<void> each_part(Groups groups, const Use& use) const {
    if (groups.from >= groups.to) return {};
    if (!are_apart()) return use(stored_bytes(groups));
    for (uint64_t group = groups.from; group < groups.to; ++group) TRY_VOID(use(stored_bytes({group, group + 1})));
    return {};
  }

  // The elements of the storage from the first to the last one with the same indices up to this dimension.
  uint64_t span_below(size_t dimension) const {
    uint64_t span = 1;
    for (size_t d = dimension + 1; d < dimensions_.size(); ++d)
      span += (dimensions_[d].count - 1) * dimensions_[d].stride;
    return span;
  }

  Result<size_t> read_blocks(uint64_t offset, std::span<std::byte> out, const std::optional<Groups>& expected) const {
    if (offset >= size()) return size_t{0};
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(out.size(), size() - offset));
    const uint64_t block_bytes = per_block_ * width_;
    for (size_t done = 0; done < wanted;) {
      const uint64_t at = offset + done;
      const auto count = static_cast<size_t>(std::min<uint64_t>(wanted - done, block_bytes - at % block_bytes));
      TRY_VOID(read_in_block(at / block_bytes, at % block_bytes, out.subspan(done, count), expected));
      done += count;
    }
    return wanted;
  }

  // Whole rows, planes, … of at most kBlockBytes, so that a block is one box. As few as are worth a read where they do
  // not overlap in the storage.
  uint64_t elements_per_block() const {
    const uint64_t most = std::max<uint64_t>(kBlockBytes / width_, 1);
    for (size_t d = 0; d < dimensions_.size(); ++d) {
      const auto& [count, stride, block] = dimensions_[d];
      if (block > most) continue;
      const uint64_t size = stride >= span_below(d) ? kSmallBlockBytes / width_ : most;
      return std::min(std::max<uint64_t>(size / block, 1), count) * block;
    }
    return std::min(most, elements_);
  }

  // Reads a part of one block. A sequential reader gets it from the block, a random one without its neighbours.
  Result<void> read_in_block(uint64_t block, uint64_t offset, std::span<std::byte> out,
                             const std::optional<Groups>& expected) const {
    const uint64_t last = last_block_.exchange(block, std::memory_order_relaxed);
    const uint64_t first = block * per_block_;
    const uint64_t size = std::min(per_block_, elements_ - first) * width_;
    const bool is_whole = out.size() == size;
    if (is_whole || !needs_block(block, last, offset, out.size()) || has_local_rows())
      return read_alone(block, offset, out, expected);
    return blocks_.read(
        block, size, [&](std::span<std::byte> bytes) { return gather_all(first, bytes, expected); }, offset, out);
  }

  // Whether a read is so large, or so near to the last one, that the rest of its block is probably read, too.
  bool needs_block(uint64_t block, uint64_t last, uint64_t offset, uint64_t size) const {
    const uint64_t block_bytes = per_block_ * width_;
    if (size >= block_bytes / kLargePart) return true;
    // The first bytes alone are read by many programs, and by several views of the tensor.
    if (last == kNoBlock || (block == 0 && offset == 0)) return false;
    return std::max(block, last) - std::min(block, last) <= std::max<uint64_t>(kNear / block_bytes, 1);
  }

  // Whether rows are long, and of a local file. A server is asked for whole groups.
  bool has_local_rows() const {
    if (dimensions_.back().stride != 1 || dimensions_.back().count < kLongRow / width_) return false;
    const auto place = storage_.place(first_ * width_, Opens::nothing);
    return place && place->leaf != nullptr;
  }

  Result<void> read_alone(uint64_t block, uint64_t offset, std::span<std::byte> out,
                          const std::optional<Groups>& expected) const {
    const uint64_t first = offset / width_;
    const uint64_t end = (offset + out.size() + width_ - 1) / width_;
    if ((end - first) * width_ == out.size()) return gather_all(block * per_block_ + first, out, expected);
    std::vector<std::byte> bytes((end - first) * width_);
    TRY_VOID(gather_all(block * per_block_ + first, bytes, expected));
    std::memcpy(out.data(), bytes.data() + offset % width_, out.size());
    return {};
  }

  // Fills `bytes` with the elements of the output from `first` on.
  Result<void> gather_all(uint64_t first, std::span<std::byte> bytes, const std::optional<Groups>& expected) const {
    const uint64_t count = bytes.size() / width_;
    for (uint64_t done = 0; done < count;) {
      const uint64_t elements = box_at(first + done, count - done);
      TRY_VOID(gather_box(first + done, elements, bytes.subspan(done * width_, elements * width_), expected));
      done += elements;
    }
    converter_.apply(bytes);
    return {};
  }

  // The dimension of the largest box that begins at this element and has at most `most` elements.
  size_t partial_dimension(uint64_t element, uint64_t most) const {
    for (size_t d = 0; d + 1 < dimensions_.size(); ++d)
      if (element % dimensions_[d].block == 0 && most >= dimensions_[d].block) return d;
    return dimensions_.size() - 1;
  }

  // The number of elements of that box.
  uint64_t box_at(uint64_t element, uint64_t most) const {
    const Dimension& partial = dimensions_[partial_dimension(element, most)];
    return std::min(most / partial.block, partial.count - element / partial.block % partial.count) * partial.block;
  }

  // The part of the storage that will be read from an element of the output on; nothing if that are several.
  std::optional<ByteRange> expected_bytes(uint64_t element, uint64_t elements,
                                          const std::optional<Groups>& expected) const {
    const uint64_t block = dimensions_.front().block;
    const Groups own{element / block, (element + elements - 1) / block + 1};
    if (!expected || (are_apart() && own.to - own.from > 1)) return std::nullopt;
    if (are_apart()) return stored_bytes(own);
    return stored_bytes({std::min(own.from, expected->from), std::max(own.to, expected->to)});
  }

  Result<void> gather_box(uint64_t element, uint64_t elements, std::span<std::byte> out,
                          const std::optional<Groups>& expected) const {
    uint64_t first = first_;
    for (const Dimension& dimension : dimensions_)
      first += element / dimension.block % dimension.count * dimension.stride;
    std::vector<BoxDimension> box;
    for (size_t d = partial_dimension(element, elements); d < dimensions_.size(); ++d) {
      const Dimension& dimension = dimensions_[d];
      const uint64_t count = box.empty() ? elements / dimension.block : dimension.count;
      box.push_back({count, dimension.stride, dimension.block});
    }
    return gather(storage_, first, width_, box, out, expected_bytes(element, elements, expected));
  }

  Slice storage_;
  uint64_t first_;                     // element of the storage
  std::vector<Dimension> dimensions_;  // outermost first; at least one
  uint64_t elements_;
  uint32_t width_;  // bytes per element
  Converter converter_;
  uint64_t span_;       // elements of the storage from the first to the last one of a group
  uint64_t per_block_;  // elements
  RecentBlocks blocks_;
  mutable std::atomic<uint64_t> last_block_ = kNoBlock;
};

// The dimensions with more than one element; neighbours that are stored one after the other are one dimension. At
// least one.
std::vector<Dimension> merged(const Shape& shape, const Strides& strides) {
  std::vector<Dimension> innermost_first{{1, 1, 1}};
  for (size_t d = shape.size(); d-- > 0;) {
    Dimension& last = innermost_first.back();
    if (shape[d] == 1) continue;
    if (last.count == 1)
      last = {shape[d], strides[d], last.block};
    else if (strides[d] == last.stride * last.count)
      last.count *= shape[d];
    else
      innermost_first.push_back({shape[d], strides[d], last.block * last.count});
  }
  return {innermost_first.rbegin(), innermost_first.rend()};
}

// The index in the storage of the last element of a tensor; nothing on overflow.
std::optional<uint64_t> last_element(uint64_t offset, const Shape& shape, const Strides& strides) {
  uint64_t last = offset;
  for (size_t d = 0; d < shape.size(); ++d) {
    uint64_t distance = 0;
    if (__builtin_mul_overflow(shape[d] - 1, strides[d], &distance) || __builtin_add_overflow(last, distance, &last))
      return std::nullopt;
  }
  return last;
}

// Elements of less than a byte, or in blocks: only as they are stored.
Result<Slice> whole_blocks(const Slice& storage, uint64_t offset, const DType& dtype, bool contiguous, uint64_t size) {
  const uint64_t per_block = dtype.block;
  if (!contiguous || offset % per_block != 0)
    return failure(Code::unsupported, fmt::format("{} elements are not stored in order", dtype.name));
  uint64_t begin = 0;
  if (__builtin_mul_overflow(offset / per_block, dtype.block_bytes, &begin))
    return failure(Code::corrupt, "the first element is outside of the storage");
  return slice(std::make_shared<Slice>(storage), begin, size);
}

Strides strides_of(const Shape& shape, bool innermost_first) {
  Strides strides(shape.size());
  uint64_t next = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const size_t d = innermost_first ? shape.size() - 1 - i : i;
    strides[d] = next;
    next *= shape[d];
  }
  return strides;
}

}  // namespace

Strides c_strides(const Shape& shape) { return strides_of(shape, true); }

Strides fortran_strides(const Shape& shape) { return strides_of(shape, false); }

Result<Slice> strided(const Slice& storage, uint64_t offset, const DType& dtype, const Shape& shape,
                      const Strides& strides, const Conversion& conversion) {
  if (strides.size() != shape.size())
    return failure(Code::corrupt, fmt::format("{} dimensions, {} strides", shape.size(), strides.size()));
  const auto size = size_in_bytes(dtype, shape);
  if (!size) return failure(Code::corrupt, "the size overflows");
  if (*size == 0) return slice(storage.whole(), storage.offset(), 0);
  const std::vector<Dimension> dimensions = merged(shape, strides);
  const bool contiguous = dimensions.size() == 1 && (dimensions[0].stride == 1 || dimensions[0].count == 1);
  if (dtype.block != 1) return whole_blocks(storage, offset, dtype, contiguous && conversion == Conversion{}, *size);
  const uint64_t width = dtype.block_bytes;
  const auto last = last_element(offset, shape, strides);
  if (!last || *last >= storage.size() / width)
    return failure(Code::corrupt,
                   fmt::format("an element is outside of the storage of {} elements", storage.size() / width));
  if (contiguous && conversion == Conversion{}) return slice(storage.whole(), storage.offset() + offset * width, *size);
  return slice(std::make_shared<Gathered>(storage, offset, dimensions, *size / width, dtype, conversion), 0, *size);
}

}  // namespace weightfs
