// The compressions of pickles: those of joblib, which knows them by the first bytes, and zstd, which pandas.read_pickle
// reads. Reference: joblib/compressor.py,
// numpy_pickle_utils.py; numpy_pickle_compat.py for "ZF", joblib before 0.10.
#pragma once

#include <optional>
#include <string_view>

#include "formats/format.h"

namespace weightfs::python {

struct Compression {
  std::string_view name;
  Result<StreamPtr> (*decompress)(SourcePtr compressed);
  uint64_t output_cost;  ///< of a decoded byte, in units of Cost::output
  uint64_t begin = 0;    ///< of the compressed data in the file
};

/// The compression of a file with these first bytes; nothing if there is none. Two bytes decide for zlib.
std::optional<Compression> compression_of(std::string_view head);

/// The first bytes of what `head` decodes to, at most `most`: fewer, or none, if more of the file is needed for them.
std::string first_decoded(std::string_view head, const Compression& compression, size_t most);

/// Decodes all of `file`, once, and charges the container's budget for it. Fails as the decoder and the budget do.
Result<SourcePtr> decompressed(const SourcePtr& file, const Compression& compression, const Container& container);

}  // namespace weightfs::python
