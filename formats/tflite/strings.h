// The elements of string tensors: a count, an offset for each and one for the end, and the bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/budget.h"
#include "formats/model.h"

namespace weightfs::tflite {

/// What the offsets of elements begin to count at.
enum class OffsetsFrom {
  begin,  ///< of the tensor
  text,   ///< the first byte after the count and the offsets, as in OpenVINO
};

using Strings = std::shared_ptr<const std::vector<std::string>>;

/// The elements of a string tensor as UTF-8, read on first use. get() fails with corrupt if they do not fit into its
/// bytes or their number is not that of its shape.
Later<Strings> later_strings(const Tensor& tensor, const BudgetPtr& budget, OffsetsFrom offsets = OffsetsFrom::begin);

}  // namespace weightfs::tflite
