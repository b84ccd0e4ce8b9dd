#include "formats/summary/tensors/tensor_name.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/text.h"
#include "formats/names/architecture.h"
#include "formats/summary/fields.h"

namespace weightfs::summary {
namespace {

constexpr size_t kMaxComponents = 32;  // the others are not looked at

constexpr auto kBlockNames =
    std::to_array<std::string_view>({"layers", "blk", "h", "blocks", "layer", "block", "transformer_blocks"});
constexpr auto kEmbeddings =
    std::to_array<std::string_view>({"embed_tokens", "token_embd", "wte", "word_embeddings", "shared", "embed_in"});
// Inputs that are no matrix of the tokens; all are looked up, not multiplied.
constexpr auto kLookups =
    std::to_array<std::string_view>({"position_embd", "token_types", "per_layer_token_embd", "embed_tokens_per_layer"});
constexpr auto kVision = std::to_array<std::string_view>(
    {"vision_tower", "vision_model", "visual", "image_encoder", "multi_modal_projector", "mm_projector", "connector"});
constexpr auto kAudio = std::to_array<std::string_view>({"audio_tower", "audio_encoder"});
// Short names have this meaning in GGUF only.
constexpr auto kShortVision = std::to_array<std::string_view>({"v", "mm"});
constexpr std::string_view kShortAudio = "a";
constexpr auto kPackedWeights = std::to_array<std::string_view>({"qweight", "q_weight"});
constexpr auto kHeads = std::to_array<std::string_view>({"lm_head", "embed_out", "output", "proj_out"});

// The components of a name, which `.` and `/` separate.
class Components {
 public:
  explicit Components(std::string_view name) {
    size_t begin = 0;
    for (size_t i = 0; i <= name.size() && count_ < kMaxComponents; ++i) {
      if (i < name.size() && name[i] != '.' && name[i] != '/') continue;
      all_[count_++] = name.substr(begin, i - begin);
      begin = i + 1;
    }
  }

  size_t size() const { return count_; }
  std::string_view operator[](size_t i) const { return all_[i]; }
  /// The i-th from the end, from 0; empty if there is none.
  std::string_view from_end(size_t i) const { return i < count_ ? all_[count_ - 1 - i] : std::string_view(); }

 private:
  std::array<std::string_view, kMaxComponents> all_;
  size_t count_ = 0;
};

bool is_decimal(char c) { return c >= '0' && c <= '9'; }

// The index of the first component that is not a wrapper of the model.
size_t first_part(const Components& name) {
  size_t at = 0;
  while (at + 1 < name.size() && (name[at] == "model" || name[at] == "base_model" || name[at] == "transformer")) ++at;
  return at;
}

// Numbers after a component: of the outermost block, and of experts.
void find_numbers(const Components& name, TensorName& out) {
  for (size_t i = 1; i < name.size(); ++i) {
    if (name[i].empty() || !is_decimal(name[i].front())) continue;
    const auto number = parse_number<uint32_t>(name[i]);
    if (!number || *number >= TensorName::kNone) continue;
    if (out.layer == TensorName::kNone && is_in(name[i - 1], kBlockNames)) out.layer = *number;
    if (out.expert == TensorName::kNone && name[i - 1] == "experts") out.expert = *number;
  }
}

bool is_stack(const Components& name) {
  for (size_t i = 0; i < 2; ++i)
    if (name.from_end(i).ends_with("_exps")) return true;
  for (size_t i = 0; i < 2; ++i)  // gpt-oss as OpenAI publishes it: mlp1_weight.blocks
    if (name.from_end(i).starts_with("mlp1_") || name.from_end(i).starts_with("mlp2_")) return true;
  for (size_t i = 0; i < 2; ++i)
    if (name.from_end(i + 1) == "experts")
      return name.from_end(i).starts_with("gate_up_proj") || name.from_end(i).starts_with("down_proj");
  return false;
}

// Whether attention is that of a decoder to what it has written.
bool is_of_decoder(const Components& name) {
  if (name.from_end(2) != "self_attn") return false;
  for (size_t i = 0; i < name.size(); ++i)
    if (name[i] == "encoder") return false;
  return true;
}

// What is usual, for names that the table does not have.
TensorName parse_usual_name(const Components& components, bool is_ggml) {
  TensorName out;
  const std::string_view part = components[first_part(components)];
  out.is_vision = is_in(part, kVision) || (is_ggml && is_in(part, kShortVision));
  out.is_audio = is_in(part, kAudio) || (is_ggml && part == kShortAudio);
  out.is_predictor = part == "mtp";
  find_numbers(components, out);
  out.is_stacked = is_stack(components);
  const std::string_view module = components.from_end(1);
  out.is_lookup = is_in(module, kLookups);
  const std::string_view last = components.from_end(0);
  if (last != "weight" && !is_in(last, kPackedWeights)) return out;
  out.is_embedding = out.is_text() && is_in(module, kEmbeddings);
  if (last != "weight") return out;
  const bool is_prediction = module == "decoder" && components.from_end(2) == "predictions";  // BERT
  out.is_head = out.is_text() && (is_in(module, kHeads) || is_prediction);
  const bool is_gate = module == "up_proj" || module == "gate_proj";
  out.is_ffn = module == "ffn_up" || (is_gate && components.from_end(2) == "mlp");
  out.is_query_norm = module == "q_norm";
  out.is_keys = module == (is_ggml ? "attn_k" : "k_proj") && (is_ggml || is_of_decoder(components));
  out.is_latent = is_ggml && module == "attn_kv_a_mqa";
  return out;
}

// What a row of the table says of a tensor.
TensorName by_row(const mapping::NameIndex::Found& found, std::string_view last) {
  using mapping::TensorPart;
  TensorName out;
  out.layer = found.block.value_or(TensorName::kNone);
  out.expert = found.expert.value_or(TensorName::kNone);
  out.is_stacked = found.part == TensorPart::expert && !found.expert;
  out.is_lookup = found.part == TensorPart::lookup;
  const bool is_weight = last == "weight";
  out.is_embedding = found.part == TensorPart::embedding && (is_weight || is_in(last, kPackedWeights));
  out.is_head = is_weight && found.part == TensorPart::head;
  out.is_ffn = is_weight && found.part == TensorPart::feed_forward_in;
  out.is_query_norm = is_weight && found.part == TensorPart::query_norm;
  out.is_keys = is_weight && found.part == TensorPart::keys;
  out.is_latent = is_weight && found.part == TensorPart::latent;
  return out;
}

const mapping::Architecture* architecture_of(const Summary& known, bool is_ggml) {
  return is_ggml ? mapping::architecture_named(known.architecture)
                 : mapping::architecture_of_class(known.architecture_class);
}

bool has_word(std::string_view name, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return name.find(word) != name.npos; });
}

}  // namespace

