#include "formats/summary/tensors/tensor_name.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/text.h"

namespace weightfs::summary {
namespace {

constexpr size_t kMaxComponents = 32;  // the others are not looked at

constexpr auto kBlockNames =
    std::to_array<std::string_view>({"layers", "blk", "h", "blocks", "layer", "block", "transformer_blocks"});
constexpr auto kEmbeddings =
    std::to_array<std::string_view>({"embed_tokens", "token_embd", "wte", "word_embeddings", "shared", "embed_in"});
constexpr auto kVision = std::to_array<std::string_view>(
    {"vision_tower", "vision_model", "visual", "image_encoder", "multi_modal_projector", "mm_projector", "connector"});
constexpr auto kAudio = std::to_array<std::string_view>({"audio_tower", "audio_encoder"});
// Short names have this meaning in GGUF only.
constexpr auto kShortVision = std::to_array<std::string_view>({"v", "mm"});
constexpr std::string_view kShortAudio = "a";
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

}  // namespace

TensorName parse_tensor_name(std::string_view name, bool is_ggml) {
  TensorName out;
  const Components components(name);
  const std::string_view part = components[first_part(components)];
  out.is_vision = is_in(part, kVision) || (is_ggml && is_in(part, kShortVision));
  out.is_audio = is_in(part, kAudio) || (is_ggml && part == kShortAudio);
  out.is_predictor = part == "mtp";
  find_numbers(components, out);
  out.is_stacked = is_stack(components);
  const std::string_view last = components.from_end(0);
  if (last != "weight" && last != "qweight" && last != "q_weight") return out;
  const std::string_view module = components.from_end(1);
  out.is_embedding = out.is_text() && is_in(module, kEmbeddings);
  if (last != "weight") return out;
  const bool is_prediction = module == "decoder" && components.from_end(2) == "predictions";  // BERT
  out.is_head = out.is_text() && (is_in(module, kHeads) || is_prediction);
  const bool is_gate = module == "up_proj" || module == "gate_proj";
  out.is_ffn = module == "ffn_up" || (is_gate && components.from_end(2) == "mlp");
  out.is_query_norm = module == "q_norm";
  return out;
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
