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
  nested,      ///< its elements, sizes, strides and offsets: four tensors
  with_state,  ///< one of these functions, a type, its arguments, the attributes
  wrapper,     ///< a type, …: a tensor whose parts are its attributes
  jagged,      ///< a dict of its parts
  array,       ///< an array of NumPy, dtype, …
  meta,        ///< dtype, size, strides, requires_grad: a tensor without bytes
};

/// Whether `global` is the name of one of these functions.
bool is_rebuild_function(std::string_view global);

/// A call of one of these functions.
struct TensorCall {
  Rebuild function;
  Index arguments;
};

/// The call that `value` is, if it is one of these and makes one tensor. The functions that wrap others (parameter,
/// with_state) are removed, as long as they are not nested deeper than files have them. For a DTensor it is the call
/// for its local tensor.
std::optional<TensorCall> tensor_call(const Pickle& pickle, Index value);

/// The dict of the attributes that are the parts of a tensor of a subclass (wrapper, jagged); kNoValue for others.
Index parts_of(const Pickle& pickle, Index value);

/// The numbers of a tuple, or of a call of torch.Size with one: sizes or strides. `what` names them in errors. Fails
/// with corrupt for other values and for numbers below 0, and with unsupported beyond kMaxDimensions.
Result<std::vector<uint64_t>> sizes_in(const Pickle& pickle, Index value, std::string_view what);

}  // namespace weightfs::pytorch
