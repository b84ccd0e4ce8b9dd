// The functions of torch that create tensors from their arguments, and the arguments that describe a tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/pickle/pickle.h"

namespace weightfs::pytorch {

using pickle::Index;
using pickle::Kind;
using pickle::Pickle;

enum class Rebuild : uint8_t {
  tensor,      ///< storage, offset, size, strides, …
  tensor_v2,   ///< the same, requires_grad, hooks, [metadata]
  tensor_v3,   ///< the same with the dtype before the metadata, and an untyped storage
  quantized,   ///< storage, offset, size, strides, quantizer, …
  parameter,   ///< a tensor, …
  sparse,      ///< the layout, its parts
  with_state,  ///< one of these functions, a type, its arguments, the attributes
  meta,        ///< dtype, size, strides, requires_grad: a tensor without bytes
};

/// Whether `global` is the name of one of these functions.
bool is_rebuild_function(std::string_view global);

/// A call of one of these functions.
struct TensorCall {
  Rebuild function;
  Index arguments;
};

/// The call that `value` is, if it is one of these. The functions that wrap others (parameter, with_state) are removed,
/// as long as they are not nested deeper than files have them.
std::optional<TensorCall> tensor_call(const Pickle& pickle, Index value);

/// The numbers of a tuple, or of a call of torch.Size with one: sizes or strides. `what` names them in errors. Fails
/// with corrupt for other values and for numbers below 0, and with unsupported beyond kMaxDimensions.
Result<std::vector<uint64_t>> sizes_in(const Pickle& pickle, Index value, std::string_view what);

}  // namespace weightfs::pytorch
