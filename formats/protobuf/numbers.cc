#include "formats/protobuf/numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <mutex>

#include "formats/grouped.h"

namespace weightfs::protobuf {
namespace {

// The number of numbers between two places of the index.
constexpr uint64_t kStride = 1024;

// Steps through the numbers. Its state is a value, so the index keeps copies of it.
class NumberReader {
 public:
  // A place before a number.
  struct Place {
    uint64_t at = 0;
    uint64_t chunk_end = 0;  // of the packed chunk that `at` is in; `at` itself between two fields
    size_t range = 0;        // of the message
  };

  NumberReader(Scanner& scanner, const NumbersField& field, const Place& place)
      : scanner_(scanner), field_(field), place_(place) {}

  static Place start(const NumbersField& field) {
    const uint64_t begin = field.message.ranges.empty() ? 0 : field.message.ranges.front().begin;
    return {begin, begin, 0};
  }

  const Place& place() const { return place_; }

  // Nothing at the end.
  Result<std::optional<uint64_t>> next() {
    while (place_.at == place_.chunk_end) {
      if (place_.range == field_.message.ranges.size()) return std::nullopt;
      if (place_.at == field_.message.ranges[place_.range].end) {
        next_range();
        continue;
      }
      if (const auto number = TRY(next_field())) return number;
    }
    return TRY(scanner_.number(place_.at, place_.chunk_end, field_.type));
  }

 private:
  void next_range() {
    ++place_.range;
    if (place_.range < field_.message.ranges.size())
      place_.at = place_.chunk_end = field_.message.ranges[place_.range].begin;
  }

  // The number if the next field has one, or nothing: it is another field, or a chunk, which is entered.
  Result<std::optional<uint64_t>> next_field() {
    const Message rest{{Range{place_.at, field_.message.ranges[place_.range].end}}, field_.message.depth};
    Fields fields(scanner_, rest);
    const auto found = TRY(fields.next());
    place_.at = place_.chunk_end = fields.position();
    if (!found) return std::nullopt;
    if (found->tag == tag(field_.number, field_.type)) return found->value;
    if (found->tag == tag(field_.number, WireType::bytes)) {
      place_.at = found->bytes.begin;
      place_.chunk_end = found->bytes.end;
    }
    return std::nullopt;
  }

  Scanner& scanner_;
  const NumbersField& field_;
  Place place_;
};

class NumberBytes final : public Source {
 public:
  NumberBytes(SourcePtr source, NumbersField field, uint64_t count, uint32_t width)
      : field_(std::move(field)),
        source_(std::move(source)),
        count_(count),
        width_(width),
        index_{NumberReader::start(field_)} {}

  uint64_t size() const override { return count_ * width_; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size() || out.empty()) return 0;
    const uint64_t wanted = std::min<uint64_t>(out.size(), size() - offset);
    uint64_t at = offset / width_ / kStride * kStride;
    Scanner scanner(*source_, nullptr);
    NumberReader numbers(scanner, field_, TRY(place_of(at)));
    for (uint64_t done = 0; done < wanted; ++at) {
      const uint64_t number = TRY(next(numbers, at));
      for (uint32_t i = 0; i < width_ && done < wanted; ++i)
        if (at * width_ + i >= offset) out[static_cast<size_t>(done++)] = static_cast<std::byte>(number >> (8 * i));
    }
    if (at == count_ && TRY(numbers.next()))
      return failure(Code::io, fmt::format("more than {} numbers, {} by the shape", count_, count_));
    return static_cast<size_t>(wanted);
  }

 private:
  Result<uint64_t> next(NumberReader& numbers, uint64_t at) const {
    const auto number = TRY(numbers.next());
    if (!number) return failure(Code::io, fmt::format("{} numbers, {} by the shape", at, count_));
    return *number;
  }

  // The place of number `at`, which is a multiple of kStride. The numbers before it are passed at most once, except by
  // two first readers at the same time.
  Result<NumberReader::Place> place_of(uint64_t at) const {
    uint64_t known = 0;
    NumberReader::Place place;
    {
      const std::scoped_lock lock(mutex_);
      known = std::min<uint64_t>(at / kStride, index_.size() - 1);
      place = index_[static_cast<size_t>(known)];
    }
    Scanner scanner(*source_, nullptr);
    NumberReader numbers(scanner, field_, place);
    for (uint64_t passed = known * kStride; passed < at;) {
      TRY_VOID(next(numbers, passed));
      if (++passed % kStride == 0) add_place(passed / kStride, numbers.place());
    }
    return numbers.place();
  }

