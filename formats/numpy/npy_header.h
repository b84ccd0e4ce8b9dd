// The header of a .npy file, as numpy.save writes it. The format is numpy/lib/_format_impl.py of NumPy.
#pragma once

#include <string>
#include <string_view>

#include "formats/tensor_list.h"

namespace weightfs {

inline constexpr size_t kMaxNpyDimensions = 32;  ///< NPY_MAXDIMS of NumPy 1

/// The header of an array in C order with a shape of at most kMaxNpyDimensions. `descr`: its type as Python writes it,
/// UTF-8: `'<f4'`, `[('x', '<f4')]`; at most 60,000 bytes. A multiple of 64 bytes, so that a mapped array is aligned.
/// The version is 1.0, or 3.0 if the type is not ASCII.
std::string npy_header(std::string_view descr, ShapeView shape);

}  // namespace weightfs
