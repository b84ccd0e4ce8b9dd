// Weights that are stored with a row for each output: compressed-tensors, fp8, and FP8 and NVFP4 of ModelOpt.
#pragma once

#include <cstdint>
#include <utility>

#include "formats/computed/matrix.h"

namespace weightfs::computed {

/// A weight is (number - zero point) * scale: the numbers as they are stored, or integers in words of 32 bits. Scales
/// and zero points belong to blocks of rows and columns.
struct RowPacked {
  uint64_t outputs;
  uint64_t inputs;
  SourcePtr numbers;       ///< as float32; null if the weights are in words
  SourcePtr shape;         ///< two integers that must be outputs and inputs; null if that was checked
  SourcePtr words;         ///< of each row: integers in the lowest bits first, each plus 2^(bits - 1)
  uint32_t bits;           ///< bits of an integer, 1 to 8; no integer spans two words
  SourcePtr scales;        ///< as float32
  uint64_t rows_of_scale;  ///< rows that share one
  GroupIndex groups;       ///< of the columns: those that share a scale
  SourcePtr global;        ///< one float32, by which all scales are multiplied or divided; null if there is none
  bool is_divided;         ///< whether they are divided by it
  SourcePtr zeros;         ///< as float32, of the shape of `scales`; null if there are none, or if they are in words
  SourcePtr zero_words;    ///< of each group: integers of the rows, as in `words`
};

/// The outputs and inputs that a weight_shape of int32 or int64 has.
Result<std::pair<uint64_t, uint64_t>> read_shape(const Source& shape, Reading reading);

MatrixPtr matrix_of(const RowPacked& packed);

}  // namespace weightfs::computed
