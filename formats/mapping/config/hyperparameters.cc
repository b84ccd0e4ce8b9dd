#include <fmt/core.h>

#include <array>

#include "base/text.h"
#include "formats/mapping/config/model_settings.h"
#include "formats/mapping/config/rope.h"
#include "formats/mapping/model_keys.h"

namespace weightfs::mapping {
namespace {

constexpr uint32_t kQuantizationVersion = 2;  // GGML_QNT_VERSION

// Classes and kinds of a known architecture that llama.cpp has another architecture, or none, for.
void check_kind(const ModelSettings& model) {
  Settings& settings = model.settings;
  const std::string kind = settings.fields().text({"model_type"});
  if (kind == "mistral4") settings.refuse("no architecture of llama.cpp is known for model_type mistral4");
  if (model.arch() == Arch::llama && settings.states("draft_vocab_size") && model.layers == 1)
    settings.refuse("a draft model of EAGLE-3 has no tokenizer: its target model is needed");
  if (model.arch() == Arch::glm4 && model.rope.own.has("mrope_section"))
    settings.refuse("config.json: glm4 has no mrope_section");
}

struct Required {
  std::string_view key;
  std::string_view field;
};

// llama.cpp refuses a file without them, or ends the process.
constexpr auto kRequired = std::to_array<Required>({
    {"block_count", "num_hidden_layers"},
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"attention.head_count", "num_attention_heads"},
});

void check_required(const ModelSettings& model) {
  Settings& settings = model.settings;
  for (const Required& one : kRequired)
    if (!model.keys.has(model.key(one.key))) settings.lacks(one.field);
  const bool is_bert = model.arch() == Arch::bert;
  if (!model.keys.has(model.key(is_bert ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon")))
    settings.lacks(is_bert ? "layer_norm_eps" : "rms_norm_eps");
  if (model.keys.has(model.key("feed_forward_length"))) return;
  const bool has_experts = model.keys.has(model.key("expert_feed_forward_length"));
  if (!has_experts) settings.lacks("intermediate_size");
}

}  // namespace

Result<void> add_hyperparameters(Repository& repository, uint32_t file_type, Keys& keys) {
  Settings settings(repository);
  const uint32_t layers = settings.layers();
  const Arch arch = repository.architecture().id;
  const bool has_mtp = arch == Arch::qwen35 || arch == Arch::qwen35moe;
  const uint32_t blocks = layers + (has_mtp ? layers_of_mtp(repository, settings) : 0);
  if (blocks > kMaxBlocks) settings.refuse(fmt::format("{} layers, the maximum is {}", blocks, kMaxBlocks));
  const ModelSettings model = {.repository = repository,
                               .settings = settings,
                               .rope = rope_settings(repository, settings),
                               .keys = keys,
                               .file_type = file_type,
                               .layers = layers,
                               .blocks = blocks};
  check_kind(model);
  add_keys_of_architecture(model);
  handle_order_of_layers(model);
  check_required(model);
  TRY_VOID(settings.outcome());
  TRY(generated_tensors(repository));  // phi3's factor was written without their checks
  keys.u32("general.quantization_version", kQuantizationVersion);
  return {};
}

}  // namespace weightfs::mapping
