// The filters of chunks, undone: deflate, shuffle, Fletcher-32, LZF (h5py's), Zstandard and scale-offset.
#pragma once

#include <span>
#include <string>

#include "formats/hdf5/dataset.h"

namespace weightfs::hdf5 {

/// Why a dataset cannot be read: one of its filters is not known, or occurs twice. Else nothing. Bit i of `skipped`:
/// all chunks skipped filter i.
std::optional<Error> unsupported_filter(const Dataset& dataset, uint32_t skipped = 0);

/// Whether undoing these filters compares a checksum: Fletcher-32, or the Adler-32 of deflate.
bool have_checksums(const std::vector<Filter>& filters);

/// Undoes the filters of one chunk, but for those that `mask` skips. `bytes` is the size of a decoded chunk. It holds
/// at most two copies of the chunk in memory, or the stored bytes and one. Fails with corrupt if the chunk is damaged
/// or has another size, and with resource if the work of the calling thread is cancelled.
Result<std::string> undo_filters(const SourcePtr& stored, std::span<const Filter> filters, uint32_t mask,
                                 uint64_t bytes);

}  // namespace weightfs::hdf5
