#include "formats/summary/facts/kind.h"

#include <algorithm>
#include <array>

#include "formats/completeness.h"
#include "formats/format.h"
#include "formats/summary/facts/graph.h"
#include "formats/summary/tensors/tensor_name.h"

namespace weightfs::summary {
namespace {

struct TypeKind {
  std::string_view model_type, kind;
};

// Kinds by model_type, sorted. Families with a `text_config` are found by it.
constexpr std::array kTypeKinds = {
    TypeKind{"albert", "encoder"},
    TypeKind{"bart", "encoder-decoder"},
    TypeKind{"bert", "encoder"},
    TypeKind{"blip-2", "vision-language"},
    TypeKind{"camembert", "encoder"},
    TypeKind{"clip", "vision-language"},
    TypeKind{"clip_vision_model", "vision"},
    TypeKind{"clipseg", "vision-language"},
    TypeKind{"convnext", "vision"},
    TypeKind{"convnextv2", "vision"},
    TypeKind{"deberta", "encoder"},
    TypeKind{"deberta-v2", "encoder"},
    TypeKind{"deit", "vision"},
    TypeKind{"dinov2", "vision"},
    TypeKind{"distilbert", "encoder"},
    TypeKind{"electra", "encoder"},
    TypeKind{"hubert", "speech"},
    TypeKind{"idefics3", "vision-language"},
    TypeKind{"internvl", "vision-language"},
    TypeKind{"internvl_chat", "vision-language"},
    TypeKind{"led", "encoder-decoder"},
    TypeKind{"llava", "vision-language"},
    TypeKind{"llava_next", "vision-language"},
    TypeKind{"longformer", "encoder"},
    TypeKind{"longt5", "encoder-decoder"},
    TypeKind{"m2m_100", "encoder-decoder"},
    TypeKind{"marian", "encoder-decoder"},
    TypeKind{"mbart", "encoder-decoder"},
    TypeKind{"mistral3", "vision-language"},
    TypeKind{"mllama", "vision-language"},
    TypeKind{"modernbert", "encoder"},
    TypeKind{"moonshine", "speech"},
    TypeKind{"mpnet", "encoder"},
    TypeKind{"mt5", "encoder-decoder"},
    TypeKind{"nomic_bert", "encoder"},
    TypeKind{"paligemma", "vision-language"},
    TypeKind{"pegasus", "encoder-decoder"},
    TypeKind{"pixtral", "vision-language"},
    TypeKind{"qwen2_5_vl", "vision-language"},
    TypeKind{"qwen2_vl", "vision-language"},
    TypeKind{"qwen3_vl", "vision-language"},
    TypeKind{"qwen3_vl_moe", "vision-language"},
    TypeKind{"resnet", "vision"},
    TypeKind{"roberta", "encoder"},
    TypeKind{"seamless_m4t", "speech"},
    TypeKind{"seamless_m4t_v2", "speech"},
    TypeKind{"siglip", "vision-language"},
    TypeKind{"siglip_vision_model", "vision"},
    TypeKind{"speech_to_text", "speech"},
    TypeKind{"swin", "vision"},
    TypeKind{"swinv2", "vision"},
    TypeKind{"t5", "encoder-decoder"},
    TypeKind{"umt5", "encoder-decoder"},
    TypeKind{"vit", "vision"},
    TypeKind{"wav2vec2", "speech"},
    TypeKind{"whisper", "speech"},
    TypeKind{"xlm-roberta", "encoder"},
    TypeKind{"xlm-roberta-xl", "encoder"},
};
static_assert(std::ranges::is_sorted(kTypeKinds, {}, &TypeKind::model_type));

// Families of decoders whose configuration has no architectures in some repositories.
constexpr std::array<std::string_view, 74> kDecoders = {"bamba",
                                                        "bloom",
                                                        "chatglm",
                                                        "codegen",
                                                        "cohere",
                                                        "cohere2",
                                                        "dbrx",
                                                        "deepseek_v2",
                                                        "deepseek_v3",
                                                        "ernie4_5_moe",
                                                        "exaone4",
                                                        "falcon",
                                                        "falcon_h1",
                                                        "falcon_mamba",
                                                        "gemma",
                                                        "gemma2",
                                                        "gemma3_text",
                                                        "gemma3n_text",
                                                        "glm4",
                                                        "glm4_moe",
                                                        "glm_moe_dsa",
                                                        "gpt2",
                                                        "gpt_bigcode",
                                                        "gpt_neo",
                                                        "gpt_neox",
                                                        "gpt_oss",
                                                        "gptj",
                                                        "granite",
                                                        "granitemoe",
                                                        "granitemoehybrid",
                                                        "hunyuan_v1_moe",
                                                        "internlm2",
                                                        "jamba",
                                                        "kimi_k2",
                                                        "lfm2",
                                                        "llama",
                                                        "llama4_text",
                                                        "mamba",
                                                        "mamba2",
                                                        "minicpm3",
                                                        "minimax",
                                                        "ministral",
                                                        "mistral",
                                                        "mistral4",
                                                        "mixtral",
                                                        "mpt",
                                                        "nemotron_h",
                                                        "olmo",
                                                        "olmo2",
                                                        "olmo_hybrid",
                                                        "olmoe",
                                                        "openelm",
                                                        "opt",
                                                        "phi",
                                                        "phi-msft",
                                                        "phi3",
                                                        "phimoe",
                                                        "qwen2",
                                                        "qwen2_moe",
                                                        "qwen3",
                                                        "qwen3_5",
                                                        "qwen3_moe",
                                                        "qwen3_next",
                                                        "recurrent_gemma",
                                                        "rwkv",
                                                        "seed_oss",
                                                        "smollm3",
                                                        "stablelm",
                                                        "starcoder2",
                                                        "deci",
                                                        "zamba2",
                                                        "nemotron",
                                                        "exaone",
                                                        "gemma4_text"};

bool is_decoder_type(std::string_view model_type) {
  return std::ranges::find(kDecoders, model_type) != kDecoders.end();
}

std::string_view kind_of_type(std::string_view model_type) {
  const auto family = std::ranges::lower_bound(kTypeKinds, model_type, {}, &TypeKind::model_type);
  return family != kTypeKinds.end() && family->model_type == model_type ? family->kind : "";
}

std::string kind_of_class(std::string_view name) {
  const auto has = [&](std::string_view text) { return name.find(text) != name.npos; };
  if (has("ForCausalLM") || has("LMHeadModel")) return "causal-lm";
  if (has("ForConditionalGeneration")) return "encoder-decoder";
  if (has("ForImageClassification") || has("ForObjectDetection") || has("ForSemanticSegmentation")) return "vision";
  if (has("ForAudioClassification") || has("ForCTC") || has("ForSpeechSeq2Seq")) return "speech";
  if (has("ForMaskedLM") || has("Classification") || has("ForQuestionAnswering") || has("ForMultipleChoice") ||
      has("BertModel"))
    return "encoder";
  return "";
}

std::string kind_by_config(const Config& config, SmallFiles& files, const Summary& known) {
  if (!config.outer) return "";
  const std::string_view by_type = kind_of_type(config.model_type);
  const bool is_decoder = config.outer.flag("is_decoder").value_or(false);
  if (by_type == "encoder" && is_decoder) return "causal-lm";
  if (!by_type.empty()) return std::string(by_type);
  const bool has_vision =
      config.outer.object({"vision_config"}) && config.outer.object({"text_config", "llm_config", "language_config"});
  if (is_decoder_type(config.model_type)) return has_vision ? "vision-language" : "causal-lm";
  if (const Map* const processor = files.object("preprocessor_config.json")) {
    const std::string_view extractor = text_in(*processor, "feature_extractor_type");
    if (extractor.starts_with("Whisper") || extractor.starts_with("Speech")) return "speech";
  }
  if (has_vision) return "vision-language";
  if (config.is_encoder_decoder) return "encoder-decoder";
  return kind_of_class(known.architecture_class);
}

std::string kind_by_gguf(const Model& model, const Map& keys, const Summary& known) {
  const std::string_view type = text_in(keys, "general.type");
  if (known.architecture == "clip" || type == "mmproj") return "projector";
  if (model.tensors.empty() && known.vocabulary_size) return "vocabulary";
  if (!known.pooling.empty()) return "embedding";
  if (known.architecture == "t5") return "encoder-decoder";
  if (known.architecture == "t5encoder" || known.architecture.find("bert") != std::string::npos) return "encoder";
  if (!known.layers) return "";
  const NameParser parser(known, true);
  bool has_embedding = false;
  for (size_t i = 0; i < model.tensors.size() && !has_embedding; ++i)
    has_embedding = parser.parse(model.tensors.name(i)).is_embedding;
  if (!has_embedding) return "";
  return known.projector.empty() ? "causal-lm" : "vision-language";
}

}  // namespace

bool is_encoder_decoder_type(std::string_view model_type) {
  return kind_of_type(model_type) == "encoder-decoder" || model_type == "whisper" || model_type == "speech_to_text" ||
         model_type == "moonshine";
}

std::string kind_of(const Model& model, const Config& config, const Map* gguf, SmallFiles& files,
                    const Summary& known) {
  if (known.adapter) return "adapter";
  if (gguf != nullptr && (known.architecture == "clip" || text_in(*gguf, "general.type") == "mmproj"))
    return "projector";
  const Traits::Content content = traits_of(model.format).content;
  if (!known.components.empty() || content == Traits::pipeline) return "pipeline";
  if (gguf != nullptr)
    if (std::string kind = kind_by_gguf(model, *gguf, known); !kind.empty()) return kind;
  if (files.has("modules.json")) return "embedding";
  if (std::string kind = kind_by_config(config, files, known); !kind.empty()) return kind;
  if (model.tensors.empty() && model.common.find("remote_host") != nullptr) return "remote";
  if (content == Traits::trees) return "trees";
  if (is_graph_format(model)) return "graph";
  if (!model.tensors.empty() || may_lack_tensors(model)) return "tensors";
  return model.has_members ? "archive" : "empty";
}

}  // namespace weightfs::summary
