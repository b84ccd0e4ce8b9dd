#include "formats/names/names.h"

#include <array>

#include "base/text.h"

namespace weightfs::mapping {
namespace {

template <class... Archs>
constexpr uint32_t of(Archs... archs) {
  return (bit(archs) | ...);
}

constexpr uint32_t kAll = 0xFFFFFFFF;
constexpr uint32_t kLlama = of(Arch::llama, Arch::granite, Arch::smollm3, Arch::mistral3);
constexpr uint32_t kQwen35s = of(Arch::qwen35, Arch::qwen35moe);
constexpr uint32_t kGemma = of(Arch::gemma2, Arch::gemma3, Arch::gemma4);
constexpr uint32_t kBert = of(Arch::bert);
constexpr uint32_t kDecoders = kAll & ~kBert;
constexpr uint32_t kMoe = of(Arch::qwen2moe, Arch::qwen3moe, Arch::qwen35moe, Arch::deepseek2);
constexpr uint32_t kSharedExpert = of(Arch::qwen2moe, Arch::qwen35moe);
constexpr uint32_t kGptOss = of(Arch::gpt_oss);
constexpr uint32_t kFused = of(Arch::phi3, Arch::glm4);
constexpr uint32_t kDense = kLlama | kGemma | of(Arch::qwen2, Arch::qwen3, Arch::qwen35, Arch::olmo2, Arch::deepseek2);
// Those that have a norm behind the attention where others have one in front of the network.
constexpr uint32_t kNormBehind = kGemma | kQwen35s | kGptOss | of(Arch::olmo2);
constexpr uint32_t kNormedHeads = kQwen35s | of(Arch::qwen3, Arch::qwen3moe, Arch::gemma3, Arch::gemma4);
constexpr uint32_t kDeepseek = of(Arch::deepseek2);
constexpr uint32_t kGemma4 = of(Arch::gemma4);

// gguf-py's tensor_mapping.py for these architectures, and what conversion/*.py does before it.
constexpr auto kRows = std::to_array<NameRow>({
    {kDecoders, "model.embed_tokens.*", "token_embd.*", TensorPart::embedding},
    {kDecoders, "model.norm.*", "output_norm.*", TensorPart::norm, Op::norm},
    {of(Arch::gemma2, Arch::gemma3), "lm_head.*", "", TensorPart::head, Op::drop},  // always tied
    {kDecoders, "lm_head.*", "output.*", TensorPart::head},

    {kDecoders, "model.layers.{}.input_layernorm.*", "blk.{}.attn_norm.*", TensorPart::norm, Op::norm},
    {kDecoders & ~kNormBehind, "model.layers.{}.post_attention_layernorm.*", "blk.{}.ffn_norm.*", TensorPart::norm,
     Op::norm},
    {kNormBehind, "model.layers.{}.post_attention_layernorm.*", "blk.{}.post_attention_norm.*", TensorPart::norm,
     Op::norm},
    {kGemma, "model.layers.{}.pre_feedforward_layernorm.*", "blk.{}.ffn_norm.*", TensorPart::norm, Op::norm},
    {kGemma | of(Arch::olmo2), "model.layers.{}.post_feedforward_layernorm.*", "blk.{}.post_ffw_norm.*",
     TensorPart::norm, Op::norm},
    {of(Arch::glm4), "model.layers.{}.post_self_attn_layernorm.*", "blk.{}.post_attention_norm.*", TensorPart::norm,
     Op::norm},
    {of(Arch::glm4), "model.layers.{}.post_mlp_layernorm.*", "blk.{}.post_ffw_norm.*", TensorPart::norm, Op::norm},

    {kDecoders, "model.layers.{}.self_attn.q_proj.*", "blk.{}.attn_q.*", TensorPart::attention, Op::query_heads},
    {kDecoders, "model.layers.{}.self_attn.k_proj.*", "blk.{}.attn_k.*", TensorPart::keys, Op::key_heads},
    {kDecoders, "model.layers.{}.self_attn.v_proj.*", "blk.{}.attn_v.*", TensorPart::attention},
    {kDecoders, "model.layers.{}.self_attn.o_proj.*", "blk.{}.attn_output.*", TensorPart::attention},
    {of(Arch::phi3), "model.layers.{}.self_attn.qkv_proj.*", "blk.{}.attn_qkv.*", TensorPart::attention},
    {kNormedHeads, "model.layers.{}.self_attn.q_norm.*", "blk.{}.attn_q_norm.*", TensorPart::query_norm, Op::norm},
    {of(Arch::olmo2), "model.layers.{}.self_attn.q_norm.*", "blk.{}.attn_q_norm.*", TensorPart::norm, Op::norm},
    {kNormedHeads | of(Arch::olmo2), "model.layers.{}.self_attn.k_norm.*", "blk.{}.attn_k_norm.*", TensorPart::norm,
     Op::norm},
    {kGptOss, "model.layers.{}.self_attn.sinks", "blk.{}.attn_sinks.weight", TensorPart::attention},

    {kDense, "model.layers.{}.mlp.gate_proj.*", "blk.{}.ffn_gate.*", TensorPart::feed_forward_in},
    {kDense, "model.layers.{}.mlp.up_proj.*", "blk.{}.ffn_up.*", TensorPart::feed_forward_in},
    {kDense | kFused, "model.layers.{}.mlp.down_proj.*", "blk.{}.ffn_down.*", TensorPart::feed_forward},
    {kFused, "model.layers.{}.mlp.gate_up_proj.*", "blk.{}.ffn_up.*", TensorPart::feed_forward},

    // Mixtures of experts.
    {kMoe, "model.layers.{}.mlp.gate.*", "blk.{}.ffn_gate_inp.*", TensorPart::router},
    {kMoe, "model.layers.{}.mlp.experts.{x}.down_proj.weight", "blk.{}.ffn_down_exps.weight", TensorPart::expert,
     Op::expert},
    {kMoe, "model.layers.{}.mlp.experts.{x}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight", TensorPart::expert,
     Op::expert},
    {kMoe, "model.layers.{}.mlp.experts.{x}.up_proj.weight", "blk.{}.ffn_up_exps.weight", TensorPart::expert,
     Op::expert},
    {kMoe, "model.layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps.weight", TensorPart::expert},
    {kMoe, "model.layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_gate_exps.weight", TensorPart::expert,
     Op::first_half},
    {kMoe, "model.layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_up_exps.weight", TensorPart::expert,
     Op::second_half},
    {kSharedExpert, "model.layers.{}.mlp.shared_expert_gate.*", "blk.{}.ffn_gate_inp_shexp.*", TensorPart::router},
    {kSharedExpert, "model.layers.{}.mlp.shared_expert.gate_proj.*", "blk.{}.ffn_gate_shexp.*",
     TensorPart::shared_expert},
    {kSharedExpert, "model.layers.{}.mlp.shared_expert.up_proj.*", "blk.{}.ffn_up_shexp.*", TensorPart::shared_expert},
    {kSharedExpert, "model.layers.{}.mlp.shared_expert.down_proj.*", "blk.{}.ffn_down_shexp.*",
     TensorPart::shared_expert},
    {of(Arch::llama), "model.layers.{}.block_sparse_moe.gate.*", "blk.{}.ffn_gate_inp.*", TensorPart::router},
    {of(Arch::llama), "model.layers.{}.block_sparse_moe.experts.{x}.w1.weight", "blk.{}.ffn_gate_exps.weight",
     TensorPart::expert, Op::expert},
    {of(Arch::llama), "model.layers.{}.block_sparse_moe.experts.{x}.w2.weight", "blk.{}.ffn_down_exps.weight",
     TensorPart::expert, Op::expert},
    {of(Arch::llama), "model.layers.{}.block_sparse_moe.experts.{x}.w3.weight", "blk.{}.ffn_up_exps.weight",
     TensorPart::expert, Op::expert},

    // gpt-oss. Weights that are not MXFP4 have their inputs first.
    {kGptOss, "model.layers.{}.mlp.router.*", "blk.{}.ffn_gate_inp.*", TensorPart::router},
    {kGptOss, "model.layers.{}.mlp.experts.down_proj_blocks", "blk.{}.ffn_down_exps.weight", TensorPart::expert,
     Op::mxfp4},
    {kGptOss, "model.layers.{}.mlp.experts.gate_up_proj_blocks", "blk.{}.ffn_gate_exps.weight", TensorPart::expert,
     Op::mxfp4_even},
    {kGptOss, "model.layers.{}.mlp.experts.gate_up_proj_blocks", "blk.{}.ffn_up_exps.weight", TensorPart::expert,
     Op::mxfp4_odd},
    {kGptOss, "model.layers.{}.mlp.experts.down_proj_scales", "", TensorPart::expert, Op::drop},  // with the blocks
    {kGptOss, "model.layers.{}.mlp.experts.gate_up_proj_scales", "", TensorPart::expert, Op::drop},
    {kGptOss, "model.layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps.weight", TensorPart::expert,
     Op::transposed},
    {kGptOss, "model.layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_gate_exps.weight", TensorPart::expert,
     Op::transposed_even},
    {kGptOss, "model.layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_up_exps.weight", TensorPart::expert,
     Op::transposed_odd},
    {kGptOss, "model.layers.{}.mlp.experts.down_proj_bias", "blk.{}.ffn_down_exps.bias", TensorPart::expert},
    {kGptOss, "model.layers.{}.mlp.experts.gate_up_proj_bias", "blk.{}.ffn_gate_exps.bias", TensorPart::expert,
     Op::even},
    {kGptOss, "model.layers.{}.mlp.experts.gate_up_proj_bias", "blk.{}.ffn_up_exps.bias", TensorPart::expert, Op::odd},

    // DeepSeek.
    {kDeepseek, "model.layers.{}.self_attn.q_a_proj.*", "blk.{}.attn_q_a.*", TensorPart::attention},
    {kDeepseek, "model.layers.{}.self_attn.q_a_layernorm.*", "blk.{}.attn_q_a_norm.*", TensorPart::norm, Op::norm},
    {kDeepseek, "model.layers.{}.self_attn.q_b_proj.*", "blk.{}.attn_q_b.*", TensorPart::attention},
    {kDeepseek, "model.layers.{}.self_attn.kv_a_proj_with_mqa.*", "blk.{}.attn_kv_a_mqa.*", TensorPart::latent},
    {kDeepseek, "model.layers.{}.self_attn.kv_a_layernorm.*", "blk.{}.attn_kv_a_norm.*", TensorPart::norm, Op::norm},
    {kDeepseek, "model.layers.{}.self_attn.kv_b_proj.weight", "blk.{}.attn_k_b.weight", TensorPart::attention,
     Op::mla_keys},
    {kDeepseek, "model.layers.{}.self_attn.kv_b_proj.weight", "blk.{}.attn_v_b.weight", TensorPart::attention,
     Op::mla_values},
    {kDeepseek, "model.layers.{}.mlp.gate.e_score_correction_bias", "blk.{}.exp_probs_b.bias", TensorPart::router},
    {kDeepseek, "model.layers.{}.mlp.shared_experts.gate_proj.*", "blk.{}.ffn_gate_shexp.*", TensorPart::shared_expert},
    {kDeepseek, "model.layers.{}.mlp.shared_experts.up_proj.*", "blk.{}.ffn_up_shexp.*", TensorPart::shared_expert},
    {kDeepseek, "model.layers.{}.mlp.shared_experts.down_proj.*", "blk.{}.ffn_down_shexp.*", TensorPart::shared_expert},

    // Qwen 3.5. The block behind the last one predicts several tokens.
    {kQwen35s, "model.layers.{}.linear_attn.in_proj_qkv.weight", "blk.{}.attn_qkv.weight", TensorPart::attention,
     Op::value_head_rows},
    {kQwen35s, "model.layers.{}.linear_attn.in_proj_z.weight", "blk.{}.attn_gate.weight", TensorPart::attention,
     Op::value_heads},
    {kQwen35s, "model.layers.{}.linear_attn.in_proj_a.weight", "blk.{}.ssm_alpha.weight", TensorPart::attention,
     Op::value_numbers},
    {kQwen35s, "model.layers.{}.linear_attn.in_proj_b.weight", "blk.{}.ssm_beta.weight", TensorPart::attention,
     Op::value_numbers},
    {kQwen35s, "model.layers.{}.linear_attn.conv1d.weight", "blk.{}.ssm_conv1d.weight", TensorPart::attention,
     Op::value_channels},
    {kQwen35s, "model.layers.{}.linear_attn.norm.weight", "blk.{}.ssm_norm.weight", TensorPart::norm},
    {kQwen35s, "model.layers.{}.linear_attn.out_proj.weight", "blk.{}.ssm_out.weight", TensorPart::attention,
     Op::value_columns},
    {kQwen35s, "model.layers.{}.linear_attn.dt_bias", "blk.{}.ssm_dt.bias", TensorPart::attention, Op::value_numbers},
    {kQwen35s, "model.layers.{}.linear_attn.A_log", "blk.{}.ssm_a", TensorPart::attention, Op::value_decays},
    {kQwen35s, "model.layers.{}.eh_proj.weight", "blk.{}.nextn.eh_proj.weight"},
    {kQwen35s, "model.layers.{}.enorm.weight", "blk.{}.nextn.enorm.weight", TensorPart::norm, Op::norm},
    {kQwen35s, "model.layers.{}.hnorm.weight", "blk.{}.nextn.hnorm.weight", TensorPart::norm, Op::norm},
    {kQwen35s, "model.layers.{}.shared_head.norm.weight", "blk.{}.nextn.shared_head_norm.weight", TensorPart::norm,
     Op::norm},

    // Gemma 4.
    {kGemma4, "model.embed_tokens_per_layer.*", "per_layer_token_embd.*", TensorPart::lookup},
    {kGemma4, "model.per_layer_model_projection.*", "per_layer_model_proj.*"},
    {kGemma4, "model.per_layer_projection_norm.*", "per_layer_proj_norm.*", TensorPart::norm, Op::norm},
    {kGemma4, "model.layers.{}.layer_scalar", "blk.{}.layer_output_scale.weight"},
    {kGemma4, "model.layers.{}.per_layer_input_gate.*", "blk.{}.inp_gate.*"},
    {kGemma4, "model.layers.{}.per_layer_projection.*", "blk.{}.proj.*"},
    {kGemma4, "model.layers.{}.post_per_layer_input_norm.*", "blk.{}.post_norm.*", TensorPart::norm, Op::norm},
    {kGemma4, "model.layers.{}.pre_feedforward_layernorm_2.*", "blk.{}.pre_ffw_norm_2.*", TensorPart::norm, Op::norm},
    {kGemma4, "model.layers.{}.post_feedforward_layernorm_1.*", "blk.{}.post_ffw_norm_1.*", TensorPart::norm, Op::norm},
    {kGemma4, "model.layers.{}.post_feedforward_layernorm_2.*", "blk.{}.post_ffw_norm_2.*", TensorPart::norm, Op::norm},
    {kGemma4, "model.layers.{}.router.proj.*", "blk.{}.ffn_gate_inp.*", TensorPart::router},
    {kGemma4, "model.layers.{}.router.scale", "blk.{}.ffn_gate_inp.scale", TensorPart::router},
    {kGemma4, "model.layers.{}.router.per_expert_scale", "blk.{}.ffn_down_exps.scale", TensorPart::expert},
    {kGemma4, "model.layers.{}.experts.gate_up_proj", "blk.{}.ffn_gate_up_exps.weight", TensorPart::expert},
    {kGemma4, "model.layers.{}.experts.down_proj", "blk.{}.ffn_down_exps.weight", TensorPart::expert},

    // Encoders.
    {kBert, "embeddings.word_embeddings.*", "token_embd.*", TensorPart::embedding},
    {kBert, "embeddings.position_embeddings.*", "position_embd.*", TensorPart::lookup},
    {kBert, "embeddings.token_type_embeddings.*", "token_types.*", TensorPart::lookup},
    {kBert, "embeddings.LayerNorm.*", "token_embd_norm.*", TensorPart::norm},
    {kBert, "encoder.layer.{}.attention.self.query.*", "blk.{}.attn_q.*", TensorPart::attention},
    {kBert, "encoder.layer.{}.attention.self.key.*", "blk.{}.attn_k.*", TensorPart::keys},
    {kBert, "encoder.layer.{}.attention.self.value.*", "blk.{}.attn_v.*", TensorPart::attention},
    {kBert, "encoder.layer.{}.attention.output.dense.*", "blk.{}.attn_output.*", TensorPart::attention},
    {kBert, "encoder.layer.{}.attention.output.LayerNorm.*", "blk.{}.attn_output_norm.*", TensorPart::norm},
    {kBert, "encoder.layer.{}.intermediate.dense.*", "blk.{}.ffn_up.*", TensorPart::feed_forward_in},
    {kBert, "encoder.layer.{}.output.dense.*", "blk.{}.ffn_down.*", TensorPart::feed_forward},
    {kBert, "encoder.layer.{}.output.LayerNorm.*", "blk.{}.layer_output_norm.*", TensorPart::norm},
    {kBert, "classifier.*", "cls.output.*"},
    {kBert, "embeddings.position_ids", "", TensorPart::other, Op::drop},
    {kBert, "pooler.dense.*", "", TensorPart::other, Op::drop},
});

constexpr std::string_view kBlockNumber = "{}";
constexpr std::string_view kExpertNumber = "{x}";
constexpr std::string_view kAnySuffix = ".*";

// Takes a number from the front of a name; false if there is none.
bool take_number(std::string_view& name, uint64_t& number) {
  constexpr size_t kMaxDigits = 6;
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  if (digits == 0 || digits > kMaxDigits || (digits > 1 && name.front() == '0')) return false;
  number = *parse_number<uint64_t>(name.substr(0, digits));
  name.remove_prefix(digits);
  return true;
}

}  // namespace

std::span<const NameRow> name_rows() { return kRows; }

std::optional<Numbers> fit(std::string_view pattern, std::string_view name) {
  Numbers numbers;
  while (!pattern.empty()) {
    if (pattern == kAnySuffix) {
      if (name != ".weight" && name != ".bias") return std::nullopt;
      numbers.suffix = name;
      return numbers;
    }
    if (pattern.starts_with('{')) {
      const bool is_block = pattern.starts_with(kBlockNumber);
      if (!take_number(name, is_block ? numbers.block : numbers.expert)) return std::nullopt;
      pattern.remove_prefix(is_block ? kBlockNumber.size() : kExpertNumber.size());
      continue;
    }
    const std::string_view text = pattern.substr(0, std::min(pattern.find('{'), pattern.size()));
    const std::string_view fixed = text.ends_with(kAnySuffix) ? text.substr(0, text.size() - kAnySuffix.size()) : text;
    if (!name.starts_with(fixed)) return std::nullopt;
    name.remove_prefix(fixed.size());
    pattern.remove_prefix(fixed.size());
  }
  return name.empty() ? std::optional(numbers) : std::nullopt;
}

std::string fill(std::string_view pattern, const Numbers& numbers) {
  std::string name;
  while (!pattern.empty()) {
    if (pattern == kAnySuffix) return name.append(numbers.suffix);
    if (pattern.starts_with('{')) {
      const bool is_block = pattern.starts_with(kBlockNumber);
      name += std::to_string(is_block ? numbers.block : numbers.expert);
      pattern.remove_prefix(is_block ? kBlockNumber.size() : kExpertNumber.size());
      continue;
    }
    const size_t end = std::min(
        {pattern.find('{'), pattern.size(), pattern.ends_with(kAnySuffix) ? pattern.size() - 2 : pattern.size()});
    name += pattern.substr(0, end);
    pattern.remove_prefix(end);
  }
  return name;
}

}  // namespace weightfs::mapping
