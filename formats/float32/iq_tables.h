// The grids of ggml's IQ types: an index in a block selects the absolute values of 4 or 8 elements.
#pragma once

#include <array>
#include <cstdint>

namespace weightfs::float32 {

// An entry is the elements of a grid as signed bytes, the first in the lowest bits.
extern const std::array<uint64_t, 256> kIq2xxsGrid;
extern const std::array<uint64_t, 512> kIq2xsGrid;
extern const std::array<uint64_t, 1024> kIq2sGrid;
extern const std::array<uint64_t, 2048> kIq1sGrid;  ///< 8 times the elements, so that the deltas are integers, too
extern const std::array<uint32_t, 256> kIq3xxsGrid;
extern const std::array<uint32_t, 512> kIq3sGrid;

}  // namespace weightfs::float32
