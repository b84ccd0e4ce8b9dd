#include <fmt/core.h>

#include "formats/mapping/config/model_settings.h"

namespace weightfs::mapping {
namespace {

constexpr uint32_t kDefaultRank = 512;  // of keys and values

uint32_t sum_of(Settings& settings, uint32_t a, uint32_t b) {
  if (a <= UINT32_MAX - b) return a + b;
  settings.refuse("config.json: a head has more than 2^32 elements");
  return 1;
}

}  // namespace

// Multi-head latent attention is shown as one group of keys, whose heads are decompressed.
void add_deepseek2_keys(const ModelSettings& model) {
  Settings& settings = model.settings;
  const Integer experts = settings.integer({"n_routed_experts"});
  model.u32("leading_dense_block_count",
            settings.integer({"first_k_dense_replace"}).value_or(experts ? 0 : model.layers));
  const uint32_t rank = settings.integer({"kv_lora_rank"}, 1).value_or(kDefaultRank);
  const uint32_t rotated = settings.required({"qk_rope_head_dim"});
  model.u32("vocab_size", settings.required({"vocab_size"}));
  model.u32("attention.q_lora_rank", settings.integer({"q_lora_rank"}, 1));
  model.u32("attention.kv_lora_rank", rank);
  model.u32("attention.key_length", sum_of(settings, rank, rotated));
  model.u32("attention.value_length", rank);
  model.u32("attention.key_length_mla", sum_of(settings, settings.required({"qk_nope_head_dim"}), rotated));
  model.u32("attention.value_length_mla", settings.required({"v_head_dim"}));
  model.u32("expert_feed_forward_length", settings.required({"moe_intermediate_size", "intermediate_size"}));
  model.u32("expert_count", experts);
  model.u32("expert_shared_count", settings.integer({"n_shared_experts"}).value_or(0));
  model.f32("expert_weights_scale", settings.real({"routed_scaling_factor"}));
  if (settings.flag("norm_topk_prob") == true) model.keys.flag(model.key("expert_weights_norm"), true);
  model.u32("rope.dimension_count", rotated);
  if (const Real scale = settings.real_in(model.rope.own, {"mscale_all_dim"}))
    model.f32("rope.scaling.yarn_log_multiplier", 0.1 * *scale);
}

}  // namespace weightfs::mapping
