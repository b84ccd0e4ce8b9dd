// The names of the tensors of well-known models, as their publishers have them.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

namespace weightfs::test {

using NameList = std::vector<std::string>;

inline void add_names(NameList& out, const std::string& beginning, const std::vector<const char*>& modules,
                      const std::vector<const char*>& ends = {".weight"}) {
  for (const char* const module : modules)
    for (const char* const end : ends) out.push_back(beginning + module + end);
}

inline const std::vector<const char*> kWeightAndBias = {".weight", ".bias"};

inline NameList llama_names() {
  NameList out = {"model.embed_tokens.weight"};
  for (int i = 0; i < 32; ++i)
    add_names(out, fmt::format("model.layers.{}.", i),
              {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
               "mlp.up_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm"});
  add_names(out, "", {"model.norm", "lm_head"});
  return out;
}

inline NameList mixtral_names() {
  NameList out = {"model.embed_tokens.weight"};
  for (int i = 0; i < 32; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    add_names(out, layer,
              {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "input_layernorm",
               "post_attention_layernorm", "block_sparse_moe.gate"});
    for (int expert = 0; expert < 8; ++expert)
      add_names(out, fmt::format("{}block_sparse_moe.experts.{}.", layer, expert), {"w1", "w2", "w3"});
  }
  add_names(out, "", {"model.norm", "lm_head"});
  return out;
}

inline NameList gguf_names() {
  NameList out = {"token_embd.weight"};
  for (int i = 0; i < 32; ++i)
    add_names(out, fmt::format("blk.{}.", i),
              {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "attn_norm", "ffn_norm"});
  add_names(out, "", {"output_norm", "output"});
  return out;
}

inline NameList bert_names() {
  NameList out;
  add_names(out, "bert.embeddings.", {"word_embeddings", "position_embeddings", "token_type_embeddings"});
  add_names(out, "bert.embeddings.", {"LayerNorm"}, kWeightAndBias);
  for (int i = 0; i < 12; ++i)
    add_names(out, fmt::format("bert.encoder.layer.{}.", i),
              {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
               "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm"},
              kWeightAndBias);
  add_names(out, "", {"bert.pooler.dense", "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"},
            kWeightAndBias);
  out.push_back("cls.predictions.bias");
  return out;
}

inline NameList whisper_names() {
  NameList out;
  for (const bool is_decoder : {false, true}) {
    const std::string side = is_decoder ? "model.decoder." : "model.encoder.";
    for (int i = 0; i < 24; ++i) {
      const std::string layer = fmt::format("{}layers.{}.", side, i);
      add_names(out, layer,
                {"self_attn.q_proj", "self_attn.v_proj", "self_attn.out_proj", "self_attn_layer_norm", "fc1", "fc2",
                 "final_layer_norm"},
                kWeightAndBias);
      add_names(out, layer, {"self_attn.k_proj"});
      if (is_decoder)
        add_names(out, layer,
                  {"encoder_attn.q_proj", "encoder_attn.v_proj", "encoder_attn.out_proj", "encoder_attn_layer_norm"},
                  kWeightAndBias);
    }
    add_names(out, side, {"layer_norm"}, kWeightAndBias);
    add_names(out, side, {"embed_positions"});
  }
  add_names(out, "model.encoder.", {"conv1", "conv2"}, kWeightAndBias);
  out.push_back("model.decoder.embed_tokens.weight");
  return out;
}

inline void add_transformers(NameList& out, const std::string& block, int depth) {
  add_names(out, block, {"norm", "proj_in", "proj_out"}, kWeightAndBias);
  for (int i = 0; i < depth; ++i) {
    const std::string inner = fmt::format("{}transformer_blocks.{}.", block, i);
    add_names(out, inner, {"attn1.to_q", "attn1.to_k", "attn1.to_v", "attn2.to_q", "attn2.to_k", "attn2.to_v"});
    add_names(out, inner, {"attn1.to_out.0", "attn2.to_out.0", "ff.net.0.proj", "ff.net.2", "norm1", "norm2", "norm3"},
              kWeightAndBias);
  }
}

/// A checkpoint of SDXL in one file: the UNet, two text encoders, the VAE.
inline NameList sdxl_names() {
  NameList out;
  const std::string unet = "model.diffusion_model.";
  const std::vector<const char*> kResidual = {"in_layers.0", "in_layers.2", "emb_layers.1", "out_layers.0",
                                              "out_layers.3"};
  add_names(out, unet,
            {"time_embed.0", "time_embed.2", "label_emb.0.0", "label_emb.0.2", "input_blocks.0.0", "out.0", "out.2"},
            kWeightAndBias);
  const auto add_block = [&](const std::string& name, int depth) {
    add_names(out, name + "0.", kResidual, kWeightAndBias);
    if (depth > 0) add_transformers(out, name + "1.", depth);
  };
  for (int i = 1; i < 9; ++i) {
    if (i == 3 || i == 6)
      add_names(out, fmt::format("{}input_blocks.{}.0.", unet, i), {"op"}, kWeightAndBias);
    else
      add_block(fmt::format("{}input_blocks.{}.", unet, i), i < 3 ? 0 : i < 6 ? 2 : 10);
  }
  add_block(unet + "middle_block.", 10);
  for (int i = 0; i < 9; ++i) add_block(fmt::format("{}output_blocks.{}.", unet, i), i < 3 ? 10 : i < 6 ? 2 : 0);
  for (int i = 0; i < 12; ++i)
    add_names(out, fmt::format("conditioner.embedders.0.transformer.text_model.encoder.layers.{}.", i),
              {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.fc1", "mlp.fc2", "layer_norm1"},
              kWeightAndBias);
  for (int i = 0; i < 32; ++i)
    add_names(out, fmt::format("conditioner.embedders.1.model.transformer.resblocks.{}.", i),
              {"attn.out_proj", "ln_1", "ln_2", "mlp.c_fc", "mlp.c_proj"}, kWeightAndBias);
  for (const char* const side : {"encoder.down", "decoder.up"})
    for (int i = 0; i < 4; ++i)
      add_names(out, fmt::format("first_stage_model.{}.{}.block.0.", side, i), {"norm1", "conv1", "norm2", "conv2"},
                kWeightAndBias);
  return out;
}

inline std::vector<std::pair<const char*, NameList>> name_lists() {
  return {{"Llama", llama_names()}, {"Mixtral", mixtral_names()}, {"GGUF", gguf_names()},
          {"BERT", bert_names()},   {"Whisper", whisper_names()}, {"SDXL", sdxl_names()}};
}

}  // namespace weightfs::test
