#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "formats/mapping/config/model_settings.h"

namespace weightfs::mapping {
namespace {

constexpr double kPartialOfGlm4 = 0.5;
constexpr size_t kMaxModules = 64 * 1024 - 32;

void add_llama_keys(const ModelSettings& model) {
  Settings& settings = model.settings;
  add_common_keys(model);
  model.u32("vocab_size", settings.required({"vocab_size"}));
  model.u32("rope.dimension_count", settings.head_dim());
}

// Granite ignores head_dim. llama.cpp needs the logit scale, which the converter leaves out if it is missing.
void add_granite_keys(const ModelSettings& model) {
  Settings& settings = model.settings;
  add_common_keys(model);
  model.u32("vocab_size", settings.required({"vocab_size"}));
  model.u32("rope.dimension_count", settings.part_of_width());
  const auto add_scale = [&](std::string_view key, std::string_view field) {
    const Real scale = settings.real({field});
    if (scale && *scale != 0) model.f32(key, scale);
  };
  add_scale("attention.scale", "attention_multiplier");
  add_scale("embedding_scale", "embedding_multiplier");
  add_scale("residual_scale", "residual_multiplier");
  add_scale("logit_scale", "logits_scaling");
}

void add_mistral3_keys(const ModelSettings& model) {
  Settings& settings = model.settings;
  add_llama_keys(model);
  if (settings.fields().text({"model_type"}) != "ministral3") return;
  if (model.rope.type != "yarn") settings.refuse("config.json: ministral3 needs a rope_type of yarn");
  const Real scale = settings.real_in(model.rope.own, {"mscale_all_dim"});
  const Real beta = settings.real_in(model.rope.own, {"llama_4_scaling_beta"});
  if (!scale) settings.lacks("rope_parameters.mscale_all_dim");
  if (!beta) settings.lacks("rope_parameters.llama_4_scaling_beta");
  model.f32("rope.scaling.yarn_log_multiplier", scale);
  model.f32("attention.temperature_scale", beta);
}

// The pooling of an encoder, as sentence-transformers stores it: modules.json names the directory of its settings.
void add_pooling(const ModelSettings& model) {
  summary::SmallFiles& files = model.repository.files();
  const std::string modules = files.head("modules.json", kMaxModules);
  if (modules.empty()) return;
  const Map* const list = files.object_in(R"({"modules":)" + modules + "}");
  const auto* const all = list == nullptr ? nullptr : list->find_as<List>("modules");
  if (all == nullptr) return model.settings.refuse("modules.json is not a list of modules");
  for (const Value& one : *all) {
    const auto* const module = std::get_if<Map>(&one);
    if (module == nullptr || !text_in(*module, "type").ends_with("Pooling")) continue;
    const std::string path(text_in(*module, "path"));
    const Map* const pooling = is_plain_path(path) ? files.object(path + "/config.json") : nullptr;
    if (pooling == nullptr) return model.settings.refuse("modules.json names a pooling without its config.json");
    const auto is_set = [&](std::string_view name) {
      const auto* const flag = pooling->find_as<bool>(name);
      return flag != nullptr && *flag;
    };
    const std::string_view mode = text_in(*pooling, "pooling_mode");
    if (is_set("pooling_mode_mean_tokens")) return model.u32("pooling_type", 1);
    if (is_set("pooling_mode_cls_token")) return model.u32("pooling_type", 2);
    if (is_set("pooling_mode_lasttoken")) return model.u32("pooling_type", 3);
    if (mode == "mean") return model.u32("pooling_type", 1);
    if (mode == "cls") return model.u32("pooling_type", 2);
    if (mode == "lasttoken") return model.u32("pooling_type", 3);
    return model.settings.refuse(
        fmt::format("{}/config.json: the pooling is not mean, cls or lasttoken", printable(path)));
  }
}

// The labels of a classifier, by their numbers; two labels of that name are those of transformers for any model.
void add_labels(const ModelSettings& model) {
  const summary::Fields labels = model.settings.fields().object({"id2label"});
  if (!labels) return;
  std::vector<std::pair<uint64_t, std::string>> sorted;
  for (const auto& [id, label] : *labels.map()) {
    const auto number = parse_number<uint64_t>(id);
    const auto* const text = std::get_if<std::string>(&label);
    if (!number || text == nullptr) return model.settings.refuse("config.json: id2label is not a list of texts");
    sorted.emplace_back(*number, *text);
  }
  std::ranges::sort(sorted);
  if (sorted.size() == 2 && sorted[0].second == "LABEL_0") return;
  std::vector<std::string> out;
  for (auto& [number, text] : sorted) out.push_back(std::move(text));
  model.keys.texts(model.key("classifier.output_labels"), out);
}

void add_bert_keys(const ModelSettings& model) {
  add_common_keys(model);
  model.settings.head_dim();
  model.keys.flag(model.key("attention.causal"), false);
  add_pooling(model);
  add_labels(model);
}

void add_phi3_keys(const ModelSettings& model) {
  Settings& settings = model.settings;
  const RopeSettings& rope = model.rope;
  const uint32_t heads = settings.heads();
  const uint32_t hidden = settings.required({"hidden_size", "n_embd"});
  const double rotated = std::min(rope.partial.value_or(1.0), 1.0) * hidden;
  const List* const factors = rope.own.list("long_factor");
  const bool scales = factors != nullptr && !factors->empty();  // by the tensors of rope_factors
  if (!scales) refuse_rope_scaling(model);
  if (!rope.original) settings.lacks("original_max_position_embeddings");
  if (!rope.theta) settings.lacks("rope_theta");
  model.u32("context_length", settings.required({"n_positions", "max_position_embeddings"}));
  model.u32("rope.scaling.original_context_length", rope.original);
  model.u32("embedding_length", hidden);
  model.u32("feed_forward_length", settings.required({"intermediate_size"}));
  model.u32("block_count", model.blocks);
  model.u32("attention.head_count", heads);
  model.u32("attention.head_count_kv", settings.heads_of_keys().value_or(heads));
  model.f32("attention.layer_norm_rms_epsilon", settings.real({"rms_norm_eps"}));
  model.u32("rope.dimension_count", static_cast<uint32_t>(rotated) / heads);
  model.f32("rope.freq_base", rope.theta);
  model.keys.u32("general.file_type", model.file_type);
  // 0 tells Phi-4 from the others.
  model.u32("attention.sliding_window", settings.integer({"sliding_window"}).value_or(0));
}

void add_olmo2_keys(const ModelSettings& model) {
  add_common_keys(model);
  model.settings.head_dim();
  const Integer window = model.settings.integer({"sliding_window"}, 1);
  if (!window) return;
  model.u32("attention.sliding_window", window);
  std::vector<bool> has_window = layers_of_type(model.settings, model.layers, "sliding_attention");
  for (uint32_t i = 0; has_window.size() < model.blocks; ++i) has_window.push_back((i + 1) % 4 != 0);
  model.keys.flags(model.key("attention.sliding_window_pattern"), has_window);
}

void add_gpt_oss_keys(const ModelSettings& model) {
  add_common_keys(model);
  model.u32("attention.sliding_window", model.settings.required({"sliding_window"}));
  model.u32("expert_feed_forward_length", model.settings.required({"intermediate_size"}));
}

void add_glm4_keys(const ModelSettings& model) {
  add_common_keys(model);
  const double partial = std::min(model.rope.partial.value_or(kPartialOfGlm4), 1.0);
  model.u32("rope.dimension_count", static_cast<uint32_t>(model.settings.head_dim() * partial));
}

void add_qwen_keys(const ModelSettings& model) {
  add_common_keys(model);
  model.settings.head_dim();
  add_pooling(model);
}

}  // namespace

std::vector<bool> layers_of_type(Settings& settings, uint32_t layers, std::string_view type) {
  std::vector<bool> out;
  const List* const types = settings.fields().list("layer_types");
  if (types == nullptr) return out;
  if (types->size() != layers) {
    settings.refuse(fmt::format("config.json: layer_types has {} entries for {} layers", types->size(), layers));
    return out;
  }
  for (const Value& one : *types) {
    const auto* const text = std::get_if<std::string>(&one);
    out.push_back(text != nullptr && *text == type);
  }
  return out;
}

void add_keys_of_architecture(const ModelSettings& model) {
  switch (model.arch()) {
    case Arch::llama:
    case Arch::smollm3:
      return add_llama_keys(model);
    case Arch::granite:
      return add_granite_keys(model);
    case Arch::mistral3:
      return add_mistral3_keys(model);
    case Arch::qwen2:
    case Arch::qwen3:
      return add_qwen_keys(model);
    case Arch::qwen2moe:
    case Arch::qwen3moe:
      add_common_keys(model);
      model.settings.head_dim();
      return add_qwen_moe_keys(model);
    case Arch::qwen35:
    case Arch::qwen35moe:
      add_common_keys(model);
      return add_qwen35_keys(model);
    case Arch::gemma2:
      return add_gemma2_keys(model);
    case Arch::gemma3:
      add_common_keys(model);
      return add_gemma3_keys(model);
    case Arch::gemma4:
      add_common_keys(model);
      return add_gemma4_keys(model);
    case Arch::gpt_oss:
      return add_gpt_oss_keys(model);
    case Arch::phi3:
      return add_phi3_keys(model);
    case Arch::olmo2:
      return add_olmo2_keys(model);
    case Arch::glm4:
      return add_glm4_keys(model);
    case Arch::bert:
      return add_bert_keys(model);
    case Arch::deepseek2:
      add_common_keys(model);
      return add_deepseek2_keys(model);
  }
}

}  // namespace weightfs::mapping
