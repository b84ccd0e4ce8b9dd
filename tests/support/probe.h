// Builds the Probe of a file with these bytes.
#pragma once

#include <algorithm>
#include <string_view>

#include "formats/flat_formats.h"

namespace weightfs::test {

/// `size`: of the file, if these are only its first bytes.
inline Probe probe_of(std::string_view bytes, uint64_t size, std::string_view name = "m") {
  const std::string_view tail = bytes.substr(bytes.size() - std::min(bytes.size(), kHeadSize));
  return {name, bytes.substr(0, kHeadSize), tail, size};
}

inline Probe probe_of(std::string_view bytes, std::string_view name = "m") {
  return probe_of(bytes, bytes.size(), name);
}

}  // namespace weightfs::test
