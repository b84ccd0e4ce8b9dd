#include "formats/boxes/boxes.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/files/leaf.h"

namespace weightfs {
namespace {

// The slices of a tensor that is gathered: each run of its elements is searched among them. Writers make as many as
// they have servers, or processes.
constexpr size_t kMaxGathered = 1024;

uint64_t end_of(const Box& box, size_t d) { return box.start[d] + box.length[d]; }

bool overlap(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.start.size(); ++d)
    if (a.start[d] >= end_of(b, d) || b.start[d] >= end_of(a, d)) return false;
  return true;
}

// Slices with as many elements as the tensor, none of which is in two of them, have each element once.
Result<void> check_cover(const std::vector<PlacedBox>& slices, const Shape& shape, Budget& budget) {
  constexpr uint64_t kPerStep = 16;  // comparisons in a microsecond
  uint64_t elements = 0;
  for (const PlacedBox& each : slices)
    if (__builtin_add_overflow(elements, elements_of(each.box.length).value_or(UINT64_MAX), &elements))
      return failure(Code::corrupt, "its slices have too many elements");
  if (elements != elements_of(shape))
    return failure(Code::corrupt,
                   fmt::format("its slices have {} elements, which is not the number of its shape", elements));
  for (size_t i = 0; i < slices.size(); ++i) {
    size_t j = i + 1;
    for (; j < slices.size() && slices[j].box.start[0] < end_of(slices[i].box, 0); ++j)
      if (overlap(slices[i].box, slices[j].box)) return failure(Code::corrupt, "its slices overlap");
    TRY_VOID(budget.charge(Cost::step, (j - i) * shape.size() / kPerStep));
  }
  return {};
}

// The last dimension that is divided.
size_t divided_dimension(const std::vector<PlacedBox>& slices, const Shape& shape) {
  size_t last = 0;
  for (const PlacedBox& each : slices)
    for (size_t d = 0; d < shape.size(); ++d)
      if (each.box.length[d] != shape[d]) last = std::max(last, d);
  return last;
}

// A tensor whose slices have parts of its rows: each read copies the runs of elements that follow each other.
class Joined final : public Source {
 public:
  Joined(std::vector<PlacedBox> slices, const Shape& shape, uint64_t width, size_t divided)
      : slices_(std::move(slices)), shape_(shape.begin(), shape.begin() + static_cast<ptrdiff_t>(divided) + 1) {
    // What follows the last divided dimension is a part of the element.
    unit_ = width;
    for (size_t d = divided + 1; d < shape.size(); ++d) unit_ *= shape[d];
    size_ = unit_;
    for (const uint64_t count : shape_) size_ *= count;
  }

  uint64_t size() const override { return size_; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t wanted = bytes_inside(size_, offset, out.size());
    std::vector<std::vector<Piece>> pieces(slices_.size());
    size_t near = 0;  // the slice of the last run
    for (size_t done = 0; done < wanted;) {
      const Run run = TRY(run_at(offset + done, near));
      const auto count = static_cast<size_t>(std::min<uint64_t>(run.bytes, wanted - done));
      pieces[run.slice].push_back({run.offset, out.subspan(done, count)});
      near = run.slice;
      done += count;
    }
    for (size_t i = 0; i < slices_.size(); ++i)
      if (!pieces[i].empty()) TRY_VOID(read_pieces(slices_[i].bytes, pieces[i]));
    return wanted;
  }

  Result<Place> place(uint64_t offset, Opens) const override {
    const auto is_each_ready = [this] {
      return std::ranges::all_of(slices_, [](const PlacedBox& each) { return is_ready(each.bytes); });
    };
    return Place{.length = bytes_after(offset), .is_ready = is_each_ready()};
  }
  VerifiedBy verification() const override {
    VerifiedBy found = VerifiedBy::unknown;
    for (const PlacedBox& each : slices_) found = worse(found, each.bytes.verification());
    return found;
  }
  std::shared_ptr<const void> keep_cached() const override {
    auto held = std::make_shared<std::vector<std::shared_ptr<const void>>>();
    for (const PlacedBox& each : slices_) held->push_back(each.bytes.keep_cached());
    return held;
  }

 private:
  // Bytes of a slice that follow each other in the tensor.
  struct Run {
    size_t slice;
    uint64_t offset;  // in the slice
    uint64_t bytes;
  };

  // Neighbours of the last slice are searched first.
  Result<Run> run_at(uint64_t offset, size_t near) const {
    std::array<uint64_t, kMaxDimensions> place;
    uint64_t unit = offset / unit_;
    for (size_t d = shape_.size(); d-- > 0; unit /= shape_[d]) place[d] = unit % shape_[d];
    for (size_t i = 0; i < slices_.size(); ++i) {
      const size_t at = (near + i) % slices_.size();
      const Box& box = slices_[at].box;
      uint64_t index = 0;
      size_t d = 0;
      for (; d < shape_.size() && place[d] >= box.start[d] && place[d] < end_of(box, d); ++d)
        index = index * box.length[d] + place[d] - box.start[d];
      if (d < shape_.size()) continue;
      const uint64_t inside = offset % unit_;
      return Run{at, index * unit_ + inside, (end_of(box, d - 1) - place[d - 1]) * unit_ - inside};
    }
    return failure(Code::corrupt, "an element without a slice");
  }

  std::vector<PlacedBox> slices_;
  Shape shape_;    // up to the last divided dimension
  uint64_t unit_;  // bytes per element of that shape
  uint64_t size_;
};

}  // namespace

Result<Slice> join(std::vector<PlacedBox> slices, const Shape& shape, uint64_t width, Budget& budget) {
  if (slices.size() == 1 && slices[0].box.length == shape) return slices[0].bytes;
  if (shape.empty()) return failure(Code::corrupt, "a scalar that is not one whole slice");
  std::ranges::sort(slices, {}, [](const PlacedBox& each) { return each.box.start; });
  TRY_VOID(check_cover(slices, shape, budget));
  const size_t divided = divided_dimension(slices, shape);
  const uint64_t size = elements_of(shape, width).value_or(0);
  if (size == 0) return slice(in_memory(""), 0, 0);
  if (divided > 0 && slices.size() > kMaxGathered)
    return failure(Code::unsupported,
                   fmt::format("{} slices beside each other, at most {} are gathered", slices.size(), kMaxGathered));
  if (divided > 0) return slice(std::make_shared<Joined>(std::move(slices), shape, width, divided), 0, size);
  std::vector<SourcePtr> parts;
  for (const PlacedBox& each : slices) parts.push_back(std::make_shared<const Slice>(each.bytes));
  return slice(concat(std::move(parts)), 0, size);
}

}  // namespace weightfs
