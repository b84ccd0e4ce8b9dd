// The fields of a summary under their stable names (docs/summary.md).
#include <cmath>

#include "formats/summary/summary.h"

namespace weightfs::summary {
namespace {

void put(Map& out, const char* key, const std::string& text) {
  if (!text.empty()) out.append(key, text);
}

void put(Map& out, const char* key, Number number) {
  if (number) out.append(key, *number);
}

void put(Map& out, const char* key, std::optional<bool> flag) {
  if (flag) out.append(key, *flag);
}

void put(Map& out, const char* key, const std::vector<std::string>& texts) {
  if (!texts.empty()) out.append(key, List(texts.begin(), texts.end()));
}

void put(Map& out, const char* key, Map map) {
  if (!map.empty()) out.append(key, std::move(map));
}

// A number without a fraction is an integer: alpha is 16, not 16.0.
void put_plain(Map& out, const char* key, std::optional<double> number) {
  if (!number) return;
  const bool is_whole = std::trunc(*number) == *number && std::abs(*number) <= 9e15;
  out.append(key, is_whole ? Value(static_cast<int64_t>(*number)) : Value(*number));
}

Map quantisation_map(const Quantisation& from) {
  Map out;
  put(out, "name", from.name);
  put(out, "method", from.method);
  put(out, "bits", from.bits);
  put(out, "group_size", from.group_size);
  put(out, "label", from.label);
  if (from.is_guessed) out.append("guessed", true);
  return out;
}

Map rope_map(const Rope& from) {
  Map out;
  put(out, "type", from.type);
  put_plain(out, "factor", from.factor);
  put(out, "original_context_length", from.original_context_length);
  put_plain(out, "base", from.base);
  return out;
}

Map cache_map(const KvCache& from) {
  Map out;
  out.append("bytes_per_token", from.bytes_per_token);
  put(out, "bytes_at_context", from.bytes_at_context);
  put(out, "recurrent_state_bytes", from.recurrent_state_bytes);
  out.append("dtype", "float16");
  return out;
}

Map adapter_map(const Adapter& from) {
  Map out;
  put(out, "method", from.method);
  put(out, "rank", from.rank);
  put_plain(out, "alpha", from.alpha);
  put(out, "target_modules", from.target_modules);
  put(out, "base_model", from.base_model);
  put(out, "task", from.task);
  put(out, "base_version", from.base_version);
  put(out, "trigger_phrase", from.trigger_phrase);
  put(out, "tags", from.tags);
  return out;
}

List files_list(const std::vector<Alternative>& files) {
  List out;
  for (const Alternative& file : files) {
    Map entry;
    entry.append("path", file.path);
    put(entry, "format", file.format);
    entry.append("bytes", file.bytes);
    out.emplace_back(std::move(entry));
  }
  return out;
}

List components_list(const std::vector<Component>& components) {
  List out;
  for (const Component& component : components) {
    Map entry;
    entry.append("name", component.name);
    put(entry, "class", component.class_name);
    put(entry, "parameters", component.parameters);
    entry.append("bytes", component.bytes);
    out.emplace_back(std::move(entry));
  }
  return out;
}

void put_parameters(Map& out, const Summary& from) {
  put(out, "parameters", from.parameters);
  put(out, "parameters_active", from.parameters_active);
  put(out, "parameters_embedding", from.parameters_embedding);
  put(out, "parameters_head", from.parameters_head);
  put(out, "parameters_mtp", from.parameters_mtp);
  put(out, "parameters_vision", from.parameters_vision);
  put(out, "parameters_audio", from.parameters_audio);
  put(out, "buffer_elements", from.buffer_elements);
  put(out, "optimizer_elements", from.optimizer_elements);
  if (from.weight_bytes > 0) out.append("weight_bytes", from.weight_bytes);
  if (from.bits_per_weight) out.append("bits_per_weight", std::round(*from.bits_per_weight * 100) / 100);
  put(out, "dtype", from.dtype);
  if (from.quantisation) out.append("quantization", quantisation_map(*from.quantisation));
}

void put_architecture(Map& out, const Summary& from) {
  put(out, "layers", from.layers);
  put(out, "encoder_layers", from.encoder_layers);
  put(out, "hidden_size", from.hidden_size);
  put(out, "heads", from.heads);
  put(out, "kv_heads", from.kv_heads);
  put(out, "head_dim", from.head_dim);
  put(out, "ffn_size", from.ffn_size);
  put(out, "attention", from.attention);
  put(out, "sliding_window", from.sliding_window);
  put(out, "experts", from.experts);
  put(out, "experts_used", from.experts_used);
  put(out, "experts_shared", from.experts_shared);
  put(out, "expert_ffn_size", from.expert_ffn_size);
  put(out, "context_length", from.context_length);
  put(out, "rope", rope_map(from.rope));
  put(out, "vocabulary_size", from.vocabulary_size);
  put(out, "tokenizer", from.tokenizer);
  put(out, "chat_template", from.has_chat_template);
  put(out, "chat_template_names", from.chat_template_names);
  put(out, "tied_embeddings", from.tied_embeddings);
  if (from.kv_cache) out.append("kv_cache", cache_map(*from.kv_cache));
  put(out, "embedding_size", from.embedding_size);
  put(out, "pooling", from.pooling);
  put(out, "labels", from.labels);
  put(out, "image_size", from.image_size);
  put(out, "patch_size", from.patch_size);
}

}  // namespace

Map to_map(const Summary& from) {
  Map out;
  out.append("kind", from.kind);
  put(out, "name", from.name);
  put(out, "architecture", from.architecture);
  put(out, "architecture_class", from.architecture_class);
  put(out, "family", from.family);
  put_parameters(out, from);
  put_architecture(out, from);
  put(out, "inputs", from.inputs);
  put(out, "outputs", from.outputs);
  Map operators;
  for (const Operator& one : from.operators) operators.append(one.name, one.count);
  put(out, "operators", std::move(operators));
  put(out, "generation", from.generation);
  put(out, "license", from.license);
  if (from.base_models.size() == 1)
    out.append("base_model", from.base_models.front());
  else
    put(out, "base_model", from.base_models);
  put(out, "tags", from.tags);
  put(out, "languages", from.languages);
  put(out, "repository", from.repository);
  put(out, "commit", from.commit);
  if (from.adapter) out.append("adapter", adapter_map(*from.adapter));
  if (!from.components.empty()) out.append("components", components_list(from.components));
  put(out, "projector", from.projector);
  put(out, "weight_files", from.weight_files);
  if (!from.alternatives.empty()) out.append("alternatives", files_list(from.alternatives));
  List training;
  for (const Alternative& file : from.training_state) training.emplace_back(file.path);
  if (!training.empty()) out.append("training_state", std::move(training));
  put(out, "warnings", from.warnings);
  return out;
}

}  // namespace weightfs::summary
