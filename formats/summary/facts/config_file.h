// Which file beside a model is its configuration.
#pragma once

#include "formats/summary/facts/config.h"
#include "formats/summary/small_files.h"

namespace weightfs::summary {

/// The configuration beside a model: transformers', or what Meta, Mistral and MLC publish beside their own weights.
Config read_config(SmallFiles& files);

}  // namespace weightfs::summary
