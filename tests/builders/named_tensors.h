// Tensors with the names, types and shapes of published models, without their bytes: for tests of what is computed from
// headers.
#pragma once

#include <fmt/core.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/summary/counts.h"
#include "formats/tensor_list.h"
#include "tests/support/counted_source.h"

namespace weightfs::test {

/// A list of tensors, and what each counts.
class NamedTensors {
 public:
  /// A parameter of its elements.
  NamedTensors& add(std::string name, std::string_view dtype, Shape shape) {
    return add_as(summary::Role::parameter, std::move(name), dtype, std::move(shape));
  }
  NamedTensors& add_as(summary::Role role, std::string name, std::string_view dtype, Shape shape) {
    uint64_t elements = 1;
    for (const uint64_t size : shape) elements *= size;
    return add_counted({role, elements}, std::move(name), dtype, std::move(shape));
  }
  NamedTensors& add_counted(summary::Counted count, std::string name, std::string_view dtype, Shape shape) {
    const uint64_t bytes = size_in_bytes(*dtype_named(dtype), shape).value();
    tensors.push_back(Tensor{.name = std::move(name),
                             .dtype = dtype_named(dtype),
                             .stored_dtype = "STORED",
                             .scope = {},
                             .shape = std::move(shape),
                             .source = slice(file_, end_, bytes).value()});
    end_ += bytes;
    counted.push_back(count);
    return *this;
  }
  NamedTensors& add_refused(std::string name, std::string_view dtype, Shape shape) {
    add(std::move(name), dtype, std::move(shape));
    tensors.set_source(tensors.size() - 1, Slice());
    return *this;
  }
  /// A matrix of FP8 with its scales, a block of 128 rows and columns each.
  NamedTensors& add_fp8(const std::string& name, uint64_t rows, uint64_t columns) {
    add(name + ".weight", "float8_e4m3fn", {rows, columns});
    return add_as(summary::Role::companion, name + ".weight_scale_inv", "float32",
                  {(rows + 127) / 128, (columns + 127) / 128});
  }

  TensorList tensors;
  std::vector<summary::Counted> counted;

