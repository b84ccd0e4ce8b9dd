// The elements of a tensor as numbers, for statistics and comparisons.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "base/result.h"
#include "base/source.h"
#include "formats/model.h"

namespace weightfs::compare {

/// Called from any thread with a number of bytes that were read.
using CountBytes = std::function<void(uint64_t bytes)>;

/// The elements of a tensor as doubles: exact, except integers beyond 2^53. Quantised types are dequantised to float32.
/// May be read by any number of threads.
class Numbers {
 public:
  /// Elements that are read at once.
  static constexpr size_t kBlock = 8192;
  /// The minimum number of elements of a chunk, the work of one thread, and the maximum number of chunks.
  static constexpr uint64_t kMinChunk = kBlock * 512;
  static constexpr uint64_t kMaxChunks = 1024;

  /// Fails with unsupported if the type has no real numbers, with corrupt if the tensor was refused.
  static Result<Numbers> of(const TensorView& tensor);

  uint64_t count() const { return count_; }
  uint64_t chunk_size() const { return std::max(kMinChunk, (count_ / kMaxChunks / kBlock + 1) * kBlock); }
  uint64_t chunks() const { return count_ / chunk_size() + (count_ % chunk_size() == 0 ? 0 : 1); }

  /// Copies elements from `first` on, which must exist. Fails as reading the tensor fails.
  Result<void> read(uint64_t first, std::span<double> out) const;

  /// Calls `use` with the elements of a chunk, a block at a time. Fails as read() and `use` do.
  template <class Use>
  Result<void> for_each_block(uint64_t chunk, const CountBytes& count_bytes, const Use& use) const {
    std::vector<double> block(static_cast<size_t>(std::min<uint64_t>(kBlock, count_)));
    const uint64_t end = std::min(count_, (chunk + 1) * chunk_size());
    for (uint64_t first = chunk * chunk_size(); first < end; first += kBlock) {
      const auto values = std::span(block).first(static_cast<size_t>(std::min<uint64_t>(kBlock, end - first)));
      TRY_VOID(read(first, values));
      TRY_VOID(use(std::span<const double>(values)));
      count_bytes(values.size() * width_);
    }
    return {};
  }

  uint64_t bytes() const { return count_ * width_; }  ///< that a pass over all elements counts

 private:
  using Convert = void (*)(const std::byte* from, double* to, size_t count);

  Numbers(SourcePtr source, uint64_t count, size_t width, Convert convert)
      : source_(std::move(source)), count_(count), width_(width), convert_(convert) {}

  SourcePtr source_;
  uint64_t count_;
  size_t width_;  // bytes of an element in source_
  Convert convert_;
};

/// The number of separate sums of a block, which the compiler can add at once.
inline constexpr size_t kLanes = 8;

/// A sum whose error does not grow with the number of terms (Neumaier).
class ExactSum {
 public:
  void add(double term);
  void add(const ExactSum& other) {
    add(other.sum_);
    add(other.rest_);
  }
  double value() const;

 private:
  double sum_ = 0;
  double rest_ = 0;  // the rounding errors
};

}  // namespace weightfs::compare
