// The metadata of a GGUF as its file stores them: a GGUF that is made of the model gets the same bytes.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "base/source.h"

namespace weightfs {

/// The metadata of a GGUF as it is stored, for a file that has the same.
struct GgufKeys {
  /// Keys with their values, one after the other.
  struct Entries {
    Slice bytes;
    uint64_t count = 0;                   ///< of the keys
    bool are_about_quantisation = false;  ///< general.file_type and such, which are false of other types of tensors
  };
  std::vector<Entries> entries;  ///< in their order, without those of a split and those that ggml refuses
  std::endian order = std::endian::little;
  uint64_t alignment = 0;  ///< general.alignment, or its default
};

}  // namespace weightfs
