#include "formats/summary/facts/config.h"

#include <algorithm>
#include <array>

namespace weightfs::summary {
namespace {

constexpr std::array<std::string_view, 7> kLayerCounts = {
    "num_hidden_layers",      "n_layer",        "n_layers",          "num_layers",
    "num_transformer_layers", "decoder_layers", "num_decoder_layers"};
constexpr std::array<std::string_view, 6> kExpertsUsed = {
    "num_experts_per_tok", "experts_per_token", "moe_k", "moe_topk", "top_k_experts", "num_selected_experts"};
constexpr std::array<std::string_view, 9> kNested = {"text_config", "language_config", "llm_config",
                                                     "llm",         "thinker_config",  "phi_config",
                                                     "decoder",     "encoder_config",  "model_config"};

// Families whose first positions are reserved for padding.
constexpr std::array<std::string_view, 4> kRoberta = {"roberta", "xlm-roberta", "camembert", "xlm-roberta-xl"};
constexpr std::array<std::string_view, 9> kWithoutContext = {"mamba", "mamba2",     "falcon_mamba", "rwkv", "rwkv5",
                                                             "rwkv6", "rwkv6qwen2", "rwkv7",        "xlstm"};
constexpr double kMaxContext = 1e9;  // model_max_length of tokenizers is 1e30 where there is none

// Families whose feed-forward width is four times the hidden size if it is not stated.
constexpr std::array<std::string_view, 7> kFourfold = {"gpt2",    "gptj",  "gpt_neo", "gpt_bigcode",
                                                       "codegen", "bloom", "falcon"};

bool is_one_of(std::string_view name, auto& names) { return std::ranges::find(names, name) != names.end(); }

Fields inner_of(const Fields& outer, std::string_view name) {
  const Fields inner = outer.object({name});
  const Fields text = name == "thinker_config" ? inner.object({"text_config"}) : Fields();
  return text ? text : inner;
}

void describe_layers(const Config& config, Summary& out) {
  const Fields& text = config.text;
  if (!config.is_encoder_decoder) {
    out.layers = text.number(kLayerCounts);
    return;
  }
  out.encoder_layers = text.number({"encoder_layers", "num_encoder_layers", "encoder_num_hidden_layers", "num_layers"});
  out.layers = text.number({"decoder_layers", "num_decoder_layers", "decoder_num_hidden_layers"});
  if (!out.layers) out.layers = out.encoder_layers ? out.encoder_layers : text.number(kLayerCounts);
}

// MPT: "multihead_attention" ignores kv_n_heads.
Number kv_heads_of_mpt(const Fields& attention, const Summary& known) {
  const std::string type = attention.text({"attn_type"});
  if (type == "multiquery_attention") return 1;
  return type == "multihead_attention" ? known.heads : attention.number({"kv_n_heads"});
}

Number kv_heads_of(const Fields& text, const Summary& known) {
  // Falcon has a field for the number of heads, and ignores it then.
  if (text.flag("multi_query").value_or(false) && !text.flag("new_decoder_architecture").value_or(false)) return 1;
  for (const std::string_view name : {"num_key_value_heads", "num_kv_heads", "num_key_value_heads_per_layer"})
    if (const auto lists = text.per_layer(name, known.layers.value_or(0)); !lists.empty())
      return *std::ranges::max_element(lists);
  if (const Number stated = text.number({"n_head_kv", "n_kv_heads", "num_attention_groups", "num_query_groups"}))
    return stated;
  if (const Number stated = kv_heads_of_mpt(text.object({"attn_config"}), known)) return stated;
  if (text.flag("multi_query_attention").value_or(false))
    if (const Number stated = text.number({"multi_query_group_num"})) return stated;
  if (const Number sharing = text.positive({"n_shared_head"}); sharing && known.heads)  // PLaMo
    return *known.heads / *sharing + (*known.heads % *sharing != 0 ? 1 : 0);
  return known.heads;
}

// The attention of Zamba works on two hidden states side by side. `kv_channels` beside it is of one of them.
Number head_dim_of_zamba(const Config& config, const Summary& known) {
  if (!config.model_type.starts_with("zamba")) return std::nullopt;
  if (const Number stated = config.text.number({"attention_head_dim"})) return stated;
  if (known.heads.value_or(0) == 0) return std::nullopt;
  const Number width = product(2, known.hidden_size);
  return width ? Number(*width / *known.heads) : std::nullopt;
}

void describe_attention(const Config& config, Summary& out) {
  const Fields& text = config.text;
  out.hidden_size = text.number({"hidden_size", "n_embd", "d_model", "dim", "n_embed", "model_dim"});
  out.heads = text.number(
      {"num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads", "encoder_attention_heads"});
  if (!out.heads)
    if (const auto heads = text.per_layer("num_query_heads", out.layers.value_or(0)); !heads.empty())
      out.heads = *std::ranges::max_element(heads);
  out.kv_heads = kv_heads_of(text, out);
  out.head_dim = head_dim_of_zamba(config, out);
  if (!out.head_dim) out.head_dim = text.number({"head_dim", "d_kv", "kv_channels", "attention_head_dim"});
  if (!out.head_dim && out.hidden_size && out.heads && *out.heads > 0 && *out.hidden_size % *out.heads == 0)
    out.head_dim = *out.hidden_size / *out.heads;
  if (text.flag("use_sliding_window") != std::optional(false))
    out.sliding_window = text.positive(
        {"sliding_window", "window_size", "attention_window_size", "local_window_size", "sliding_window_size"});
  if (has_compressed_cache(text))
    out.attention = "MLA";
  else if (out.heads && out.kv_heads && *out.heads > 0 && *out.kv_heads > 0)
    out.attention = *out.kv_heads == *out.heads ? "MHA" : *out.kv_heads == 1 ? "MQA" : "GQA";
  if (is_one_of(config.model_type, kWithoutContext)) {
    out.attention = "none";
    out.heads = out.kv_heads = out.head_dim = std::nullopt;
  }
}

void describe_widths(const Config& config, Summary& out) {
  const Fields& text = config.text;
  const Fields ffn = text.object({"ffn_config"});
  out.ffn_size = text.number(
      {"intermediate_size", "ffn_dim", "decoder_ffn_dim", "d_ff", "n_inner", "ffn_hidden_size", "hidden_dim"});
  if (!out.ffn_size) out.ffn_size = ffn.number({"ffn_hidden_size"});
  if (!out.ffn_size && is_one_of(config.model_type, kFourfold)) out.ffn_size = product(out.hidden_size, 4);
  // Transformers has one expert where a family has none; only several are experts.
  out.experts =
      text.number({"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts"});
  if (!out.experts) out.experts = ffn.number({"moe_num_experts"});
  if (!out.experts) out.experts = text.object({"moe"}).number({"num_experts"});
  if (out.experts.value_or(0) <= 1) {
    out.experts = std::nullopt;
    return;
  }
  const bool is_list = text.list("moe_topk") != nullptr || text.list("num_experts_per_tok") != nullptr;
  if (!is_list) out.experts_used = text.number(kExpertsUsed);
  if (!out.experts_used) out.experts_used = ffn.number({"moe_top_k"});
  if (!out.experts_used) out.experts_used = text.object({"moe"}).number({"num_experts_per_tok"});
  out.experts_shared = text.number({"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"});
  if (!out.experts_shared && text.number({"shared_expert_intermediate_size"}).value_or(0) > 0) out.experts_shared = 1;
  out.expert_ffn_size = text.number({"moe_intermediate_size", "expert_intermediate_size"});
  if (!out.expert_ffn_size && (config.model_type == "mixtral" || config.model_type == "gpt_oss"))
    out.expert_ffn_size = text.number({"intermediate_size"});
}

// The object that describes how positions are scaled: in transformers 5 there may be one for each type of layer.
Fields rope_of(const Fields& text) {
  Fields rope = text.object({"rope_scaling", "rope_parameters"});
  if (const Fields full = rope.object({"full_attention"})) return full;
  return rope;
}

Number stated_context(const Fields& text) {
  const Number stated = text.number({"max_position_embeddings", "n_positions", "max_target_positions", "n_ctx",
                                     "seq_length", "max_seq_len", "max_sequence_length", "seq_len"});
  if (stated) return stated;
  if (const Number window = text.positive({"context_window_size"})) return window;  // MLC
  const bool is_real = text.real({"model_max_length"}).value_or(kMaxContext) < kMaxContext;
  return is_real ? text.positive({"model_max_length"}) : std::nullopt;
}

void describe_context(const Config& config, Summary& out) {
  const Fields& text = config.text;
  const Fields rope = rope_of(text);
  out.rope.type = rope.text({"rope_type", "type"});
  if (out.rope.type == "default") out.rope.type.clear();
  if (out.rope.type == "su") out.rope.type = "longrope";
  if (text.flag("alibi").value_or(false) || text.object({"attn_config"}).flag("alibi").value_or(false) ||
      text.text({"position_embedding_type"}) == "alibi" || config.model_type == "bloom")
    out.rope.type = "alibi";
  out.rope.factor = rope.real({"factor"});
  out.rope.original_context_length = rope.number({"original_max_position_embeddings"});
  if (!out.rope.original_context_length)
    out.rope.original_context_length = text.number({"original_max_position_embeddings"});
  out.rope.base = rope.real({"rope_theta"});
  if (!out.rope.base) out.rope.base = text.real({"rope_theta", "rotary_emb_base"});
  if (is_one_of(config.model_type, kWithoutContext)) return;
  out.context_length = stated_context(text);
  if (out.context_length && is_one_of(config.model_type, kRoberta)) {
    const uint64_t reserved = text.number({"pad_token_id"}).value_or(1) + 1;
    if (*out.context_length > reserved) *out.context_length -= reserved;
  }
  // Only YaRN is stated before scaling; where the product is not larger, it is stated after.
  if (out.rope.type != "yarn" || !out.rope.factor || !out.rope.original_context_length || !out.context_length) return;
  const double scaled = static_cast<double>(*out.rope.original_context_length) * *out.rope.factor;
  if (scaled > static_cast<double>(*out.context_length) && scaled <= static_cast<double>(kMaxNumber))
    out.context_length = static_cast<uint64_t>(scaled);
}

void describe_images(const Config& config, Summary& out) {
  const Fields vision = config.outer.object({"vision_config"});
  const Fields& from = vision ? vision : config.outer;
  // Several encoders have a list of two sizes, which is no number.
  const auto side = [&](std::string_view name) { return from.list(name) == nullptr ? from.number({name}) : Number(); };
  if (from.find("image_size") != nullptr && std::get_if<Map>(from.find("image_size")) == nullptr)
    out.image_size = side("image_size");
  if (from.find("patch_size") != nullptr) out.patch_size = side("patch_size");
}

void describe_labels(const Config& config, Summary& out) {
  const bool classifies = out.architecture_class.find("Classification") != std::string::npos ||
                          out.architecture_class.find("ForObjectDetection") != std::string::npos;
  const Fields labels = config.outer.object({"id2label"});
  // The two labels that transformers writes for every model are none.
  if (labels && (classifies || labels.map()->size() != 2)) out.labels = labels.map()->size();
  if (!out.labels && classifies) out.labels = config.outer.number({"num_labels"});
}

}  // namespace

bool has_compressed_cache(const Fields& text) {
  return text.has("kv_lora_rank") && text.flag("use_mla").value_or(true);
}

Config open_config(const Fields& object) {
  Config config{object, object, object.text({"model_type"}), object.flag("is_encoder_decoder").value_or(false)};
  const auto has_layers = [](const Fields& fields) {
    return std::ranges::any_of(kLayerCounts, [&](std::string_view name) { return fields.has(name); });
  };
  if (has_layers(object)) return config;
  Fields any;
  for (const std::string_view name : kNested) {
    const Fields inner = inner_of(object, name);
    if (!inner) continue;
    if (has_layers(inner)) {
      config.text = inner;
      return config;
    }
    if (!any) any = inner;
  }
  if (any) config.text = any;
  return config;
}

void describe_config(const Config& config, Summary& out) {
  out.architecture = config.model_type;
  if (out.architecture.empty()) out.architecture = config.outer.text({"_class_name"});
  if (const auto classes = config.outer.texts("architectures"); !classes.empty())
    out.architecture_class = classes.front();
  if (out.architecture_class.empty()) out.architecture_class = config.outer.text({"_class_name"});
  describe_layers(config, out);
  describe_attention(config, out);
  describe_widths(config, out);
  describe_context(config, out);
  out.vocabulary_size = config.text.number({"vocab_size", "padded_vocab_size"});
  if (!out.vocabulary_size) out.vocabulary_size = config.outer.number({"vocab_size"});
  describe_images(config, out);
  describe_labels(config, out);
}

}  // namespace weightfs::summary
