#include "formats/summary/tensors/roles.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <vector>

#include "base/text.h"
#include "formats/format.h"
#include "formats/summary/tensors/groups.h"
#include "formats/summary/tensors/packing.h"
#include "formats/summary/tensors/tensor_name.h"
#include "formats/summary/tensors/training_state.h"

namespace weightfs::summary {
namespace {

// Buffers by the last component of their names, or the one before `weight`.
constexpr std::array<std::string_view, 11> kBuffers = {
    "final_logits_bias", "inv_freq",           "masked_bias", "moving_mean",  "moving_variance", "num_batches_tracked",
    "rope_factors_long", "rope_factors_short", "rope_freqs",  "running_mean", "running_var"};

// Scales of the keys and values in a cache, or of activations: one number beside quantised weights. Sorted.
constexpr auto kActivationScales =
    std::to_array<std::string_view>({"input_scale", "k_scale", "kv_cache_scaling_factor", "kv_scale", "output_scale",
                                     "prob_output_scale", "q_scale", "v_scale"});

bool is_integer(const DType& dtype) {
  return dtype.name.starts_with("int") || dtype.name.starts_with("uint") || dtype.name == "bool";
}

// A causal mask that is stored: [1, 1, n, n].
bool is_mask(std::string_view name, ShapeView shape) {
  return shape.size() == 4 && shape[0] == 1 && shape[1] == 1 && shape[2] == shape[3] &&
         (ends_with_components(name, "attn.bias") || ends_with_components(name, "attention.bias"));
}

bool has_rotary_frequencies(std::string_view name) {
  const size_t at = name.find("rotary_emb.");
  return at != name.npos && name.find("freqs", at) != name.npos;
}

bool is_integer_weight(const Traits& traits, const DType& dtype, ShapeView shape) {
  if (!traits.has_integer_weights || shape.empty() || dtype.name == "bool") return false;
  return bits_of(dtype).value_or(64) <= 8;
}

// The tensors that have a scale, in formats that list them: biases are int32, but other int32 are shapes.
using Scaled = std::set<std::string_view>;
Scaled scaled_tensors(const Model& model, const Traits& traits) {
  const auto* const list = traits.lists_scaled_tensors ? model.metadata.find_as<List>("quantization") : nullptr;
  Scaled out;
  if (list == nullptr) return out;
  for (const Value& value : *list)
    if (const auto* const entry = std::get_if<Map>(&value)) out.insert(text_in(*entry, "name"));
  return out;
}

// The name of a variable of TensorFlow 2, whose key in a checkpoint ends with this.
std::string_view without_attribute(std::string_view name) {
  constexpr std::string_view kValue = "/.ATTRIBUTES/VARIABLE_VALUE";
  return name.ends_with(kValue) ? name.substr(0, name.size() - kValue.size()) : name;
}

bool is_buffer(const Model& model, const Traits& traits, const Scaled& scaled, size_t i) {
  const DType& dtype = *model.tensors.dtype(i);
  const std::string_view name = model.tensors.name(i);
  const ShapeView shape = model.tensors.shape(i);
  if (dtype.name == "string") return true;
  if (&dtype == &kUnknownDType && !traits.has_logical_shapes) return true;
  if (is_integer(dtype)) return !is_integer_weight(traits, dtype, shape) && !scaled.contains(name);
  if (traits.has_scalar_constants && shape.empty()) return true;
  std::string_view last = last_component(without_attribute(name));
  if (last == "weight") last = last_component(parent_of(name));
  if (std::ranges::binary_search(kBuffers, last)) return true;
  if (last == "alpha" && shape.size() <= 1 && elements_of(shape) == Number(1)) return true;
  return is_mask(name, shape) || has_rotary_frequencies(name);
}

bool is_activation_scale(const TensorList& tensors, size_t i) {
  // ComfyUI marks files with scaled float8 by a tensor of no or two elements.
  if (last_component(tensors.name(i)) == "scaled_fp8") return elements_of(tensors.shape(i)).value_or(3) <= 2;
  return elements_of(tensors.shape(i)) == Number(1) &&
         std::ranges::binary_search(kActivationScales, last_component(tensors.name(i))) &&
         tensors.dtype(i)->name.find("float") != std::string_view::npos;
}

// A GGUF with NVFP4 has a scale of each such tensor beside it.
bool is_gguf_scale(const TensorList& tensors, size_t i) {
  const std::string_view last = last_component(tensors.name(i));
  return (last == "scale" || last == "input_scale") && tensors.dtype(i)->name == "float32" &&
         tensors.shape(i).size() <= 1;
}

// The scales and zero points of weights that NNCF compressed are constants of OpenVINO beside them: "w", "w/scale".
std::vector<bool> nncf_companions(const TensorList& tensors) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < tensors.size(); ++i) names.insert(tensors.name(i));
  std::vector<bool> out(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    for (const std::string_view end : {"/scale", "/zero_point"}) {
      std::string_view name = tensors.name(i);
      if (!name.ends_with(end)) continue;
      name.remove_suffix(end.size());
      out[i] = out[i] || names.contains(name);
    }
  return out;
}

bool has_type(const TensorList& tensors, std::string_view name) {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors.dtype(i)->name == name) return true;
  return false;
}

// Tensors of one place in one file are one matrix.
void find_shared_storage(const Model& model, std::vector<Counted>& roles) {
  using Place = std::tuple<const Source*, uint64_t, uint64_t, size_t>;
  std::vector<Place> places;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const TensorView tensor = model.tensors[i];
    if (tensor.source.refused() || tensor.nbytes() == 0) continue;
    places.emplace_back(tensor.source.whole().get(), tensor.source.offset(), tensor.nbytes(), i);
  }
  std::ranges::sort(places);
  for (size_t i = 1; i < places.size(); ++i) {
    const auto& [source, offset, size, tensor] = places[i];
    if (places[i - 1] < Place(source, offset, size, 0)) continue;
    roles[tensor] = {Role::duplicate, 0};
  }
}

}  // namespace

Roles find_roles(const Model& model, const StatedPacking& stated, const ParseObject& parse) {
  Roles roles;
  const TensorList& tensors = model.tensors;
  const bool has_gguf_scales = has_type(tensors, "nvfp4");
  const Traits& traits = traits_of(model.format);
  const Scaled scaled = scaled_tensors(model, traits);
  const std::vector<bool> companions =
      traits.has_scales_beside ? nncf_companions(tensors) : std::vector<bool>(tensors.size());
  const bool has_slots = has_optimizer_slots(tensors, traits);
  roles.tensors.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t elements = elements_of(tensors.shape(i)).value_or(0);
    const bool is_companion = companions[i] || tensors.dtype(i)->name == "float8_e8m0fnu" ||
                              (has_gguf_scales && is_gguf_scale(tensors, i)) || is_activation_scale(tensors, i);
    roles.tensors.push_back(is_training_state(tensors.name(i), traits, has_slots) ? Counted{Role::state, elements}
                            : is_companion                                        ? Counted{Role::companion, 0}
                            : is_buffer(model, traits, scaled, i)                 ? Counted{Role::buffer, elements}
                                                                                  : Counted{Role::parameter, elements});
  }
  if (!traits.has_tensors_apart) find_shared_storage(model, roles.tensors);
  find_averages(tensors, roles.tensors);
  if (traits.framework == Traits::torch) find_trainer_state(tensors, roles.tensors);
  if (!traits.is_unpacked) count_packed(model, stated, parse, roles);
  return roles;
}

}  // namespace weightfs::summary
