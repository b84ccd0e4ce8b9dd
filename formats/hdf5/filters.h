// The filters of chunks, undone: deflate, shuffle, Fletcher-32, LZF (h5py's) and scale-offset.
#pragma once

#include <span>
#include <string>

#include "formats/hdf5/dataset.h"

namespace weightfs::hdf5 {

/// Why datasets with one of these filters cannot be read; nothing if all are known.
std::optional<Error> unsupported_filter(const Dataset& dataset);

/// Undoes the filters of one chunk, but for those that `mask` skips. `bytes` is the size of a decoded chunk. Fails with
/// corrupt if the chunk is damaged or has another size.
Result<std::string> undo_filters(std::string stored, std::span<const Filter> filters, uint32_t mask, uint64_t bytes);

}  // namespace weightfs::hdf5
