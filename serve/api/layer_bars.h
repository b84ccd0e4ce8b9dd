// The bytes of a model by layer and by kind of tensor, for bars.
#pragma once

#include <string_view>

#include "formats/summary/tensors/tensor_name.h"
#include "serve/api/models.h"

namespace weightfs::api {

/// The kind of a tensor in the bars of its model, whose names `names` parses: "attention", "experts", ….
std::string_view kind_of_bar(std::string_view name, const summary::NameParser& names);

/// The object `bars` of a model (docs/api.md), whose names `names` parses. It is not whole if the computation is
/// cancelled.
Map layer_bars(const OpenModel& of, const summary::NameParser& names);

}  // namespace weightfs::api
