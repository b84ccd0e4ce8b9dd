// Keys that a dict of a pickle has more than once.
#pragma once

#include <utility>
#include <vector>

#include "base/budget.h"
#include "formats/pickle/pickle.h"

namespace weightfs::pickle {

/// The values of a dict, by places among its items (keys and values by turns).
struct ReplacedKeys {
  std::vector<size_t> replaced;                    ///< those of keys that a later one replaces; ascending
  std::vector<std::pair<size_t, size_t>> spelled;  ///< the last of equal keys that differ, and the first, which stays

  bool is_replaced(size_t place) const;
  /// The place of the key that names the value of the key at `place`.
  size_t key_of(size_t place) const;
};

/// Compares the keys among `items` as Python does: 1, 1.0 and True are one. Keys that are calls or tuples count as
/// different. Fails as the budget does.
Result<ReplacedKeys> replaced_keys(const Pickle& pickle, const std::vector<Index>& items, Charges& charges);

}  // namespace weightfs::pickle
