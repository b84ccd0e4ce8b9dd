#include "formats/summary/facts/gguf_facts.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "base/text.h"
#include "formats/gguf/types.h"
#include "formats/summary/facts/card.h"
#include "formats/summary/facts/gguf_cache.h"

namespace weightfs::summary {
namespace {

constexpr uint64_t kGuessed = 1024;  // LLAMA_FTYPE_GUESSED
constexpr uint64_t kReused = 40;     // from here on, forks use the numbers for other types

struct Named {
  std::string_view name, shown;
};

constexpr std::array kTokenizers = {Named{"llama", "SentencePiece"}, Named{"gpt2", "BPE"},  Named{"bert", "WordPiece"},
                                    Named{"t5", "Unigram"},          Named{"rwkv", "RWKV"}, Named{"plamo2", "PLaMo 2"}};

Number largest(const std::vector<uint64_t>& numbers) {
  if (numbers.empty()) return std::nullopt;
  return *std::ranges::max_element(numbers);
}

// The length of a list, which is a note of its count if it is long.
Number length_of(const Fields& keys, std::string_view key) {
  if (const List* const list = keys.list(key)) return list->size();
  return keys.object({key}).number({"count"});
}

void describe_tokenizer(const Fields& keys, Summary& out) {
  out.vocabulary_size = length_of(keys, "tokenizer.ggml.tokens");
  const std::string model = keys.text({"tokenizer.ggml.model"});
  const auto known = std::ranges::find(kTokenizers, model, &Named::name);
  if (known != kTokenizers.end())
    out.tokenizer = known->shown;
  else if (model != "no_vocab" && model != "none")
    out.tokenizer = model;
  if (!out.tokenizer.empty()) out.has_chat_template = keys.has("tokenizer.chat_template");
  if (keys.map() == nullptr) return;
  constexpr std::string_view kTemplate = "tokenizer.chat_template";
  for (const auto& [key, value] : *keys.map()) {
    if (!key.starts_with(kTemplate) || key == "tokenizer.chat_templates") continue;
    out.has_chat_template = true;
    const auto* const text = std::get_if<std::string>(&value);
    if (text != nullptr) describe_template(*text, out);
    if (key.size() > kTemplate.size() + 1 && out.chat_template_names.size() < kMaxTemplateNames)
      out.chat_template_names.push_back(key.substr(kTemplate.size() + 1));
  }
  for (const std::string& name : out.chat_template_names) out.template_has_tools |= name == "tool_use";
}

void describe_origin(const Fields& keys, Summary& out) {
  out.name = keys.text({"general.name"});
  out.license = keys.text({"general.license"});
  if (out.license == "other")
    if (std::string name = keys.text({"general.license.name"}); !name.empty()) out.license = std::move(name);
  out.tags = keys.texts("general.tags");
  out.languages = keys.texts("general.languages");
  const uint64_t bases = std::min<uint64_t>(keys.number({"general.base_model.count"}).value_or(8), 16);
  for (uint64_t i = 0; i < bases; ++i) {
    const std::string url = keys.text({fmt::format("general.base_model.{}.repo_url", i)});
    const std::string owner = keys.text({fmt::format("general.base_model.{}.organization", i)});
    const std::string name = keys.text({fmt::format("general.base_model.{}.name", i)});
    const std::string from_url = repository_in(url);
    if (!from_url.empty())
      out.base_models.push_back(from_url);
    else if (!name.empty())
      out.base_models.push_back(owner.empty() ? name : owner + "/" + name);
  }
  for (const std::string_view name :
       {"temp", "top_k", "top_p", "min_p", "xtc_probability", "xtc_threshold", "penalty_last_n", "penalty_repeat",
        "mirostat", "mirostat_tau", "mirostat_eta", "sequence"})
    if (const Value* const value = keys.find(fmt::format("general.sampling.{}", name)))
      out.generation.append(std::string(name), *value);
}

void describe_experts(const Fields& own, Summary& out) {
  out.experts = own.number({"expert_count"});
  if (out.experts.value_or(0) == 0) {
    out.experts = std::nullopt;
    return;
  }
  out.experts_used = own.number({"expert_used_count"});
  if (const Number shared = own.number({"expert_shared_count"}); shared.value_or(0) > 0) out.experts_shared = shared;
  out.expert_ffn_size = own.number({"expert_feed_forward_length"});
}

void describe_rope(const Fields& own, Summary& out) {
  out.rope.type = own.text({"rope.scaling.type"});
  if (out.rope.type == "none") out.rope.type.clear();
  out.rope.factor = own.real({"rope.scaling.factor"});
  out.rope.original_context_length = own.number({"rope.scaling.original_context_length"});
  out.rope.base = own.real({"rope.freq_base"});
}

void describe_attention(const Fields& own, const TensorList& tensors, Summary& out) {
  const uint64_t layers = out.layers.value_or(0);
  out.heads = largest(own.per_layer("attention.head_count", layers));
  out.kv_heads =
      own.has("attention.head_count_kv") ? largest(own.per_layer("attention.head_count_kv", layers)) : out.heads;
  out.head_dim = own.number({"attention.key_length_mla"});
  if (!out.head_dim) out.head_dim = own.number({"attention.key_length"});
  if (!out.head_dim && out.hidden_size && out.heads.value_or(0) > 0) out.head_dim = *out.hidden_size / *out.heads;
  out.sliding_window = own.number({"attention.sliding_window"});
  if (out.sliding_window == Number(0)) out.sliding_window = std::nullopt;
  if (own.has("attention.kv_lora_rank"))
    out.attention = "MLA";
  else if (out.heads.value_or(0) > 0 && out.kv_heads.value_or(0) > 0)
    out.attention = *out.kv_heads == *out.heads ? "MHA" : *out.kv_heads == 1 ? "MQA" : "GQA";
  else if (own.has("ssm.inner_size") || own.has("wkv.head_size"))
    out.attention = "none";
  if (out.attention == "none") out.heads = out.kv_heads = out.head_dim = std::nullopt;
  if (!own.flag("attention.causal").value_or(true) || own.has("pooling_type")) return;
  if (const auto cache = cache_by_keys(own, tensors, out)) out.kv_cache = cache->total;
}

void describe_projector(const Fields& keys, Summary& out) {
  out.image_size = keys.number({"clip.vision.image_size"});
  out.patch_size = keys.number({"clip.vision.patch_size"});
  out.layers = keys.number({"clip.vision.block_count", "clip.audio.block_count"});
  out.hidden_size = keys.number({"clip.vision.embedding_length", "clip.audio.embedding_length"});
  out.heads = keys.number({"clip.vision.attention.head_count", "clip.audio.attention.head_count"});
  out.embedding_size = keys.number({"clip.vision.projection_dim"});
}

}  // namespace

void describe_gguf(const Fields& keys, const TensorList& tensors, Summary& out) {
  out.architecture = keys.text({"general.architecture"});
  describe_origin(keys, out);
  describe_tokenizer(keys, out);
  if (out.architecture == "clip") return describe_projector(keys, out);
  const Fields own(keys.map(), "gguf", out.warnings, out.architecture + ".");
  const bool has_decoder = own.has("decoder_block_count");
  out.layers = own.number({has_decoder ? "decoder_block_count" : "block_count"});
  if (has_decoder || out.architecture == "t5") out.encoder_layers = own.number({"block_count"});
  if (const uint64_t extra = own.number({"nextn_predict_layers"}).value_or(0); out.layers && extra < *out.layers)
    *out.layers -= extra;
  out.hidden_size = own.number({"embedding_length"});
  out.ffn_size = largest(own.per_layer("feed_forward_length", out.layers.value_or(0)));
  out.context_length = own.number({"context_length"});
  if (!out.vocabulary_size) out.vocabulary_size = own.number({"vocab_size"});
  static constexpr std::array<std::string_view, 5> kPooling = {"none", "mean", "cls", "last", "rank"};
  if (const Number pooling = own.number({"pooling_type"}); pooling && *pooling < kPooling.size())
    out.pooling = kPooling[*pooling];
  describe_experts(own, out);
  describe_rope(own, out);
  describe_attention(own, tensors, out);
  if (!out.pooling.empty()) out.embedding_size = out.hidden_size;
}

namespace {

// The type with the most elements among matrices; a name of llama_ftype.
std::string guessed_name(const TensorList& tensors) {
  std::map<std::string_view, uint64_t> elements;
  bool has_q6_k = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors.shape(i).size() < 2) continue;
    const std::string_view type = tensors.dtype(i)->name;
    elements[type] = sum(elements[type], elements_of(tensors.shape(i)).value_or(0)).value_or(0);
    has_q6_k |= type == "q6_k" && tensors.name(i).starts_with("blk.");
  }
  const auto most = std::ranges::max_element(elements, {}, [](const auto& one) { return one.second; });
  if (most == elements.end()) return "";
  const std::string_view type = most->first;
  if (type == "q4_k" || type == "q5_k")
    return fmt::format("{}_K_{}", type == "q4_k" ? "Q4" : "Q5", has_q6_k ? "M" : "S");
  if (type == "q3_k") return "Q3_K_M";
  if (type == "mxfp4") return "MXFP4_MOE";
  if (type == "float32" || type == "float16") return type == "float32" ? "F32" : "F16";
  if (type == "bfloat16") return "BF16";
  return upper_case(type);
}

