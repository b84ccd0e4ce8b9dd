// The name of a quantisation, in the words that its users know: "GPTQ 4-bit g128".
#pragma once

#include <optional>

#include "formats/summary/fields.h"
#include "formats/summary/summary.h"
#include "formats/summary/tensors/roles.h"

namespace weightfs::summary {

/// Names what packs the weights; nothing if none are packed. `stated`: the object that describes it, or nothing.
std::optional<Quantisation> name_quantisation(const Packing& packing, const Fields& stated);

}  // namespace weightfs::summary
