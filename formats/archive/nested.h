// The containers among the members of an archive.
#pragma once

#include <vector>

#include "formats/codec/codec_meter.h"
#include "formats/format.h"

namespace weightfs {

/// What the containers that are nested in another have of it.
struct Outer {
  BlobsPtr blobs;
  BudgetPtr budget;
  DecodeChargePtr charge;  ///< of the container, where it is compressed as a whole; or null
  int depth;               ///< of what is nested
};

/// Finds the parts of `model` that are containers, by their first bytes: read once for each stored range, however many
/// members share it, and charged to the budget. Where that ends, the other members are not looked at; the first of them
/// stands in the list, and entering it fails naming the limit. Fails with io.
Result<std::vector<Nested>> find_nested(const ModelPtr& model, const Outer& outer);

}  // namespace weightfs
