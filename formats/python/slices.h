// The slices of large parameters in files of Paddle: protocols 2 and 3 of pickle have a limit of 2^30 elements' bytes,
// so that Paddle writes the flat slices `w@@.0`, `w@@.1`, … of a larger array. Reference: _unpack_saved_dict and
// _pack_loaded_dict in paddle/framework/io_utils.py.
#pragma once

#include "formats/pickle/contents.h"
#include "formats/pickle/pickle.h"

namespace weightfs::python {

/// Replaces the slices that the root's `UnpackBigParamInfor@@` names by the arrays that they are of. An array is
/// refused, with a warning, and its slices stay, if a slice is missing or refused, is of another type, is not flat or
/// used twice, or if they have more or fewer elements than the array. Fails as the budget does.
Result<void> join_slices(const pickle::Pickle& pickle, pickle::Contents& out);

}  // namespace weightfs::python