 private:
  std::shared_ptr<const CountedSource> file_ = std::make_shared<CountedSource>("", uint64_t{1} << 50);
  uint64_t end_ = 0;
};

/// Whether llama.cpp stores attn_v and ffn_down of a layer in Q6_K instead of Q4_K.
inline bool has_more_bits(int layer, int layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

/// Llama 3.1 8B in Q4_K_M, of which the tensors after the first `readable` are refused.
inline NamedTensors llama_8b_gguf(size_t readable = 291) {
  NamedTensors out;
  const auto add = [&](std::string name, std::string_view dtype, Shape shape) {
    if (out.tensors.size() < readable)
      out.add(std::move(name), dtype, std::move(shape));
    else
      out.add_refused(std::move(name), dtype, std::move(shape));
  };
  add("token_embd.weight", "q4_k", {128256, 4096});
  for (int layer = 0; layer < 32; ++layer) {
    const auto name = [layer](const char* what) { return fmt::format("blk.{}.{}.weight", layer, what); };
    const char* const mixed = has_more_bits(layer, 32) ? "q6_k" : "q4_k";
    add(name("attn_norm"), "float32", {4096});
    add(name("ffn_down"), mixed, {4096, 14336});
    add(name("ffn_gate"), "q4_k", {14336, 4096});
    add(name("ffn_up"), "q4_k", {14336, 4096});
    add(name("ffn_norm"), "float32", {4096});
    add(name("attn_k"), "q4_k", {1024, 4096});
    add(name("attn_output"), "q4_k", {4096, 4096});
    add(name("attn_q"), "q4_k", {4096, 4096});
    add(name("attn_v"), mixed, {1024, 4096});
  }
  add("output_norm.weight", "float32", {4096});
  add("output.weight", "q6_k", {128256, 4096});
  return out;
}

/// The gated feed-forward network of an expert or a layer.
inline void add_mlp_fp8(NamedTensors& out, const std::string& name, uint64_t size) {
  out.add_fp8(name + ".gate_proj", size, 7168).add_fp8(name + ".up_proj", size, 7168);
  out.add_fp8(name + ".down_proj", 7168, size);
}

/// DeepSeek-V3: 3 dense layers, 58 with experts, and the layer that predicts further tokens.
inline NamedTensors deepseek_v3() {
  NamedTensors out;
  out.add("model.embed_tokens.weight", "bfloat16", {129280, 7168});
  for (int layer = 0; layer < 62; ++layer) {
    const std::string name = fmt::format("model.layers.{}.", layer);
    const bool has_experts = layer >= 3;
    if (layer == 61) {
      out.add(name + "embed_tokens.weight", "bfloat16", {129280, 7168}).add(name + "enorm.weight", "bfloat16", {7168});
      out.add(name + "hnorm.weight", "bfloat16", {7168}).add(name + "eh_proj.weight", "bfloat16", {7168, 14336});
    }
    out.add_fp8(name + "self_attn.q_a_proj", 1536, 7168);
    out.add(name + "self_attn.q_a_layernorm.weight", "bfloat16", {1536});
    out.add_fp8(name + "self_attn.q_b_proj", 24576, 1536);
    out.add_fp8(name + "self_attn.kv_a_proj_with_mqa", 576, 7168);
    out.add(name + "self_attn.kv_a_layernorm.weight", "bfloat16", {512});
    out.add_fp8(name + "self_attn.kv_b_proj", 32768, 512).add_fp8(name + "self_attn.o_proj", 7168, 16384);
    if (has_experts) {
      out.add(name + "mlp.gate.weight", "bfloat16", {256, 7168});
      out.add(name + "mlp.gate.e_score_correction_bias", "float32", {256});
      add_mlp_fp8(out, name + "mlp.shared_experts", 2048);
      for (int expert = 0; expert < 256; ++expert)
        add_mlp_fp8(out, fmt::format("{}mlp.experts.{}", name, expert), 2048);
    } else {
      add_mlp_fp8(out, name + "mlp", 18432);
    }
    out.add(name + "input_layernorm.weight", "bfloat16", {7168});
    out.add(name + "post_attention_layernorm.weight", "bfloat16", {7168});
    if (layer == 61)
      out.add(name + "shared_head.norm.weight", "bfloat16", {7168})
          .add(name + "shared_head.head.weight", "bfloat16", {129280, 7168});
  }
  return std::move(out.add("model.norm.weight", "bfloat16", {7168}).add("lm_head.weight", "bfloat16", {129280, 7168}));
}

/// A layer's experts of Qwen3, with their router.
inline void add_qwen3_experts(NamedTensors& out, const std::string& mlp, uint64_t experts, uint64_t size) {
  out.add(mlp + "gate.weight", "bfloat16", {experts, 2048});
  for (uint64_t expert = 0; expert < experts; ++expert) {
    const std::string name = fmt::format("{}experts.{}.", mlp, expert);
    out.add(name + "gate_proj.weight", "bfloat16", {size, 2048}).add(name + "up_proj.weight", "bfloat16", {size, 2048});
    out.add(name + "down_proj.weight", "bfloat16", {2048, size});
  }
}

inline void add_qwen3_norms(NamedTensors& out, const std::string& layer) {
  out.add(layer + "input_layernorm.weight", "bfloat16", {2048});
  out.add(layer + "post_attention_layernorm.weight", "bfloat16", {2048});
}

/// Qwen3-Next 80B-A3B: every fourth layer has full attention, the others are linear; 512 experts.
inline NamedTensors qwen3_next_80b() {
  NamedTensors out;
  out.add("model.embed_tokens.weight", "bfloat16", {151936, 2048});
  for (int layer = 0; layer < 48; ++layer) {
    const std::string name = fmt::format("model.layers.{}.", layer);
    if (layer % 4 == 3) {
      out.add(name + "self_attn.q_proj.weight", "bfloat16", {8192, 2048});
      out.add(name + "self_attn.k_proj.weight", "bfloat16", {512, 2048});
      out.add(name + "self_attn.v_proj.weight", "bfloat16", {512, 2048});
      out.add(name + "self_attn.o_proj.weight", "bfloat16", {2048, 4096});
      out.add(name + "self_attn.q_norm.weight", "bfloat16", {256});
      out.add(name + "self_attn.k_norm.weight", "bfloat16", {256});
    } else {
      out.add(name + "linear_attn.conv1d.weight", "bfloat16", {8192, 1, 4});
      out.add(name + "linear_attn.dt_bias", "bfloat16", {32}).add(name + "linear_attn.A_log", "bfloat16", {32});
      out.add(name + "linear_attn.in_proj_qkvz.weight", "bfloat16", {12288, 2048});
      out.add(name + "linear_attn.in_proj_ba.weight", "bfloat16", {64, 2048});
      out.add(name + "linear_attn.norm.weight", "bfloat16", {128});
      out.add(name + "linear_attn.out_proj.weight", "bfloat16", {2048, 4096});
    }
    add_qwen3_experts(out, name + "mlp.", 512, 512);
    out.add(name + "mlp.shared_expert.gate_proj.weight", "bfloat16", {512, 2048});
    out.add(name + "mlp.shared_expert.up_proj.weight", "bfloat16", {512, 2048});
    out.add(name + "mlp.shared_expert.down_proj.weight", "bfloat16", {2048, 512});
    out.add(name + "mlp.shared_expert_gate.weight", "bfloat16", {1, 2048});
    add_qwen3_norms(out, name);
  }
  return std::move(out.add("model.norm.weight", "bfloat16", {2048}).add("lm_head.weight", "bfloat16", {151936, 2048}));
}

/// Qwen3-30B-A3B: 48 layers with 128 experts.
inline NamedTensors qwen3_30b() {
  NamedTensors out;
  out.add("model.embed_tokens.weight", "bfloat16", {151936, 2048});
  for (int layer = 0; layer < 48; ++layer) {
    const std::string name = fmt::format("model.layers.{}.", layer);
    out.add(name + "self_attn.q_proj.weight", "bfloat16", {4096, 2048});
    out.add(name + "self_attn.k_proj.weight", "bfloat16", {512, 2048});
    out.add(name + "self_attn.v_proj.weight", "bfloat16", {512, 2048});
    out.add(name + "self_attn.o_proj.weight", "bfloat16", {2048, 4096});
    out.add(name + "self_attn.q_norm.weight", "bfloat16", {128});
    out.add(name + "self_attn.k_norm.weight", "bfloat16", {128});
    add_qwen3_experts(out, name + "mlp.", 128, 768);
    add_qwen3_norms(out, name);
  }
  return std::move(out.add("model.norm.weight", "bfloat16", {2048}).add("lm_head.weight", "bfloat16", {151936, 2048}));
}

/// A LoRA of rank 16 for q_proj and v_proj of Llama 3.1 8B.
inline NamedTensors llama_lora() {
  NamedTensors out;
  for (int layer = 0; layer < 32; ++layer)
    for (const auto& [module, rows] : {std::pair{"q_proj", 4096}, {"v_proj", 1024}}) {
      const std::string name = fmt::format("base_model.model.model.layers.{}.self_attn.{}.", layer, module);
      out.add(name + "lora_A.weight", "float32", {16, 4096});
      out.add(name + "lora_B.weight", "float32", {static_cast<uint64_t>(rows), 16});
    }
  return out;
}

}  // namespace weightfs::test
