// The two layouts of an RTen file. Version 2: a header of 32 bytes, a FlatBuffer (the model data), and a section of
// tensors that the FlatBuffer points into. Version 1: the FlatBuffer is the whole file, weights and all.
#pragma once

#include <cstdint>
#include <optional>

#include "base/source.h"

namespace weightfs::rten {

/// The sections of a file. They may come in any order, overlap, and leave gaps.
struct Sections {
  uint32_t version;  ///< 1 or 2
  uint64_t file_size;
  uint64_t model_offset = 0;
  uint64_t model_size = 0;
  std::optional<uint64_t> tensors = {};  ///< the origin of external tensors; nothing in version 1
};

/// Locates the sections, with the checks of the reference reader in its order. Fails with corrupt, or with unsupported
/// for another version.
Result<Sections> find_sections(const Source& file);

}  // namespace weightfs::rten
