// The numbers of a tensor as another type, in npy/ and float32/, and in files of formats that lack its type: as
// float32, float16 or bfloat16, each rounded once from its exact value, and small integers as int8 or uint8.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "formats/model.h"

namespace weightfs::views {

enum class HalfType { float16, bfloat16 };

/// How many finite numbers became infinities in the pieces that were read of tensors. A number that is read again is
/// counted once, if the pieces of a tensor are read in their order. Thread-safe.
class Overflows {
 public:
  struct Counts {
    uint64_t numbers = 0;
    size_t tensors = 0;  ///< that have any
  };
  Counts counts() const;

  /// A piece of a tensor, from element `first` on: the numbers `from`; `is_infinite(i)` of those that became infinite.
  template <class IsInfinite>
  void add(size_t tensor, uint64_t first, std::span<const float> from, const IsInfinite& is_infinite) {
    const std::scoped_lock lock(mutex_);
    Seen& seen = seen_[tensor];
    for (auto i = static_cast<size_t>(std::max(first, seen.elements) - first); i < from.size(); ++i)
      if (is_infinite(i) && std::isfinite(from[i])) ++seen.overflows;
    seen.elements = std::max(seen.elements, first + from.size());
  }

 private:
  struct Seen {
    uint64_t elements = 0;  // from the first one on
    uint64_t overflows = 0;
  };
  mutable std::mutex mutex_;  // guards the rest
  std::map<size_t, Seen> seen_;
};
using OverflowsPtr = std::shared_ptr<Overflows>;

/// Where the overflows of a tensor are counted; nowhere if `overflows` is null.
struct OverflowCount {
  OverflowsPtr overflows;
  size_t tensor = 0;
};

/// The elements of a tensor as `type`: in C order, little-endian, two bytes each. Rounded to the nearest, ties to even,
/// once: from the stored number, for a quantised type from its float32 value (float32_values), and with `affine` (may
/// be null) from the number that is computed as double. NaNs become quiet NaNs of the same sign; numbers that are too
/// large become infinities. Elements that have the type are as stored. Requirements and failures are those of
/// float32_values().
SourcePtr half_values(const TensorView& tensor, const AffineNumbers* affine, HalfType type, OverflowCount count);

/// The bits of a float32 that is rounded to a type.
uint16_t to_half(float value, HalfType type);

/// The rows of the types that numbers are converted to.
extern const DType& kFloat32;
extern const DType& kFloat16;
extern const DType& kBfloat16;

/// Whether the elements of `tensor` are real numbers that can be converted: not if it was refused, or if the result
/// would have more than 2^60 elements; file sizes have 63 bits.
bool has_numbers(const TensorView& tensor);

/// The numbers of the tensor of an index as one of the three types, in C order, little-endian: rounded once, to the
/// nearest, ties to even. What the stored integers of a quantised tensor mean is taken into account
/// (Model::affine_numbers). The tensor must have has_numbers(). Finite numbers that become infinities are counted in
/// `overflows`, which may be null.
SourcePtr converted(const Model& model, size_t tensor, const DType& type, const OverflowsPtr& overflows = nullptr);

/// The `elements` elements in `stored`, one byte each, of a type with DType::packed_bits or DType::low_bits. Signed
/// integers are extended to int8; the upper bits of the others are 0.
SourcePtr unpacked(SourcePtr stored, const DType& dtype, uint64_t elements);

}  // namespace weightfs::views
