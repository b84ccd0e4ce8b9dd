#include "report/info/facts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "formats/completeness.h"
#include "formats/format.h"
#include "formats/tokenizer/texts.h"
#include "report/info/file_facts.h"

namespace weightfs::info {
namespace {

using summary::Summary;

constexpr uint64_t kUsualTokens = 8192;  // of a conversation: for the memory that a model needs
constexpr size_t kMostItems = 4;         // of inputs, outputs, languages
constexpr size_t kMostOperators = 6;
constexpr size_t kColumnsOfSettings = 240;

// The first line of a text of any length.
std::string first_line(std::string_view text, const Style& style) {
  constexpr size_t kColumns = 120;
  return cut(clean(text.substr(0, text.find('\n')), style), kColumns, style);
}

// The first line of the first text of a kind that an Ollama model has as a layer; empty if it has none.
std::string first_line_of(const Model& model, tokenizer::TextKind kind, const Style& style) {
  if (!traits_of(model.format).has_prompt_layers) return "";
  const auto texts = tokenizer::texts_of(model, kind);
  return !texts || texts->empty() ? "" : first_line(trimmed(texts->front().text), style);
}

// `stop "<|im_start|>" "<|im_end|>", temperature 0.6`.
std::string settings_text(const Map& settings) {
  constexpr size_t kMostSettings = 8;
  std::vector<std::string> items;
  for (const auto& [name, value] : settings) {
    std::string item = name;
    const auto* const list = std::get_if<List>(&value);
    if (list == nullptr) item += " " + to_json_line(value);
    for (size_t i = 0; list != nullptr && i < std::min(list->size(), kMostSettings); ++i)
      item += " " + to_json_line((*list)[i]);
    items.push_back(std::move(item));
  }
  return listed(items, kMostSettings);
}

// Writes facts in their order.
class Facts {
 public:
  Facts(const Subject& subject, const Style& style) : subject_(subject), summary_(subject.summary), style_(style) {}

  std::vector<Fact> all() && {
    add_unknown_parameters();
    add_wide("description", first_line(text_in(subject_.model.common, "description"), style_), Rank::first);
    if (summary_.adapter) add_adapter();
    add_graph();
    add_text_model();
    add_prompt();
    add_parts();
    add_licence();
    add_files();
    return std::move(facts_);
  }

 private:
  void add(std::string_view label, std::string_view value, Rank rank = Rank::other) {
    if (!value.empty()) facts_.push_back({std::string(label), clean(value, style_), rank});
  }
  void add_wide(std::string_view label, std::string_view value, Rank rank = Rank::other) {
    if (!style_.is_narrow()) add(label, value, rank);
  }

  void add_unknown_parameters();
  void add_adapter();
  void add_graph();
  void add_text_model();
  void add_context();
  void add_layers();
  void add_experts();
  void add_embeddings();
  void add_vocabulary();
  void add_cache();
  void add_prompt();
  void add_parts();
  void add_licence();
  void add_files();

