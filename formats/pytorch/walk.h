// Walks the values of a pickle: names the tensors by the keys that lead to them, and keeps the other values as
// metadata.
#pragma once

#include <string>

#include "formats/pytorch/tensors.h"

namespace weightfs::pytorch {

/// The maximum nesting depth of values. It leaves room for the levels that the model adds around metadata.
inline constexpr int kMaxValueDepth = kMaxDepth - 10;

/// Adds the tensors and the metadata of a pickle to `out`. Names are joined by `.`: keys of dicts, indices of lists,
/// attributes of objects. `prefix` is the first component of all names, and the key of the metadata; it may be empty.
/// A value that contains itself is left out there. Fails with unsupported beyond kMaxValueDepth, and as the budget
/// does: values that are shared are visited once for each of their names.
Result<void> walk(const Pickle& pickle, const StorageBytes& storages, const std::string& prefix, Contents& out);

}  // namespace weightfs::pytorch
