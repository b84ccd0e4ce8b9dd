#include "formats/summary/adapter_name.h"

#include <algorithm>
#include <array>

#include "formats/summary/tensors/tensor_name.h"

namespace weightfs::summary {
namespace {

// The ends of the names of all tensors of an adapter, after which only `.weight` may come.
constexpr std::array<std::string_view, 26> kEnds = {
    "lora_down",       "lora_up",   "lora_mid",  "alpha",      "lora_A",
    "lora_B",          "lora.down", "lora.up",   "lora_a",     "lora_b",
    "hada_w1_a",       "hada_w1_b", "hada_w2_a", "hada_w2_b",  "hada_t1",
    "hada_t2",         "lokr_w1",   "lokr_w2",   "lokr_w1_a",  "lokr_w1_b",
    "lokr_w2_a",       "lokr_w2_b", "lokr_t2",   "dora_scale", "lora_magnitude_vector",
    "down_blocks_lora"};

}  // namespace

AdapterName adapter_name(std::string_view name) {
  for (const std::string_view tail : {".default.weight", ".default", ".weight"})
    if (name.ends_with(tail)) {
      name.remove_suffix(tail.size());
      break;
    }
  for (const std::string_view end : kEnds)
    if (ends_with_components(name, end))
      return {name.substr(0, name.size() - std::min(name.size(), end.size() + 1)), end};
  return {};
}

}  // namespace weightfs::summary
