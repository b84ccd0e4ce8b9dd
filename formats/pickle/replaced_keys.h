// Keys that a dict of a pickle has more than once.
#pragma once

#include <vector>

#include "base/budget.h"
#include "formats/pickle/pickle.h"

namespace weightfs::pickle {

/// The places among `items` (keys and values by turns) of the keys that a later one replaces, ascending. Keys that are
/// calls or tuples count as different. Fails as the budget does.
Result<std::vector<size_t>> replaced_keys(const Pickle& pickle, const std::vector<Index>& items, Charges& charges);

}  // namespace weightfs::pickle
