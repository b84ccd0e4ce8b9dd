// The types of elements in an OpenVINO model: ov::element::Type, and the precisions of IR 2 to 7.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "formats/tensor_list.h"

namespace weightfs::openvino {

/// The dtype of a type by its name ("f32"), or of a precision ("FP32"), in any case. &kUnknownDType if it is unknown,
/// or if no row has the order of its bits (u1, u2, u3, u6, nf4).
const DType* dtype_of(std::string_view name);

/// The size of a constant in bytes; that of packed elements is rounded up. Nothing on overflow, and for a type that is
/// unknown or has no fixed size (string).
std::optional<uint64_t> size_of(std::string_view name, ShapeView shape);

}  // namespace weightfs::openvino
