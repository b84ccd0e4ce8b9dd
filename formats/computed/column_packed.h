// Weights that are stored with a row for each input, or for several: GPTQ and AWQ.
#pragma once

#include <cstdint>

#include "formats/computed/matrix.h"

namespace weightfs::computed {

/// qweight has the codes of each output in a column (GPTQ), or eight outputs in each number of 32 bits (AWQ). scales
/// and qzeros have a row for each group of inputs. A weight is scale * (code - zero point).
struct ColumnPacked {
  enum class Order {
    gptq,  ///< a column is a string of bits, so is a row of qzeros
    awq    ///< a number has the outputs 0, 2, 4, 6, 1, 3, 5, 7 of eight, 4 bits each
  };

  Order order;
  uint32_t bits;  ///< of a code: 2, 3, 4 or 8
  uint64_t outputs;
  GroupIndex groups;
  uint64_t inputs;
  SourcePtr weights;
  SourcePtr scales;  ///< as float32
  SourcePtr zeros;   ///< null: all are `zero`
  uint32_t zero;     ///< added to a stored zero point, modulo 2^bits
  bool is_in_order;  ///< g_idx, if there is one, must be that of groups of neighbours
};

MatrixPtr matrix_of(const ColumnPacked& packed);

}  // namespace weightfs::computed
