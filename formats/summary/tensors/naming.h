// The name of a quantisation, in the words that its users know: "GPTQ 4-bit g128".
#pragma once

#include <optional>

#include "formats/summary/fields.h"
#include "formats/summary/summary.h"
#include "formats/summary/tensors/roles.h"

namespace weightfs::summary {

/// Names what packs the weights; nothing if none are packed. `fields`: the object that describes it, or nothing;
/// `stated`: what is stated there and elsewhere.
std::optional<Quantisation> name_quantisation(const Packing& packing, const Fields& fields,
                                              const StatedPacking& stated);

}  // namespace weightfs::summary
