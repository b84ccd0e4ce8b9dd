// Singular values: of a matrix, and of the product of two small factors (LoRA) without the product.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/tensor_list.h"
#include "numbers/elements.h"

namespace weightfs::numbers {

/// The maximum number of elements of a matrix: 32 MB of doubles, and seconds of time.
inline constexpr uint64_t kMaxFactorElements = uint64_t{1} << 22;

/// The maximum rank of two factors.
inline constexpr uint64_t kMaxRank = 512;

/// The singular values of a matrix (of more than two axes: its last axis against the others), the largest first. Fails
/// with unsupported for fewer than two axes, for a larger matrix, for one with NaN or infinities, and if weightfs was
/// built without Eigen; else as reading fails.
Result<std::vector<double>> singular_values(const TensorView& matrix);

/// The singular values of B · A, for A [rank, in] and B [out, rank]: those of the product of the triangular factors of
/// both. Further axes (of convolutions) belong to the columns. Fails as singular_values() does, and with unsupported if
/// the ranks differ or are above kMaxRank.
Result<std::vector<double>> product_singular_values(const TensorView& a, const TensorView& b);

}  // namespace weightfs::numbers
