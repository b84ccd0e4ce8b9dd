#include "formats/summary/tensors/totals.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace weightfs::summary {
namespace {

constexpr std::array<std::string_view, 7> kBlocks = {
    "layers", "blk", "h", "blocks", "layer", "block", "transformer_blocks"};
constexpr std::array<std::string_view, 6> kEmbeddings = {"embed_tokens",    "token_embd", "wte",
                                                         "word_embeddings", "shared",     "embed_in"};
constexpr std::array<std::string_view, 7> kVision = {
    "vision_tower", "vision_model", "visual", "image_encoder", "multi_modal_projector", "mm_projector", "connector"};
constexpr std::array<std::string_view, 2> kAudio = {"audio_tower", "audio_encoder"};
constexpr std::array<std::string_view, 5> kHeads = {"lm_head.weight", "embed_out.weight", "output.weight",
                                                    "cls.predictions.decoder.weight", "proj_out.weight"};

bool is_in(std::string_view text, const auto& names) { return std::ranges::find(names, text) != names.end(); }

std::string_view first_component(std::string_view name) { return name.substr(0, name.find_first_of("./")); }

// The first component that is not a wrapper.
std::string_view part_in(std::string_view name) {
  for (const std::string_view wrapper : {"model.", "base_model.model.", "transformer."})
    if (name.starts_with(wrapper)) name.remove_prefix(wrapper.size());
  return first_component(name);
}

bool is_vision(std::string_view name) {
  const std::string_view part = part_in(name);
  return is_in(part, kVision) || part == "v" || part == "mm";
}
bool is_audio(std::string_view name) {
  const std::string_view part = part_in(name);
  return is_in(part, kAudio) || part == "a";
}
bool is_text(std::string_view name) { return !is_vision(name) && !is_audio(name); }

bool is_embedding(std::string_view name, ShapeView shape) {
  if (shape.size() != 2 || !is_text(name)) return false;
  const std::string_view last = last_component(name);
  if (last != "weight" && last != "qweight") return false;
  return is_in(last_component(name.substr(0, name.size() - last.size() - 1)), kEmbeddings);
}

bool is_head(std::string_view name) {
  return is_text(name) &&
         std::ranges::any_of(kHeads, [&](std::string_view head) { return ends_with_components(name, head); });
}

bool is_mtp(std::string_view name, Number layers) {
  if (part_in(name) == "mtp" || first_component(name) == "mtp") return true;
  const Number layer = layer_in(name);
  return layers && layer && *layer >= *layers && is_text(name);
}

// Whether a tensor is of an expert that only some tokens are routed to.
bool is_routed(std::string_view name, ShapeView shape, Number experts) {
  const bool is_stacked = experts && !shape.empty() && shape[0] == *experts;
  const size_t at = name.find("experts.");
  if (at != name.npos && (at == 0 || name[at - 1] == '.' || name[at - 1] == '/')) {
    const std::string_view rest = name.substr(at + std::string_view("experts.").size());
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') return true;
    if (is_stacked && (rest.starts_with("gate_up_proj") || rest.starts_with("down_proj"))) return true;
  }
  return is_stacked && (name.find("_exps.") != name.npos || name.ends_with("_exps"));
}

void add(Number& to, uint64_t elements) { to = sum(to.value_or(0), elements); }

}  // namespace

Number layer_in(std::string_view name) {
  bool is_after_block = false;
  for (std::string_view rest = name; !rest.empty();) {
    const std::string_view component = first_component(rest);
    if (is_after_block)
      if (const auto index = parse_number<uint64_t>(component)) return *index <= kMaxNumber ? Number(*index) : Number();
    is_after_block = is_in(component, kBlocks);
    rest.remove_prefix(std::min(rest.size(), component.size() + 1));
  }
  return std::nullopt;
}

Shapes shapes_of(const TensorList& tensors, const std::vector<Counted>& counted) {
  Shapes out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string_view name = tensors.name(i);
    const ShapeView shape = tensors.shape(i);
    if (!is_text(name)) continue;
    if (const Number layer = layer_in(name)) out.layers = std::max(out.layers.value_or(0), *layer + 1);
    out.has_head |= is_head(name);
    if (is_embedding(name, shape)) {
      out.has_embedding = true;
      if (!out.vocabulary_size && shape[0] > 0 && counted[i].role == Role::parameter) {
        out.vocabulary_size = shape[0];
        out.hidden_size = counted[i].elements / shape[0];
      }
    }
    const bool is_ffn = ends_with_components(name, "mlp.up_proj.weight") ||
                        ends_with_components(name, "mlp.gate_proj.weight") ||
                        ends_with_components(name, "ffn_up.weight");
    if (is_ffn && shape.size() == 2 && !out.ffn_size) out.ffn_size = shape[0];
    if (ends_with_components(name, "q_norm.weight") && shape.size() == 1) out.head_dim = shape[0];
    const size_t expert = name.find(".experts.");
    if (expert != name.npos)
      if (const auto index = parse_number<uint64_t>(first_component(name.substr(expert + 9)));
          index && *index < kMaxNumber)
        out.experts = std::max(out.experts.value_or(0), *index + 1);
  }
  return out;
}

