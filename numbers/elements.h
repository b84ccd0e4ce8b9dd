// The elements of a tensor as numbers, block by block, whatever type they are stored in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "base/result.h"
#include "base/source.h"
#include "formats/tensor_list.h"

namespace weightfs::numbers {

/// Called from any thread with a number of bytes that were read.
using CountBytes = std::function<void(uint64_t bytes)>;

/// What a block of elements consists of.
enum class Form {
  patterns,  ///< uint16_t: the stored bits of float16, bfloat16 and integers of 16 bits
  floats,    ///< float: float32, narrower types, and quantised types, which are dequantised
  doubles,   ///< double: float64, and integers of 32 and 64 bits (exact up to 2^53)
};

/// The elements from `first` on, in C order.
struct ElementRange {
  uint64_t first;
  uint64_t count;
};

/// The elements of a tensor. May be read by any number of threads.
class Elements {
 public:
  /// The maximum number of elements of a block.
  static constexpr size_t kBlock = 8192;
  /// The minimum number of elements of a chunk, the work of one thread, and the maximum number of chunks.
  static constexpr uint64_t kMinChunk = kBlock * 128;
  static constexpr uint64_t kMaxChunks = 1024;
  /// The maximum number of rows of a sample, and of elements of each.
  static constexpr uint64_t kSampledRows = 64;
  static constexpr uint64_t kMaxSampledRow = 4096;

  /// Fails with unsupported if the type has no real numbers, with corrupt if the tensor was refused.
  static Result<Elements> of(const TensorView& tensor);

  Form form() const { return form_; }
  /// Whether 16 bits determine a value: the patterns, or the upper halves of the floats.
  bool are_narrow() const { return is_narrow_; }
  /// The value of a pattern. Of narrow floats, patterns are their upper halves.
  double value_of(uint16_t pattern) const { return value_of_(pattern); }

  uint64_t count() const { return count_; }
  /// The number of bytes that reading these elements counts.
  uint64_t bytes(uint64_t elements) const { return elements * stored_width_; }

  /// All elements, in order: a number of chunks that does not depend on the threads.
  std::vector<ElementRange> chunks() const;
  /// At most kSampledRows rows (of `row` elements; the first kMaxSampledRow of each), spread evenly; all elements if
  /// there are no more.
  std::vector<ElementRange> sample(uint64_t row) const;
  /// A copy for a reader that does not read all elements, so a server is asked for no others.
  Elements for_samples() const {
    Elements out = *this;
    out.reads_all_ = false;
    return out;
  }

  /// A copy whose elements are read now if they are one block, and else when they are needed: a small tensor that is
  /// read repeatedly costs its system calls once. Fails as reading the tensor fails.
  Result<Elements> loaded() const;

  /// Copies `out.size()` elements from `first` on, which must exist. Fails as reading the tensor fails.
  Result<void> read(uint64_t first, std::span<double> out) const;
  /// As above, for elements that are no doubles.
  Result<void> read(uint64_t first, std::span<float> out) const;

  /// Calls `use(uint64_t first, std::span<const T> block)` for the elements of a range, in order, with T as form()
  /// says. Fails as reading the tensor and `use` do.
  template <class Use>
  Result<void> for_each_block(ElementRange range, const CountBytes& count_bytes, const Use& use) const {
    switch (form_) {
      case Form::patterns:
        return blocks_of<uint16_t>(range, count_bytes, use);
      case Form::floats:
        return blocks_of<float>(range, count_bytes, use);
      case Form::doubles:
        return blocks_of<double>(range, count_bytes, use);
    }
    return {};
  }

  /// As for_each_block(), but each block is one of floats or doubles.
  template <class Use>
  Result<void> for_each_block_of_values(ElementRange range, const CountBytes& count_bytes, const Use& use) const {
    if (form_ == Form::doubles) return blocks_of<double>(range, count_bytes, use);
    return blocks_of<float>(range, count_bytes, use);
  }

 private:
  // Elements that are read at once: a multiple of kBlock.
  static constexpr size_t kRead = 4 * kBlock;