  void add_place(uint64_t i, const NumberReader::Place& place) const {
    const std::scoped_lock lock(mutex_);
    if (i == index_.size()) index_.push_back(place);
  }

  NumbersField field_;
  SourcePtr source_;
  uint64_t count_;
  uint32_t width_;
  mutable std::mutex mutex_;  // guards index_; not held during reads
  mutable std::vector<NumberReader::Place> index_;
};

}  // namespace

void NumbersLayout::add_chunk(const Range& chunk) {
  if (chunk.empty()) return;
  ++chunks;
  chunk_bytes += chunk.size();
  last_chunk = chunk;
}

std::optional<Range> NumbersLayout::contiguous() const {
  if (single == 0 && chunks == 1) return last_chunk;
  return absent() ? std::optional(Range{}) : std::nullopt;
}

bool NumbersLayout::can_have(uint64_t count, WireType type) const {
  if (count < single) return false;
  const uint64_t packed = count - single;
  if (type == WireType::varint) return packed <= chunk_bytes && packed >= (chunk_bytes + 9) / 10;
  const uint64_t size = type == WireType::fixed32 ? 4 : 8;
  return chunk_bytes % size == 0 && packed == chunk_bytes / size;
}

Result<NumbersLayout> read_layout(Scanner& scanner, const NumbersField& field) {
  NumbersLayout layout;
  Fields fields(scanner, field.message);
  while (const auto found = TRY(fields.next())) {
    if (found->tag == tag(field.number, WireType::bytes)) layout.add_chunk(found->bytes);
    if (found->tag == tag(field.number, field.type)) layout.add_single();
  }
  return layout;
}

Result<uint64_t> count_numbers(Scanner& scanner, const NumbersField& field) {
  NumberReader numbers(scanner, field, NumberReader::start(field));
  uint64_t count = 0;
  while (TRY(numbers.next())) ++count;
  return count;
}

Result<bool> has_number(Scanner& scanner, const NumbersField& field, uint64_t wanted) {
  NumberReader numbers(scanner, field, NumberReader::start(field));
  bool found = false;
  while (const auto number = TRY(numbers.next())) found = found || *number == wanted;
  return found;
}

SourcePtr number_bytes(SourcePtr source, NumbersField field, uint64_t count, uint32_t width) {
  return std::make_shared<NumberBytes>(std::move(source), std::move(field), count, width);
}

namespace {

// Whether a field of varints has this count, unless it is too long to be counted now.
Result<void> check_count(const NumbersField& field, const NumbersLayout& layout, uint64_t count, Scanner& scanner,
                         uint64_t& countable) {
  if (layout.chunk_bytes > countable) return {};
  countable -= layout.chunk_bytes;
  const uint64_t counted = TRY(count_numbers(scanner, field));
  if (counted == count) return {};
  return failure(Code::corrupt, fmt::format("{} numbers, {} needed", counted, count));
}

}  // namespace

Result<Slice> numbers_as_bytes(const SourcePtr& file, const NumbersField& field, const NumbersLayout& layout,
                               uint64_t size, uint32_t width, Scanner& scanner, uint64_t& countable) {
  const uint64_t count = size / width;
  if (layout.absent() && count > 0)
    return failure(Code::corrupt, fmt::format("no data, {} needed", counted_bytes(size)));
  if (!layout.can_have(count, field.type))
    return failure(Code::corrupt, fmt::format("{} bytes of packed and {} single numbers, {} numbers needed",
                                              layout.chunk_bytes, layout.single, count));
  const auto range = layout.contiguous();
  if (count == 0 || (range && field.type != WireType::varint)) return slice(file, count == 0 ? 0 : range->begin, size);
  // Reading it once: it may be zeros in a small archive.
  TRY_VOID(scanner.charge(Cost::input, layout.chunk_bytes));
  TRY_VOID(scanner.charge(Cost::output, size));
  if (field.type == WireType::varint && layout.chunks > 0)
    TRY_VOID(check_count(field, layout, count, scanner, countable));
  return slice(number_bytes(file, field, count, width), 0, size);
}

}  // namespace weightfs::protobuf