bool has_type_named(const TensorList& tensors, std::string_view file_type) {
  const std::string type = lower_case(file_type);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors.dtype(i)->name == type) return true;
  return false;
}

bool is_letter(char c) { return c >= 'A' && c <= 'Z'; }
bool is_alphanumeric(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }

// The length of a name of a file type at the begin of `text`, with the letters that publishers add: Q4_K_XL.
size_t label_length(std::string_view text) {
  static const std::vector<std::string> stems = [] {
    std::vector<std::string> out = {"MXFP4"};
    for (const std::string_view name : gguf::file_type_names()) {
      out.emplace_back(name);
      if (name.find("_K_") != name.npos) out.emplace_back(name.substr(0, name.rfind('_')));
    }
    std::ranges::sort(out, std::greater{}, &std::string::size);
    return out;
  }();
  const auto stem = std::ranges::find_if(stems, [&](const std::string& name) { return text.starts_with(name); });
  if (stem == stems.end()) return 0;
  size_t end = stem->size();
  if (end + 1 < text.size() && text[end] == '_' && is_letter(text[end + 1]))
    for (++end; end < text.size() && is_letter(text[end]);) ++end;
  return end == text.size() || !is_alphanumeric(text[end]) ? end : 0;
}

// The publisher's name of the quantisation in a file's name, such as UD-Q4_K_XL: the last one there.
std::string label_in(std::string_view file_name) {
  const std::string name = upper_case(file_name.substr(0, 1000));
  for (size_t i = name.size(); i-- > 0;) {
    if (i > 0 && is_alphanumeric(name[i - 1])) continue;
    const size_t length = label_length(std::string_view(name).substr(i));
    if (length == 0) continue;
    const bool is_dynamic = i >= 3 && name.compare(i - 3, 3, "UD-") == 0;
    return (is_dynamic ? "UD-" : "") + name.substr(i, length);
  }
  return "";
}

}  // namespace

std::optional<Quantisation> gguf_quantisation(const Fields& keys, const TensorList& tensors,
                                              std::string_view file_name) {
  Quantisation out;
  out.method = "gguf";
  if (const Number stated = keys.number({"general.file_type"})) {
    const uint64_t number = *stated & ~kGuessed;
    const std::string_view name = gguf::file_type_name(number);
    out.name = name.empty() ? fmt::format("file type {}", number) : std::string(name);
    out.is_guessed = (*stated & kGuessed) != 0;
    const bool may_be_another = !name.empty() && number >= kReused && number < 100;
    if (may_be_another && !has_type_named(tensors, out.name)) out.name.clear();
  }
  if (out.name.empty()) {
    out.name = guessed_name(tensors);
    out.is_guessed = true;
    if (out.name.empty()) return std::nullopt;
  }
  if (const std::string label = label_in(file_name); label != out.name) out.label = label;
  return out;
}

}  // namespace weightfs::summary