  using Convert = void (*)(const std::byte* from, std::byte* to, size_t count);
  struct Type;

  Elements(SourcePtr source, uint64_t count, const Type& type);
  static const Type* type_of(const DType& dtype);
  static const Type& float32_type(bool is_narrow);

  template <class T, class Use>
  Result<void> blocks_of(ElementRange range, const CountBytes& count_bytes, const Use& use) const {
    std::vector<T> buffer(static_cast<size_t>(std::min<uint64_t>(kRead, range.count)));
    while (range.count > 0) {
      const auto read = std::span(buffer).first(static_cast<size_t>(std::min<uint64_t>(kRead, range.count)));
      if constexpr (std::is_same_v<T, float>) {
        TRY_VOID(this->read(range.first, read));
      } else {
        TRY_VOID(read_into(range.first, read.size(), std::as_writable_bytes(read)));
      }
      for (size_t done = 0; done < read.size(); done += kBlock)
        TRY_VOID(use(range.first + done,
                     std::span<const T>(read.subspan(done, std::min<size_t>(kBlock, read.size() - done)))));
      count_bytes(bytes(read.size()));
      range = {range.first + read.size(), range.count - read.size()};
    }
    return {};
  }
  Result<void> read_into(uint64_t first, size_t count, std::span<std::byte> out) const;
  Result<void> read_bytes(const Source& source, uint64_t offset, std::span<std::byte> out) const;

  SourcePtr source_;
  SourcePtr values_;  // of patterns: the same elements as float32
  uint64_t count_;
  Form form_;
  bool is_narrow_;
  bool reads_all_ = true;
  size_t stored_width_;  // bytes of an element in source_
  Convert convert_;      // null if the stored bytes are those of the form
  double (*value_of_)(uint16_t);
};

/// The length of a row: the elements that one output of a layer is computed from. For a matrix, and a list of matrices,
/// the last axis; for a convolution (more axes, or a last axis of fewer than 32) all but the first. 0 for tensors with
/// fewer than two dimensions.
uint64_t row_length(ShapeView shape);

/// Large accumulators that threads take in turns: as many as there are threads at once.
template <class Accumulator>
class PerThread {
 public:
  explicit PerThread(std::function<Accumulator()> make) : make_(std::move(make)) {}

  /// Calls `use(accumulator)` with one that no other thread has.
  template <class Use>
  Result<void> with(const Use& use) {
    std::unique_ptr<Accumulator> mine;
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        mine = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (mine == nullptr) mine = std::make_unique<Accumulator>(make_());
    auto result = use(*mine);
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(mine));
    return result;
  }

  /// The sum of all, after the last use.
  Accumulator total() {
    if (free_.empty()) return make_();
    Accumulator all = std::move(*free_.back());
    free_.pop_back();
    for (const auto& other : free_) all.add(*other);
    free_.clear();
    return all;
  }

 private:
  std::function<Accumulator()> make_;
  std::mutex mutex_;  // guards free_
  std::vector<std::unique_ptr<Accumulator>> free_;
};

/// Adds all blocks of values of some chunks to accumulators, by `add(accumulator, first, block)` in several threads,
/// and returns their sum. Fails as reading the elements fails.
template <class Accumulator, class Add>
Result<Accumulator> sum_over(const Elements& elements, std::span<const ElementRange> chunks, size_t threads,
                             const CountBytes& count_bytes, std::function<Accumulator()> make, const Add& add) {
  PerThread<Accumulator> accumulators(std::move(make));
  TRY_VOID(in_parallel(chunks.size(), threads, [&](uint64_t chunk) {
    return accumulators.with([&](Accumulator& mine) {
      return elements.for_each_block_of_values(chunks[static_cast<size_t>(chunk)], count_bytes,
                                               [&](uint64_t first, auto block) -> Result<void> {
                                                 add(mine, first, block);
                                                 return {};
                                               });
    });
  }));
  return accumulators.total();
}

}  // namespace weightfs::numbers
