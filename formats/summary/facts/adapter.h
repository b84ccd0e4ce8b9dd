// LoRA and other adapters: of PEFT, of GGUF, of kohya's scripts and of diffusers.
#pragma once

#include <optional>

#include "formats/model.h"
#include "formats/summary/small_files.h"
#include "formats/summary/summary.h"

namespace weightfs::summary {

/// The adapter that the model is; nothing if it is none. `gguf`: the keys of a GGUF, or null.
std::optional<Adapter> find_adapter(const Model& model, SmallFiles& files, const Map* gguf);

}  // namespace weightfs::summary
