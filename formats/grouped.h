// Numbers and sizes for sentences about damaged and other files.
#pragma once

#include <cstdint>
#include <string>

#include "base/text.h"

namespace weightfs {

/// `count` bytes, exact up to 1 MiB: "20,000 bytes", "2.1 GiB".
inline std::string exact_size(uint64_t count) {
  constexpr uint64_t kExact = 1 << 20;
  if (count > kExact) return human_size(count);
  return grouped(count) + (count == 1 ? " byte" : " bytes");
}

/// "1 byte", "4096 bytes".
inline std::string counted_bytes(uint64_t count) { return std::to_string(count) + (count == 1 ? " byte" : " bytes"); }

/// What a model lacks because of a file; `state` is "refused" or "missing": "1 tensor is refused".
inline std::string lost_tensors(uint64_t count, const char* state) {
  return std::to_string(count) + (count == 1 ? " tensor is " : " tensors are ") + state;
}

}  // namespace weightfs
