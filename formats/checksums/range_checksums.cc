#include "formats/checksums/range_checksums.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/cancel.h"
#include "base/digest.h"
#include "base/text.h"
#include "base/values/little_endian.h"

namespace weightfs {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;

// The bytes that ranges of one file may have, which may overlap.
constexpr uint64_t kMaxCovered = 2;
constexpr uint64_t kMaxCoveredBase = 64'000'000;

// A checksum that has begun.
struct Running {
  const RangeChecksum* range;
  RangeSum sum;
};

// Reads the ranges of one file.
class RangeReader {
 public:
  using OnBytes = std::function<void(uint64_t count)>;
  using OnSum = std::function<void(const RangeChecksum&, uint32_t stored, uint32_t found)>;

  RangeReader(const Source& file, const RangeChecksums& stored, const OnBytes& on_bytes, const OnSum& on_sum)
      : file_(file), stored_(stored), on_bytes_(on_bytes), on_sum_(on_sum) {
    for (const RangeChecksum& range : stored.ranges) sorted_.push_back(&range);
    std::ranges::sort(sorted_, {}, [](const RangeChecksum* range) { return std::pair(range->offset, range->size); });
  }

  Result<void> read() {
    TRY_VOID(check_ranges());
    while (next_ < sorted_.size()) {
      uint64_t at = sorted_[next_]->offset;
      TRY_VOID(begin_until(at + 1));
      while (!running_.empty()) at += TRY(step(at));
    }
    return {};
  }

 private:
  Result<void> check_ranges() const {
    const uint64_t size = file_.size();
    uint64_t left =
        size > (UINT64_MAX - kMaxCoveredBase) / kMaxCovered ? UINT64_MAX : size * kMaxCovered + kMaxCoveredBase;
    for (const RangeChecksum* range : sorted_) {
      if (range->offset > size || range->size > size - range->offset)
        return failure(Code::corrupt, fmt::format("{} bytes at {}, it has {}", range->size, range->offset, size));
      if (range->size > left)
        return failure(Code::unsupported, "not checked: ranges that overlap have more than twice its bytes");
      left -= range->size;
    }
    return {};
  }

  // Begins the ranges before `end`.
  Result<void> begin_until(uint64_t end) {
    for (; next_ < sorted_.size() && sorted_[next_]->offset < end; ++next_) {
      const Running begun{sorted_[next_], RangeSum(sorted_[next_]->lengths, stored_.order)};
      if (begun.range->size == 0)
        TRY_VOID(finish(begun));
      else
        running_.push_back(begun);
    }
    return {};
  }

  // Reads the bytes from `at` on, as far as ranges have them, at most a buffer. Returns their number.
  Result<size_t> step(uint64_t at) {
    if (is_cancelled()) return failure(Code::resource, "cancelled");
    uint64_t end = at;
    for (const Running& each : running_) end = std::max(end, each.range->offset + each.range->size);
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(end - at, buffer_.size()));
    const size_t got = TRY(file_.read_ahead(at, std::span(buffer_).first(wanted), {at, end}));
    if (got == 0) return failure(Code::io, "the source ended before its size");
    TRY_VOID(begin_until(at + got));
    for (Running& each : running_) {
      const uint64_t from = std::max(at, each.range->offset);
      const uint64_t to = std::min(at + got, each.range->offset + each.range->size);
      each.sum.update(std::span<const std::byte>(buffer_).subspan(from - at, to - from));
      if (to == each.range->offset + each.range->size) TRY_VOID(finish(each));
    }
    std::erase_if(running_, [&](const Running& each) { return each.range->offset + each.range->size <= at + got; });
    on_bytes_(got);
    return got;
  }

  Result<void> finish(const Running& ended) const {
    uint32_t stored = ended.range->crc32c;
    if (stored_.is_table) {
      std::array<std::byte, 4> behind;
      TRY_VOID(read_exact(file_, ended.range->offset + ended.range->size, behind));
      const std::string_view text(reinterpret_cast<const char*>(behind.data()), behind.size());
      stored = unmasked_crc32c(static_cast<uint32_t>(little_endian(text)));
    }
    on_sum_(*ended.range, stored, ended.sum.crc32c());
    return {};
  }

  const Source& file_;
  const RangeChecksums& stored_;
  const OnBytes& on_bytes_;
  const OnSum& on_sum_;
  std::vector<const RangeChecksum*> sorted_;
  std::vector<Running> running_;
  size_t next_ = 0;  // in sorted_
  std::vector<std::byte> buffer_{kBuffer};
};

}  // namespace

void RangeSum::update(std::span<const std::byte> bytes) {
  for (; lengths_ > 0 && !bytes.empty(); bytes = bytes.subspan(1)) {
    const auto byte = std::to_integer<uint64_t>(bytes.front());
    if (shift_ < 64) number_ |= (byte & 0x7F) << shift_;
    shift_ = std::min(shift_ + 7, 64U);
    if ((byte & 0x80) == 0) add_number(std::exchange(number_, 0));
  }
  crc_ = weightfs::crc32c(crc_, bytes);
}

void RangeSum::add_number(uint64_t number) {
  std::string bytes;
  append_little_endian(bytes, number, number <= UINT32_MAX ? sizeof(uint32_t) : sizeof(uint64_t));
  if (order_ == std::endian::big) std::ranges::reverse(bytes);
  crc_ = weightfs::crc32c(crc_, std::as_bytes(std::span(bytes)));
  shift_ = 0;
  --lengths_;
}

uint64_t RangeChecksums::bytes_in_ranges(uint64_t size) const {
  uint64_t sum = 0;
  for (const RangeChecksum& range : ranges) sum += std::min(range.size, size - std::min(sum, size));
  return sum;
}

Result<uint32_t> crc32c_of(const Source& source, RangeSum sum) {
  std::vector<std::byte> buffer(static_cast<size_t>(std::min<uint64_t>(source.size(), kBuffer)));
  for (uint64_t at = 0; at < source.size();) {
    if (is_cancelled()) return failure(Code::resource, "cancelled");
    const size_t got = TRY(source.read_ahead(at, buffer, {0, source.size()}));
    if (got == 0) return failure(Code::io, "the source ended before its size");
    sum.update(std::span<const std::byte>(buffer).first(got));
    at += got;
  }
  return sum.crc32c();
}

Result<void> each_range_sum(const Source& file, const RangeChecksums& stored,
                            const std::function<void(uint64_t count)>& on_bytes,
                            const std::function<void(const RangeChecksum&, uint32_t stored, uint32_t found)>& on_sum) {
  return RangeReader(file, stored, on_bytes, on_sum).read();
}

}  // namespace weightfs
