#include "formats/names/architecture.h"

#include <algorithm>
#include <array>

namespace weightfs::mapping {
namespace {

// In the order of Arch.
constexpr auto kArchitectures = std::to_array<Architecture>({
    {.id = Arch::llama, .name = "llama", .permutes_heads = true},
    {.id = Arch::granite, .name = "granite", .permutes_heads = true},
    {.id = Arch::smollm3, .name = "smollm3", .permutes_heads = true},
    {.id = Arch::mistral3, .name = "mistral3", .permutes_heads = true},
    {.id = Arch::qwen2, .name = "qwen2"},
    {.id = Arch::qwen2moe, .name = "qwen2moe"},
    {.id = Arch::qwen3, .name = "qwen3"},
    {.id = Arch::qwen3moe, .name = "qwen3moe"},
    {.id = Arch::qwen35, .name = "qwen35", .adds_one_to_norms = true},
    {.id = Arch::qwen35moe, .name = "qwen35moe", .adds_one_to_norms = true},
    {.id = Arch::gemma2, .name = "gemma2", .adds_one_to_norms = true},
    {.id = Arch::gemma3, .name = "gemma3", .adds_one_to_norms = true},
    {.id = Arch::gemma4, .name = "gemma4"},
    {.id = Arch::gpt_oss, .name = "gpt-oss"},
    {.id = Arch::phi3, .name = "phi3"},
    {.id = Arch::olmo2, .name = "olmo2"},
    {.id = Arch::glm4, .name = "glm4"},
    {.id = Arch::bert, .name = "bert"},
    {.id = Arch::deepseek2, .name = "deepseek2"},
});

constexpr bool is_in_order() {
  for (size_t i = 0; i < kArchitectures.size(); ++i)
    if (static_cast<size_t>(kArchitectures.at(i).id) != i) return false;
  return true;
}
static_assert(is_in_order());

struct ClassRow {
  std::string_view name;
  Arch arch;
};

constexpr auto kClasses = std::to_array<ClassRow>({
    {"LlamaForCausalLM", Arch::llama},
    {"LLaMAForCausalLM", Arch::llama},
    {"LlamaModel", Arch::llama},
    {"MistralForCausalLM", Arch::llama},
    {"MixtralForCausalLM", Arch::llama},
    {"IQuestCoderForCausalLM", Arch::llama},
    {"GraniteForCausalLM", Arch::granite},
    {"SmolLM3ForCausalLM", Arch::smollm3},
    {"Ministral3ForCausalLM", Arch::mistral3},
    {"Mistral3ForConditionalGeneration", Arch::mistral3},
    {"Qwen2ForCausalLM", Arch::qwen2},
    {"Qwen2Model", Arch::qwen2},
    {"Qwen2MoeForCausalLM", Arch::qwen2moe},
    {"Qwen3ForCausalLM", Arch::qwen3},
    {"Qwen3Model", Arch::qwen3},
    {"Qwen3MoeForCausalLM", Arch::qwen3moe},
    {"Qwen3_5ForCausalLM", Arch::qwen35},
    {"Qwen3_5ForConditionalGeneration", Arch::qwen35},
    {"Qwen3_5MoeForCausalLM", Arch::qwen35moe},
    {"Qwen3_5MoeForConditionalGeneration", Arch::qwen35moe},
    {"Gemma2ForCausalLM", Arch::gemma2},
    {"Gemma3ForCausalLM", Arch::gemma3},
    {"Gemma3ForConditionalGeneration", Arch::gemma3},
    {"Gemma4ForCausalLM", Arch::gemma4},
    {"Gemma4ForConditionalGeneration", Arch::gemma4},
    {"GptOssForCausalLM", Arch::gpt_oss},
    {"Phi3ForCausalLM", Arch::phi3},
    {"Olmo2ForCausalLM", Arch::olmo2},
    {"Olmo3ForCausalLM", Arch::olmo2},
    {"Glm4ForCausalLM", Arch::glm4},
    {"BertModel", Arch::bert},
    {"BertForMaskedLM", Arch::bert},
    {"BertForSequenceClassification", Arch::bert},
    {"CamembertModel", Arch::bert},
    {"DeepseekV2ForCausalLM", Arch::deepseek2},
    {"DeepseekV3ForCausalLM", Arch::deepseek2},
});

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

const Architecture* architecture_of_class(std::string_view name) {
  const auto* const row = std::ranges::find(kClasses, name, &ClassRow::name);
  return row == kClasses.end() ? nullptr : &kArchitectures.at(static_cast<size_t>(row->arch));
}

const Architecture* architecture_named(std::string_view name) {
  const auto* const row = std::ranges::find(kArchitectures, name, &Architecture::name);
  return row == kArchitectures.end() ? nullptr : row;
}

}  // namespace weightfs::mapping
