// What follows an array or a pickle in a file: programs that call numpy.load or pickle.load again on it read that.
#pragma once

#include "formats/model.h"
#include "formats/pickle/hidden.h"

namespace weightfs::numpy {

/// The names in pickles and in arrays of objects from `begin` on, as pickle::hidden_names(). A .npy file may be between
/// them.
Result<pickle::Names> later_names(const SourcePtr& bytes, uint64_t begin, Budget& budget);

}  // namespace weightfs::numpy