NameParser::NameParser(const Model& model, const Summary& known) : NameParser(known, gguf_keys_of(model) != nullptr) {}

NameParser::NameParser(const Summary& known, bool is_ggml) : is_ggml_(is_ggml) {
  if (const auto* const architecture = architecture_of(known, is_ggml); architecture != nullptr)
    table_.emplace(*architecture, is_ggml ? mapping::NameForm::gguf : mapping::NameForm::hub);
}

TensorName NameParser::parse(std::string_view name) const {
  if (table_)
    if (const auto found = table_->find(name)) return by_row(*found, last_component(name));
  return parse_usual_name(Components(name), is_ggml_);
}

std::optional<mapping::TensorPart> NameParser::part_in_table(std::string_view name) const {
  const auto found = table_ ? table_->find(name) : std::nullopt;
  return found ? std::optional(found->part) : std::nullopt;
}

bool NameParser::is_head(std::string_view name) const {
  if (const auto part = part_in_table(name)) return *part == mapping::TensorPart::head;
  const std::string lower = lower_case(name);
  return has_word(lower, {"lm_head", "output.weight", "output.bias"}) || lower.starts_with("head.");
}

bool NameParser::is_expert(std::string_view name) const {
  const auto part = part_in_table(name);
  return part ? *part == mapping::TensorPart::expert : has_word_of_experts(name);
}

mapping::TensorPart part_by_words(std::string_view name) {
  using mapping::TensorPart;
  const std::string lower = lower_case(name);
  if (has_word(lower, {"shared_expert_gate", "ffn_gate_inp"})) return TensorPart::router;
  if (has_word(lower, {"exps", "expert"})) return TensorPart::expert;
  if (has_word(lower, {"shexp"})) return TensorPart::shared_expert;
  if (has_word(lower, {"norm", "ln_", "layernorm", ".ln"})) return TensorPart::norm;
  if (has_word(lower, {"attn", "attention", "q_proj", "k_proj", "v_proj", "o_proj", "qkv"}))
    return TensorPart::attention;
  if (has_word(lower, {"ffn", "mlp", "feed_forward", "gate_proj", "up_proj", "down_proj", ".fc", "intermediate"}))
    return TensorPart::feed_forward;
  if (has_word(lower, {"embd", "embed", "wte", "wpe"})) return TensorPart::embedding;
  return has_word(lower, {"lm_head"}) || lower.starts_with("output.") ? TensorPart::head : TensorPart::other;
}

bool has_word_of_experts(std::string_view name) { return has_word(name, {"experts", "_exps"}); }

std::optional<std::string_view> expert_in(std::string_view name) {
  constexpr std::string_view kExperts = "experts";
  const size_t at = name.find(kExperts);
  if (at == name.npos || at + kExperts.size() + 1 >= name.size()) return std::nullopt;
  const size_t begin = at + kExperts.size() + 1;
  const size_t end = std::min(name.find_first_of("./", begin), name.size());
  const std::string_view number = name.substr(begin, end - begin);
  return !number.empty() && number.find_first_not_of("0123456789") == number.npos ? std::optional(number)
                                                                                  : std::nullopt;
}

bool is_in(std::string_view text, std::span<const std::string_view> texts) {
  return std::ranges::find(texts, text) != texts.end();
}

std::string_view last_component(std::string_view name) {
  size_t begin = name.size();
  while (begin > 0 && name[begin - 1] != '.' && name[begin - 1] != '/') --begin;
  return name.substr(begin);
}

std::string_view parent_of(std::string_view name) {
  return name.substr(0, name.size() - std::min(name.size(), last_component(name).size() + 1));
}

bool has_component(std::string_view name, std::string_view component) {
  for (size_t at = name.find(component); at != name.npos; at = name.find(component, at + 1)) {
    const size_t end = at + component.size();
    const auto is_border = [&](size_t i) { return name[i] == '.' || name[i] == '/'; };
    if ((at == 0 || is_border(at - 1)) && (end == name.size() || is_border(end))) return true;
  }
  return false;
}

bool ends_with_components(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  const size_t at = name.size() - suffix.size();
  return at == 0 || name[at - 1] == '.' || name[at - 1] == '/';
}

}  // namespace weightfs::summary