  const Subject& subject_;
  const Summary& summary_;
  const Style& style_;
  std::vector<Fact> facts_;
};

// The number of parameters is missing if tensors are, or if some weights are packed in an unknown way.
void Facts::add_unknown_parameters() {
  if (summary_.parameters) return;
  for (const std::string& warning : summary_.warnings) {
    if (warning.find(": the number of parameters is ") == warning.npos) continue;
    facts_.push_back({"parameters", painted(clean(warning, style_), Paint::yellow), Rank::never});
    return;
  }
}

void Facts::add_adapter() {
  const summary::Adapter& adapter = *summary_.adapter;
  std::string rank = adapter.rank_text;
  if (rank.empty() && adapter.rank) rank = grouped(*adapter.rank);
  if (adapter.alpha) {
    rank += fmt::format("{}alpha {}", rank.empty() ? "" : ", ", decimal_text(*adapter.alpha));
    const auto divisor = static_cast<double>(adapter.rank.value_or(0));
    if (divisor > 0)
      rank += fmt::format(" (scale {})",
                          decimal_text(*adapter.alpha / (adapter.uses_rslora ? std::sqrt(divisor) : divisor)));
  }
  add("rank", rank);
  std::string targets = listed(adapter.target_modules, 12);
  if (!targets.empty() && summary_.layers) targets += fmt::format(" in {} layers", grouped(*summary_.layers));
  add("targets", targets, Rank::never);
  add_wide("task", adapter.task);
  add("trigger", adapter.trigger_phrase, Rank::never);
  if (adapter.trigger_phrase.empty() || !style_.is_narrow())
    add("tags", listed(adapter.tags, style_.is_narrow() ? 4 : 8));
}

void Facts::add_graph() {
  const size_t shown = style_.is_narrow() ? 1 : kMostItems;
  add(summary_.inputs.size() > 1 ? "inputs" : "input", listed(summary_.inputs, shown, "; "));
  add(summary_.outputs.size() > 1 ? "outputs" : "output", listed(summary_.outputs, shown, "; "));
  std::vector<std::string> operators;
  for (const auto& [name, count] : summary_.operators)
    operators.push_back(count == 1 ? name : fmt::format("{} {}", grouped(count), name));
  add("operators", listed(operators, style_.is_narrow() ? 3 : kMostOperators));
  add_wide("opset", summary_.opset);
  add("delegates", summary_.delegates);
}

void Facts::add_text_model() {
  add_context();
  add_layers();
  add_experts();
  add_embeddings();
  add_vocabulary();
  add_cache();
}

void Facts::add_context() {
  if (!summary_.context_length) return;
  const summary::Rope& rope = summary_.rope;
  std::vector<std::string> notes;
  if (rope.factor && rope.original_context_length && rope.type == "yarn")
    notes.push_back(fmt::format("yarn ×{} of {}", decimal_text(*rope.factor), grouped(*rope.original_context_length)));
  else if (!rope.type.empty() && rope.type != "default")
    notes.push_back(rope.type + " scaling");
  if (rope.base) notes.push_back("base " + decimal_text(*rope.base));
  if (summary_.sliding_window) notes.push_back("sliding window of " + grouped(*summary_.sliding_window));
  std::string text = grouped(*summary_.context_length) + " tokens";
  if (!style_.is_narrow() && !notes.empty()) text += fmt::format(" ({})", listed(notes, notes.size()));
  add("context", text);
}

void Facts::add_layers() {
  if (!summary_.layers || summary_.adapter) return;
  std::vector<std::string> parts;
  if (summary_.hidden_size) parts.push_back("hidden " + grouped(*summary_.hidden_size));
  if (summary_.ffn_size && !summary_.experts) parts.push_back("ffn " + grouped(*summary_.ffn_size));
  const bool has_groups = summary_.kv_heads && summary_.kv_heads != summary_.heads && summary_.attention != "MLA";
  const std::string of_size =
      summary_.head_dim && !style_.is_narrow() ? fmt::format(" of {}", grouped(*summary_.head_dim)) : "";
  if (summary_.heads) parts.push_back(fmt::format("{} heads{}", grouped(*summary_.heads), has_groups ? "" : of_size));
  if (has_groups)
    parts.push_back(fmt::format("{} KV{}{}", grouped(*summary_.kv_heads),
                                style_.is_narrow()        ? ""
                                : *summary_.kv_heads == 1 ? " head"
                                                          : " heads",
                                of_size));
  if (summary_.attention == "MLA") parts.push_back("MLA");
  if (summary_.attention == "none") parts.push_back("no attention");
  std::string text = grouped(*summary_.layers);
  if (summary_.encoder_layers) text += fmt::format(" + {} of the encoder", grouped(*summary_.encoder_layers));
  if (!parts.empty()) text += ": " + listed(parts, parts.size());
  add("layers", text);
}

void Facts::add_experts() {
  if (!summary_.experts) return;
  std::string text = grouped(*summary_.experts);
  if (summary_.experts_used) text += fmt::format(", {} per token", grouped(*summary_.experts_used));
  if (!style_.is_narrow() && summary_.experts_shared)
    text += fmt::format(", {} shared", grouped(*summary_.experts_shared));
  if (!style_.is_narrow() && summary_.expert_ffn_size) text += ", ffn " + grouped(*summary_.expert_ffn_size);
  add("experts", text);
  if (summary_.optimizer_elements)
    add_wide("optimizer", parameters_text(*summary_.optimizer_elements) + " elements of its state, no parameters");
  if (summary_.parameters_mtp)
    add_wide("MTP", parameters_text(*summary_.parameters_mtp) + " predict further tokens, not active");
}

void Facts::add_embeddings() {
  if (!summary_.parameters_embedding || !summary_.parameters || summary_.kind == "graph") return;
  const uint64_t input = *summary_.parameters_embedding;
  const uint64_t output = summary_.parameters_head.value_or(0);
  std::string text = parameters_text(input);
  if (output > 0) text += " + output " + parameters_text(output);
  text += fmt::format(" ({} %)", percent_text(input + output, *summary_.parameters));
  if (summary_.tied_embeddings.value_or(false)) text += ", also the output";
  add_wide("embeddings", text, Rank::embeddings);
}

void Facts::add_vocabulary() {
  std::string text = summary_.vocabulary_size ? grouped(*summary_.vocabulary_size) : "";
  if (!summary_.tokenizer.empty()) text += (text.empty() ? "" : ", ") + summary_.tokenizer;
  if (!style_.is_narrow() && summary_.has_chat_template.value_or(false)) {
    text += text.empty() ? "chat template" : "; chat template";
    if (summary_.template_has_tools) text += " with tools";
    if (summary_.template_has_thinking) text += summary_.template_has_tools ? ", thinking" : " with thinking";
  } else if (!style_.is_narrow() && summary_.has_chat_template && summary_.kind == "causal-lm") {
    text += text.empty() ? "no chat template" : "; no chat template";
  }
  if (!summary_.adapter) add("vocabulary", text);
}

// The cache of so many tokens, if it is known. Layers with a window keep no more than that.
std::optional<uint64_t> cache_of(const Summary& summary, uint64_t tokens) {
  const summary::KvCache& cache = *summary.kv_cache;
  const uint64_t context = summary.context_length.value_or(0);
  if (context > 0 && !cache.bytes_at_context && cache.bytes_per_token > 0) return std::nullopt;
  if (context > 0 && tokens >= context && cache.bytes_at_context) return cache.bytes_at_context;
  const auto state = static_cast<double>(cache.recurrent_state_bytes.value_or(0));
  const auto rate = static_cast<double>(cache.bytes_per_token);
  double bytes = rate * static_cast<double>(tokens) + state;
  const uint64_t window = cache.window.value_or(tokens);
  if (window < tokens) {
    if (context <= window || !cache.bytes_at_context) return std::nullopt;
    const auto inside = static_cast<double>(window);
    const double full = (static_cast<double>(*cache.bytes_at_context) - state - rate * inside) /
                        (static_cast<double>(context) - inside);  // bytes of a token in layers without a window
    bytes = rate * inside + full * (static_cast<double>(tokens) - inside) + state;
  }
  if (!(bytes >= 0 && bytes < 1e18)) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

void Facts::add_cache() {
  if (!summary_.kv_cache || summary_.adapter) return;
  const summary::KvCache& cache = *summary_.kv_cache;
  const uint64_t context = summary_.context_length.value_or(UINT64_MAX);
  const uint64_t tokens = std::min(context, kUsualTokens);
  const auto usual = cache_of(summary_, tokens);
  std::string text = cache.bytes_per_token == 0 ? "none" : bytes_text(cache.bytes_per_token) + " per token";
  if (!style_.is_narrow() && cache.bytes_per_token > 0) {
    text += " in f16";
    if (usual) text += fmt::format(": {} for {}", bytes_text(*usual), grouped(tokens));
    if (cache.bytes_at_context && context > kUsualTokens)
      text += fmt::format(", {} for all", bytes_text(*cache.bytes_at_context));
  }
  if (!style_.is_narrow() && cache.recurrent_state_bytes)
    text += fmt::format("; state of {}", bytes_text(*cache.recurrent_state_bytes));
  add("KV cache", text);
  if (usual && summary_.weight_bytes > 0 && has_all_tensors(subject_.model))
    add("memory",
        fmt::format("{}{}{} tokens", bytes_text(summary_.weight_bytes + *usual), style_.is_narrow() ? ", " : " with ",
                    grouped(tokens)),
        Rank::memory);
}

// What an Ollama model has besides the weights, as `ollama show` does.
void Facts::add_prompt() {
  const Model& model = subject_.model;
  add_wide("system", first_line_of(model, tokenizer::TextKind::system, style_));
  if (traits_of(model.format).has_prompt_layers)
    add_wide("settings", cut(settings_text(summary_.generation), kColumnsOfSettings, style_));
}

void Facts::add_parts() {
  std::string vision = summary_.parameters_vision ? parameters_text(*summary_.parameters_vision) : "";
  if (!summary_.projector.empty()) vision += fmt::format("{}in {}", vision.empty() ? "" : " ", summary_.projector);
  add_wide("vision", vision);
  if (summary_.parameters_audio) add_wide("audio", parameters_text(*summary_.parameters_audio));
  std::string image = summary_.image_size ? fmt::format("{0} × {0}", *summary_.image_size) : "";
  if (summary_.patch_size) image += fmt::format("{}patches of {}", image.empty() ? "" : ", ", *summary_.patch_size);
  add("image", image);
  if (summary_.labels) add("labels", grouped(*summary_.labels));
  std::string embedding = summary_.embedding_size ? grouped(*summary_.embedding_size) : "";
  if (!summary_.pooling.empty())
    embedding += fmt::format("{}pooling: {}", embedding.empty() ? "" : "; ", summary_.pooling);
  add("embedding", embedding);
  std::vector<std::string> components;
  for (const summary::Component& component : summary_.components)
    components.push_back(component.parameters
                             ? fmt::format("{} {}", component.name, parameters_text(*component.parameters))
                             : component.name);
  add("components", listed(components, 8));
  add_wide("languages", listed(summary_.languages, kMostItems), Rank::first);
}

void Facts::add_licence() {
  std::string base = listed(summary_.base_models, kMostItems);
  if (base.empty() && summary_.adapter) base = summary_.adapter->base_model;
  if (summary_.adapter && !summary_.adapter->base_version.empty())
    base += fmt::format("{}{}", base.empty() ? "" : "; version ", summary_.adapter->base_version);
  if (summary_.adapter) add("base", base, Rank::never);
  std::string licence = licence_of(subject_);
  if (licence.empty()) licence = first_line_of(subject_.model, tokenizer::TextKind::licence, style_);
  const bool can_state_one = summary_.kind != "graph" && summary_.kind != "tensors";
  add("licence", licence);
  if (licence.empty() && can_state_one) add_wide("licence", "none stated", Rank::no_licence);
  if (!summary_.adapter) add_wide("base", base, Rank::base);
}

void Facts::add_files() {
  add("training", training_text(summary_, style_));
  add_wide("repository", repository_text(subject_), Rank::repository);
  add_wide("signature", signature_text(subject_.model));
  add_wide("nested", listed(subject_.nested, kMostItems));
  for (const WarningsText& warning : warnings_texts(subject_, style_)) add(warning.label, warning.text, Rank::memory);
  if (style_.is_narrow()) return;
  const FilesText files = files_text(subject_);
  add("files", files.text, files.is_needed ? Rank::other : Rank::files);
}

}  // namespace

std::string licence_of(const Subject& subject) {
  const std::string& stated = subject.summary.license;
  return stated.empty() ? std::string(text_in(subject.model.common, "license")) : stated;
}

std::vector<Fact> facts_of(const Subject& subject, const Style& style) { return Facts(subject, style).all(); }

}  // namespace weightfs::info
