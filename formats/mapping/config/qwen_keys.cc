#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "formats/mapping/config/model_settings.h"

namespace weightfs::mapping {
namespace {

constexpr std::array<int32_t, 4> kDefaultSections = {11, 11, 10, 0};
constexpr uint32_t kDefaultInterval = 4;
constexpr double kDefaultPartial = 0.25;

void add_state_space(const ModelSettings& model) {
  Settings& settings = model.settings;
  const uint32_t value_heads = settings.required({"linear_num_value_heads"});
  const uint64_t inner = uint64_t{settings.required({"linear_value_head_dim"})} * value_heads;
  if (inner > UINT32_MAX) settings.refuse("config.json: linear_value_head_dim is too large");
  const uint32_t key_heads = settings.required({"linear_num_key_heads"});
  if (value_heads % key_heads != 0)
    settings.refuse(fmt::format("config.json: linear_num_value_heads {} is not a multiple of linear_num_key_heads {}",
                                value_heads, key_heads));
  model.u32("ssm.conv_kernel", settings.required({"linear_conv_kernel_dim"}));
  model.u32("ssm.state_size", settings.required({"linear_key_head_dim"}));
  model.u32("ssm.group_count", key_heads);
  model.u32("ssm.time_step_rank", value_heads);
  model.keys.u32(model.key("ssm.inner_size"), inner);
}

}  // namespace

uint32_t layers_of_mtp(Repository& repository, Settings& settings) {
  uint32_t count = 0;
  const TensorList& tensors = repository.model().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::string_view name = tensors.name(i);
    if (name.starts_with("model.")) name.remove_prefix(6);
    constexpr std::string_view kLayers = "mtp.layers.";
    if (!name.starts_with(kLayers)) continue;
    name.remove_prefix(kLayers.size());
    const auto number = parse_number<uint32_t>(name.substr(0, name.find('.')));
    if (number && *number < kMaxBlocks) count = std::max(count, *number + 1);
  }
  if (count == 0) return 0;  // often removed, but still stated
  const Integer stated = settings.integer({"mtp_num_hidden_layers"});
  return stated.value_or(0) == 0 ? count : std::min(*stated, kMaxBlocks);
}

void add_qwen_moe_keys(const ModelSettings& model) {
  model.u32("expert_feed_forward_length", model.settings.integer({"moe_intermediate_size"}));
  model.u32("expert_shared_feed_forward_length", model.settings.integer({"shared_expert_intermediate_size"}));
}

void add_qwen35_keys(const ModelSettings& model) {
  Settings& settings = model.settings;
  add_qwen_moe_keys(model);
  if (model.blocks > model.layers) model.u32("nextn_predict_layers", model.blocks - model.layers);
  add_state_space(model);
  std::vector<bool> recurrent = layers_of_type(settings, model.layers, "linear_attention");
  if (!recurrent.empty()) recurrent.resize(model.blocks, false);
  model.keys.flags(model.key("attention.recurrent_layers"), recurrent);
  model.u32("full_attention_interval", settings.integer({"full_attention_interval"}, 1).value_or(kDefaultInterval));
  const double partial = std::min(model.rope.partial.value_or(kDefaultPartial), 1.0);
  model.u32("rope.dimension_count", static_cast<uint32_t>(settings.head_dim() * partial));
  if (!model.rope.own.has("mrope_section")) model.keys.i32s(model.key("rope.dimension_sections"), kDefaultSections);
}

}  // namespace weightfs::mapping