void find_tied(const TensorList& tensors, std::optional<bool> tied, std::vector<Counted>& counted, Summary& out) {
  size_t embedding = tensors.size();
  size_t shared = tensors.size();
  bool has_own_head = false;
  const auto is_same = [&](size_t i, size_t j) {
    return tensors.shape(i) == tensors.shape(j) && tensors.dtype(i) == tensors.dtype(j);
  };
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!is_embedding(tensors.name(i), tensors.shape(i))) continue;
    if (embedding == tensors.size()) embedding = i;
    if (ends_with_components(tensors.name(i), "shared.weight")) shared = i;
  }
  const bool is_shared = shared != tensors.size();
  if (is_shared) embedding = shared;
  for (size_t i = 0; i < tensors.size() && embedding != tensors.size(); ++i) {
    const std::string_view name = tensors.name(i);
    const bool is_copy = is_shared && i != shared && is_embedding(name, tensors.shape(i)) && is_same(i, shared);
    const bool is_tied_head =
        is_head(name) && is_same(i, embedding) && (is_shared ? tied.value_or(true) : tied.value_or(false));
    if (is_copy || is_tied_head) counted[i] = {Role::duplicate, 0};
    if (is_head(name) && counted[i].role != Role::duplicate) has_own_head = true;
  }
  static constexpr std::array<std::string_view, 4> kGenerative = {"causal-lm", "encoder-decoder", "speech",
                                                                  "vision-language"};
  if (embedding != tensors.size() && is_in(out.kind, kGenerative)) out.tied_embeddings = !has_own_head;
}

void add_up(const Model& model, const Roles& roles, const std::vector<uint64_t>& experts_by_layer, Summary& out) {
  const TensorList& tensors = model.tensors;
  const bool has_mtp = out.kind == "causal-lm" || out.kind == "vision-language";
  Number parameters = 0;
  Number routed = 0;
  Number idle = 0;  // parameters of experts that a token does not use
  std::map<std::string_view, uint64_t> elements_by_type;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto [role, elements] = roles.tensors[i];
    const std::string_view name = tensors.name(i);
    if (role == Role::buffer) add(out.buffer_elements, elements);
    if (role == Role::parameter || role == Role::companion)
      out.weight_bytes = sum(out.weight_bytes, listed_bytes(tensors, i)).value_or(out.weight_bytes);
    if (role != Role::parameter) continue;
    parameters = sum(parameters, elements);
    uint64_t& of_type = elements_by_type[tensors.dtype(i)->name];
    of_type = sum(of_type, elements).value_or(of_type);
    if (is_vision(name) && out.kind != "vision") add(out.parameters_vision, elements);
    if (is_audio(name)) add(out.parameters_audio, elements);
    if (is_embedding(name, tensors.shape(i))) add(out.parameters_embedding, elements);
    if (is_head(name)) add(out.parameters_head, elements);
    if (has_mtp && is_mtp(name, out.layers)) {
      add(out.parameters_mtp, elements);
    } else if (is_routed(name, tensors.shape(i), out.experts)) {
      routed = sum(routed, elements);
      const Number layer = layer_in(name);
      const uint64_t used =
          layer && *layer < experts_by_layer.size() ? experts_by_layer[*layer] : out.experts_used.value_or(0);
      if (out.experts && used <= *out.experts) idle = sum(idle, elements / *out.experts * (*out.experts - used));
    }
  }
  if (const auto most = std::ranges::max_element(elements_by_type, {}, [](const auto& one) { return one.second; });
      most != elements_by_type.end())
    out.dtype = most->first;
  if (!roles.packing.is_complete || !parameters) return;
  out.parameters = parameters;
  if (*parameters > 0)
    out.bits_per_weight = 8.0 * static_cast<double>(out.weight_bytes) / static_cast<double>(*parameters);
  const bool knows_used = out.experts_used || !experts_by_layer.empty();
  if (out.experts && knows_used && routed.value_or(0) > 0 && idle)
    out.parameters_active = *parameters - out.parameters_mtp.value_or(0) - *idle;
}

}  // namespace weightfs::summary
