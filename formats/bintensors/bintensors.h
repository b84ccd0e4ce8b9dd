// Decodes the metadata of a BinTensors file: bincode 2 as its `config::standard()` writes it, in either of two layouts
// without a version number.
#pragma once

#include "formats/common/flat.h"

namespace weightfs::bintensors {

/// The layouts, by the crate versions that write them.
enum class Layout {
  release,  ///< 0.1.0 and later: each tensor follows its name
  legacy,   ///< 0.0.1-alpha.1 to alpha.3: all tensors, then a map from name to index
};

/// The decoded metadata.
struct Metadata {
  explicit Metadata(Budget& budget) : header(budget) {}

  flat::Header header;
  bool padded_as_written = false;  ///< what is left of the region is what every writer leaves: 0 to 7 spaces
  uint64_t left = 0;               ///< bytes of the region after the metadata
};

/// Decodes the `size` bytes at `begin` of `bytes`. Fails with corrupt where the reference reader of that layout does,
/// and on a legacy index that does not name each tensor once.
Result<Metadata> decode(const Source& bytes, uint64_t begin, uint64_t size, Layout layout, Budget& budget);

}  // namespace weightfs::bintensors
