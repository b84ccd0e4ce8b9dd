// The containers among the members of an archive.
#pragma once

#include <vector>

#include "formats/format.h"

namespace weightfs {

/// Finds the parts of `model` that are containers, by their first bytes: read once for each stored range, however many
/// members share it, and charged to the budget. Where that ends, the other members are not looked at; the first of them
/// stands in the list, and entering it fails naming the limit. `depth`: of what is found. Fails with io.
Result<std::vector<Nested>> find_nested(const ModelPtr& model, const BlobsPtr& blobs, const BudgetPtr& budget,
                                        int depth);

}  // namespace weightfs
