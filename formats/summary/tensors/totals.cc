#include "formats/summary/tensors/totals.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"

namespace weightfs::summary {
namespace {

void add(Number& to, uint64_t elements) { to = sum(to.value_or(0), elements); }

bool is_embedding(const TensorName& name, ShapeView shape) { return name.is_embedding && shape.size() == 2; }

// Whether a tensor is of an expert that only some tokens are routed to.
bool is_routed(const TensorName& name, ShapeView shape, Number experts) {
  if (name.expert != TensorName::kNone) return true;
  return name.is_stacked && experts && !shape.empty() && shape[0] == *experts;
}

// Whether a tensor predicts further tokens.
bool is_of_predictor(const TensorName& name, const Summary& known) {
  if (known.kind != "causal-lm" && known.kind != "vision-language") return false;
  const bool has_layer = known.layers && name.layer != TensorName::kNone;
  return name.is_predictor || (has_layer && name.layer >= *known.layers && name.is_text());
}

// The parameters of one part of a model: nothing if one of them is not known.
class PartSum {
 public:
  void add(Number elements) {
    sum_ = has_any_ ? sum(sum_, elements) : elements;
    has_any_ = true;
  }
  Number get() const { return has_any_ ? sum_ : std::nullopt; }

 private:
  bool has_any_ = false;
  Number sum_;
};

// The parts of a model whose parameters are shown.
struct Parts {
  PartSum vision, audio, embedding, head, predictor;

  void add(const TensorName& name, ShapeView shape, Number elements, const Summary& known) {
    if (name.is_vision && known.kind != "vision") vision.add(elements);
    if (name.is_audio) audio.add(elements);
    if (is_of_predictor(name, known)) return;
    if (is_embedding(name, shape)) embedding.add(elements);
    if (name.is_head) head.add(elements);
  }

  void move_to(Summary& out) const {
    out.parameters_vision = vision.get();
    out.parameters_audio = audio.get();
    out.parameters_embedding = embedding.get();
    out.parameters_head = head.get();
    out.parameters_mtp = predictor.get();
  }
};

// The input embedding: the last that several modules share, else the first; and whether they share it.
std::pair<std::optional<size_t>, bool> find_embedding(const TensorList& tensors, const TensorNames& names) {
  std::optional<size_t> first, shared;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!is_embedding(names[i], tensors.shape(i))) continue;
    if (!first) first = i;
    if (ends_with_components(tensors.name(i), "shared.weight")) shared = i;
  }
  return {shared ? shared : first, shared.has_value()};
}

// A type; of those that are not known, by its spelling.
using Type = std::pair<const DType*, std::string_view>;
Type type_of(const TensorList& tensors, size_t i) {
  const DType* const dtype = tensors.dtype(i);
  return {dtype, dtype == &kUnknownDType ? tensors[i].stored_dtype : std::string_view()};
}

std::string_view most_frequent(const std::map<Type, uint64_t>& elements) {
  const auto most = std::ranges::max_element(elements, {}, [](const auto& one) { return one.second; });
  if (most == elements.end()) return "";
  const auto& [dtype, spelling] = most->first;
  return spelling.empty() ? dtype->name : spelling;
}

// Parameters of experts, by the number of experts that a token uses in their layer.
using Routed = std::map<uint64_t, Number>;

__extension__ using Wide = unsigned __int128;

uint64_t used_in_layer(uint32_t layer, const std::vector<uint64_t>& experts_by_layer, const Summary& known) {
  return layer < experts_by_layer.size() ? experts_by_layer[layer] : known.experts_used.value_or(0);
}

// Those that a token does not use: of each expert the same.
Number idle_of(const Routed& routed, uint64_t experts) {
  Number idle = 0;
  for (const auto& [used, elements] : routed) {
    if (used > experts || !elements) return std::nullopt;
    const auto unused = Wide{*elements} * (experts - used) / experts;
    idle = sum(idle, static_cast<uint64_t>(unused));
  }
  return idle;
}

void set_parameters(uint64_t parameters, Summary& out) {
  out.parameters = parameters;
  if (parameters > 0)
    out.bits_per_weight = 8.0 * static_cast<double>(out.weight_bytes) / static_cast<double>(parameters);
}

}  // namespace

TensorNames parse_names(const TensorList& tensors, const Summary& known, bool is_ggml) {
  const NameParser parser(known, is_ggml);
  TensorNames names;
  names.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) names.push_back(parser.parse(tensors.name(i)));
  return names;
}

