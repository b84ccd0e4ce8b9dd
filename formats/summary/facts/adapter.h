// LoRA and other adapters: of PEFT, of GGUF, of kohya's scripts and of diffusers.
#pragma once

#include <optional>
#include <string_view>

#include "formats/model.h"
#include "formats/summary/small_files.h"
#include "formats/summary/summary.h"

namespace weightfs::summary {

/// The adapter that the model is; nothing if it is none. `gguf`: the keys of a GGUF, or null.
std::optional<Adapter> find_adapter(const Model& model, SmallFiles& files, const Map* gguf);

/// The module of a tensor of an adapter ("attn" of "attn.lora_A.default.weight"), and the end of its name; an empty end
/// if it is of no adapter.
struct AdapterName {
  std::string_view module, end;
};
AdapterName adapter_name(std::string_view name);

}  // namespace weightfs::summary
