// Figures about the scales of quantised tensors.
#pragma once

#include <optional>

#include "formats/tensor_list.h"
#include "numbers/elements.h"
#include "numbers/statistics.h"

namespace weightfs::numbers {

/// The scales of the blocks of a tensor, and their minimums if the type has these.
struct ScaleStatistics {
  Statistics scales;
  std::optional<Statistics> minimums;
};

/// Nothing for a type without separate scales (block_scales_of()). Fails as reading the tensor fails.
Result<std::optional<ScaleStatistics>> scale_statistics_of(const TensorView& tensor, size_t threads,
                                                           const CountBytes& count_bytes);

}  // namespace weightfs::numbers
