// Names of tensors of LoRA and other adapters.
#pragma once

#include <string_view>

namespace weightfs::summary {

/// The module of a tensor of an adapter ("attn" of "attn.lora_A.default.weight"), and the end of its name; an empty end
/// if it is of no adapter.
struct AdapterName {
  std::string_view module, end;
};
AdapterName adapter_name(std::string_view name);

}  // namespace weightfs::summary
