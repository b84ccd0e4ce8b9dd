// Tensors of devices whose numbers torch saves as arrays of NumPy, which lacks some of its types.
#pragma once

#include <string_view>

#include "formats/pickle/contents.h"

namespace weightfs::pytorch {

/// Gives a tensor that was read from an array the dtype that torch converts it to: `global`, such as "torch.bfloat16".
/// A float32 becomes a bfloat16, rounded to the nearest one, to the even one of two. If `global` is any other type than
/// the array's, the array is shown, with a warning. Fails as the budget does.
Result<void> state_type(size_t tensor, std::string_view global, pickle::Contents& out);

}  // namespace weightfs::pytorch
