// Models of the first screen: their tensors as published, their facts built by hand.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "report/info/subject.h"
#include "tests/builders/named_tensors.h"

namespace weightfs::test {

/// A model with its facts, as `weightfs info` summarises it.
struct Summarised {
  Model model;
  summary::Summary summary;
  std::vector<summary::Counted> counted;
  std::string source = "model";

  info::Subject subject() const { return {model, summary, counted, source}; }

  /// A file of this size without bytes.
  void add_part(std::string path, uint64_t size) {
    model.parts.push_back({std::move(path), Later<SourcePtr>::of(std::make_shared<CountedSource>("", size))});
  }
  void add_metadata(size_t entries) {
    for (size_t i = model.metadata.size(); i < entries; ++i) model.metadata.append(fmt::format("key{}", i), i);
  }
};

inline Summarised summarised(NamedTensors tensors) {
  Summarised out;
  out.model.tensors = std::move(tensors.tensors);
  out.counted = std::move(tensors.counted);
  return out;
}

inline Summarised llama_gguf_summary(size_t readable = 291) {
  Summarised out = summarised(llama_8b_gguf(readable));
  out.source = "models/Llama-3.1-8B-Instruct-Q4_K_M.gguf";
  out.model.format = "gguf";
  out.model.version = "3";
  out.add_part("Llama-3.1-8B-Instruct-Q4_K_M.gguf", 4'920'739'232);
  out.add_metadata(33);
  summary::Summary& s = out.summary;
  s.kind = "causal-lm";
  s.name = "Llama 3.1 8B Instruct";
  s.architecture = "llama";
  s.parameters = 8'030'261'248;
  s.parameters_embedding = s.parameters_head = 525'336'576;
  s.weight_bytes = 4'912'898'048;
  s.bits_per_weight = 4.89;
  s.dtype = "q4_k";
  s.quantisation = summary::Quantisation{"Q4_K_M", "gguf", {}, {}, "", false};
  s.layers = 32;
  s.hidden_size = 4096;
  s.ffn_size = 14336;
  s.heads = 32;
  s.kv_heads = 8;
  s.head_dim = 128;
  s.attention = "GQA";
  s.context_length = 131072;
  s.rope = {"llama3", 8.0, 8192, 500'000.0};
  s.vocabulary_size = 128256;
  s.tokenizer = "BPE";
  s.has_chat_template = s.template_has_tools = true;
  s.tied_embeddings = false;
  s.kv_cache = summary::KvCache{131'072, uint64_t{16} << 30, {}};
  s.license = "llama3.1";
  s.base_models = {"meta-llama/Llama-3.1-8B-Instruct"};
  s.weight_files = {"Llama-3.1-8B-Instruct-Q4_K_M.gguf"};
  return out;
}

/// That file after an interrupted download.
inline Summarised cut_gguf_summary() {
  Summarised out = llama_gguf_summary(158);
  constexpr uint64_t kMissing = 2'264'924'160;
  out.model.parts.clear();
  out.add_part("Llama-3.1-8B-Instruct-Q4_K_M.gguf", 4'920'739'232 - kMissing);
  Lacks& lacks = out.model.lacks.edit();
  lacks.short_by = kMissing;
  lacks.by_code[static_cast<size_t>(Code::corrupt)] = {133, "the file is cut"};
  return out;
}

inline Summarised qwen3_summary() {
  Summarised out = summarised(qwen3_30b());
  out.source = "hf://Qwen/Qwen3-30B-A3B";
  out.model.format = "safetensors";
  ChosenFiles& chosen = out.model.chosen.edit();
  for (int shard = 1; shard <= 16; ++shard)
    chosen.weight_files.push_back(fmt::format("model-{:05}-of-00016.safetensors", shard));
  out.add_metadata(41);
  summary::Summary& s = out.summary;
  s.kind = "causal-lm";
  s.name = "Qwen3-30B-A3B";
  s.architecture = "qwen3_moe";
  s.parameters = 30'532'122'624;
  s.parameters_active = 3'353'032'704;
  s.parameters_embedding = s.parameters_head = 311'164'928;
  s.weight_bytes = 61'064'245'248;
  s.bits_per_weight = 16;
  s.dtype = "bfloat16";
  s.layers = 48;
  s.hidden_size = 2048;
  s.ffn_size = 6144;
  s.heads = 32;
  s.kv_heads = 4;
  s.head_dim = 128;
  s.attention = "GQA";
  s.experts = 128;
  s.experts_used = 8;
  s.expert_ffn_size = 768;
  s.context_length = 40960;
  s.rope.base = 1'000'000;
  s.vocabulary_size = 151936;
  s.tokenizer = "BPE";
  s.has_chat_template = s.template_has_tools = s.template_has_thinking = true;
  s.kv_cache = summary::KvCache{98'304, uint64_t{98'304} * 40960, {}};
  s.license = "apache-2.0";
  s.base_models = {"Qwen/Qwen3-30B-A3B-Base"};
  s.weight_files = chosen.weight_files;
  s.alternatives = {{"Qwen3-30B-A3B-Q4_K_M.gguf", "gguf", 18'556'686'912}, {"onnx/model.onnx", "onnx", 61'000'000'000}};
  return out;
}

/// MobileNetV2 of ONNX, of which all blocks have different shapes.
inline Summarised mobilenet_summary() {
  NamedTensors tensors;
  const auto add = [&tensors](const std::string& name, Shape shape) {
    const uint64_t out = shape.front();
    tensors.add(name + ".weight", "float32", std::move(shape)).add(name + ".bias", "float32", {out});
  };
  constexpr uint64_t kChannels[] = {32, 16, 24, 24, 32, 32, 32, 64, 64, 64, 64, 96, 96, 96, 160, 160, 160, 320};
  add("features.0.0", {32, 3, 3, 3});
  for (uint64_t block = 1; block < 18; ++block) {
    const std::string name = fmt::format("features.{}.conv.", block);
    const uint64_t in = kChannels[block - 1], hidden = block == 1 ? in : 6 * in;
    if (block > 1) add(name + "0.0", {hidden, in, 1, 1});
    add(name + (block > 1 ? "1.0" : "0.0"), {hidden, 1, 3, 3});
    add(name + (block > 1 ? "2" : "1"), {kChannels[block], hidden, 1, 1});
  }
  add("features.18.0", {1280, 320, 1, 1});
  add("classifier.1", {1000, 1280});
  Summarised out = summarised(std::move(tensors));
  out.source = "models/mobilenetv2.onnx";
  out.model.format = "onnx";
  out.model.version = "IR 8";
  out.add_part("mobilenetv2.onnx", 13'964'571);
  out.model.documents.push_back({"graph.json", Later<SourcePtr>::of(in_memory("{}"))});
  summary::Summary& s = out.summary;
  s.kind = "graph";
  s.producer = "pytorch 2.4";
  s.parameters = 0;
  for (const summary::Counted& one : out.counted) *s.parameters += one.elements;
  s.weight_bytes = 4 * *s.parameters;
  s.bits_per_weight = 32;
  s.dtype = "float32";
  s.inputs = {"input float32 [batch_size,3,224,224]"};
  s.outputs = {"output float32 [batch_size,1000]"};
  s.operators = {{"Conv", 52}, {"Clip", 35}, {"Add", 10}, {"Flatten", 1}, {"Gemm", 1}, {"GlobalAveragePool", 1}};
  s.opset = "17";
  s.weight_files = {"mobilenetv2.onnx"};
  return out;
}

inline Summarised lora_summary() {
  Summarised out = summarised(llama_lora());
  out.source = "llama-3.1-8b-support-lora/";
  out.model.format = "safetensors";
  out.model.chosen.edit().weight_files = {"adapter_model.safetensors"};
  out.add_part("adapter_model.safetensors", 27'280'152);
  out.add_part("optimizer.pt", 54'631'178);
  for (int i = 0; i < 10; ++i) out.add_part(fmt::format("file{}.json", i), 20'000);
  out.add_metadata(1);
  summary::Summary& s = out.summary;
  s.kind = "adapter";
  s.parameters = 6'815'744;
  s.weight_bytes = 27'262'976;
  s.bits_per_weight = 32;
  s.dtype = "float32";
  s.layers = 32;
  s.base_models = {"meta-llama/Llama-3.1-8B"};
  s.adapter =
      summary::Adapter{"LORA", 16, "", 32.0, false, {"q_proj", "v_proj"}, "meta-llama/Llama-3.1-8B", "CAUSAL_LM"};
  s.weight_files = {"adapter_model.safetensors"};
  s.training_state = {{"optimizer.pt", "", 54'631'178},
                      {"scheduler.pt", "", 1'064},
                      {"rng_state.pth", "", 14'244},
                      {"training_args.bin", "", 5'432}};
  s.training_steps = 500;
  return out;
}

}  // namespace weightfs::test