Shapes shapes_of(const TensorList& tensors, const TensorNames& names, const std::vector<Counted>& counted) {
  Shapes out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorName& name = names[i];
    if (!name.is_text()) continue;
    if (name.layer != TensorName::kNone) out.layers = std::max(out.layers.value_or(0), uint64_t{name.layer} + 1);
    if (name.expert != TensorName::kNone) out.experts = std::max(out.experts.value_or(0), uint64_t{name.expert} + 1);
    if (!name.is_embedding && !name.is_ffn && !name.is_query_norm) continue;
    const ShapeView shape = tensors.shape(i);
    if (is_embedding(name, shape)) {
      out.has_embedding = true;
      if (!out.vocabulary_size && shape[0] > 0 && counted[i].role == Role::parameter) {
        out.vocabulary_size = shape[0];
        out.hidden_size = counted[i].elements / shape[0];
      }
    }
    if (name.is_ffn && shape.size() == 2 && !out.ffn_size) out.ffn_size = shape[0];
    if (name.is_query_norm && shape.size() == 1) out.head_dim = shape[0];
  }
  return out;
}

std::map<uint64_t, uint64_t> key_rows_of(const TensorList& tensors, const TensorNames& names) {
  std::map<uint64_t, uint64_t> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const ShapeView shape = tensors.shape(i);
    const std::string_view type = tensors.dtype(i)->name;
    if (!names[i].is_keys || names[i].layer == TensorName::kNone || !names[i].is_text() || shape.size() != 2) continue;
    if (type == "bfloat16" || type.starts_with("float")) out.emplace(names[i].layer, shape[0]);
  }
  return out;
}

void find_tied(const TensorList& tensors, const TensorNames& names, std::optional<bool> tied,
               std::vector<Counted>& counted, Summary& out) {
  const auto [found, is_shared] = find_embedding(tensors, names);
  if (!found) return;
  const size_t embedding = *found;
  const auto is_same = [&](size_t i) {
    return tensors.shape(i) == tensors.shape(embedding) && tensors.dtype(i) == tensors.dtype(embedding);
  };
  bool has_own_head = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!names[i].is_head && !names[i].is_embedding) continue;
    const bool is_copy = is_shared && i != embedding && names[i].is_embedding && is_same(i);
    const bool is_tied_head = names[i].is_head && is_same(i) && tied.value_or(is_shared);
    if (is_copy || is_tied_head) counted[i] = {Role::duplicate, 0};
    if (names[i].is_head && counted[i].role != Role::duplicate) has_own_head = true;
  }
  static constexpr std::array<std::string_view, 4> kGenerative = {"causal-lm", "encoder-decoder", "speech",
                                                                  "vision-language"};
  if (std::ranges::find(kGenerative, out.kind) != kGenerative.end()) out.tied_embeddings = !has_own_head;
}

void add_up(const TensorList& tensors, const TensorNames& names, const Roles& roles,
            const std::vector<uint64_t>& experts_by_layer, Summary& out) {
  Number parameters = 0;
  Routed routed;
  std::map<Type, uint64_t> elements_by_type;
  Parts parts;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto [role, elements, is_known] = roles.tensors[i];
    if (role == Role::state) add(out.optimizer_elements, elements);
    if (role == Role::buffer) add(out.buffer_elements, elements);
    if (role == Role::parameter || role == Role::companion)
      out.weight_bytes = sum(out.weight_bytes, listed_bytes(tensors, i)).value_or(out.weight_bytes);
    if (role != Role::parameter) continue;
    parameters = sum(parameters, elements);
    const Number logical = is_known ? Number(elements) : std::nullopt;
    uint64_t& of_type = elements_by_type[type_of(tensors, i)];
    of_type = sum(of_type, is_known ? logical : elements_of(tensors.shape(i))).value_or(of_type);
    parts.add(names[i], tensors.shape(i), logical, out);
    if (is_of_predictor(names[i], out)) {
      parts.predictor.add(logical);
    } else if (out.experts && is_routed(names[i], tensors.shape(i), out.experts)) {
      Number& of_layer = routed.try_emplace(used_in_layer(names[i].layer, experts_by_layer, out), 0).first->second;
      of_layer = sum(of_layer, elements);
    }
  }
  out.dtype = most_frequent(elements_by_type);
  parts.move_to(out);
  if (!roles.packing.is_complete || !parameters) return;
  set_parameters(*parameters, out);
  const bool knows_used = out.experts_used || !experts_by_layer.empty();
  if (!out.experts || !knows_used || routed.empty()) return;
  if (const Number idle = idle_of(routed, *out.experts))
    out.parameters_active = *parameters - out.parameters_mtp.value_or(0) - *idle;
}

}  // namespace weightfs::summary
