// The exact numbers at places of a tensor's elements in ascending order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "numbers/counts.h"

namespace weightfs::numbers {

/// How often numbers_at() reads so many elements of a form, at most.
uint64_t passes_of_numbers_at(Form form, uint64_t elements);

/// The finite numbers at these places (from 0 to the distribution's count - 1) in ascending order. Reads no element if
/// the bins that have the places are single numbers. Fails as reading does.
Result<std::vector<double>> numbers_at(const Elements& elements, std::span<const ElementRange> chunks,
                                       const Distribution& distribution, std::span<const uint64_t> places,
                                       size_t threads, const CountBytes& count_bytes);

}  // namespace weightfs::numbers
