// The bytes of a model by layer and by kind of tensor, for bars.
#pragma once

#include "serve/api/models.h"

namespace weightfs::api {

/// The object `bars` of a model (docs/api.md). It is not whole if the computation is cancelled.
Map layer_bars(const OpenModel& of);

}  // namespace weightfs::api
