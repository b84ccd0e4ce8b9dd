#include "formats/summary/tensors/framework_weights.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "formats/format.h"
#include "formats/summary/tensors/tensor_name.h"

namespace weightfs::summary {
namespace {

void set_companion(size_t tensor, Roles& roles, std::vector<bool>& is_counted) {
  is_counted[tensor] = true;
  if (roles.tensors[tensor].role != Role::duplicate) roles.tensors[tensor] = {Role::companion, 0};
}

// torch.qint8 and its kin, whose elements are logical.
bool is_quantised_type(const TensorView& tensor) {
  static constexpr auto kTypes = std::to_array<std::string_view>({"qint32", "qint8", "quint2x4", "quint4x2", "quint8"});
  return std::ranges::binary_search(kTypes, tensor.stored_dtype);
}

// The modules of quantised tensors have a scale and a zero point of their output.
void count_torch(const Model& model, Roles& roles, std::vector<bool>& is_counted) {
  if (traits_of(model.format).framework != Traits::torch) return;
  const TensorList& tensors = model.tensors;
  std::set<std::string_view> names;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors.dtype(i)->name.starts_with("int") && !tensors.dtype(i)->name.starts_with("uint")) continue;
    if (!is_quantised_type(tensors[i])) continue;
    names.insert(tensors.name(i));
    is_counted[i] = true;
    if (roles.tensors[i].role == Role::buffer)
      roles.tensors[i] = {Role::parameter, elements_of(tensors.shape(i)).value_or(0)};
  }
  for (size_t i = 0; i < tensors.size() && !names.empty(); ++i) {
    const std::string_view last = last_component(tensors.name(i));
    const bool is_of_tensor = (last == "scales" || last == "zero_points") && names.contains(parent_of(tensors.name(i)));
    const bool is_of_module = (last == "scale" || last == "zero_point") && elements_of(tensors.shape(i)) == Number(1);
    if (is_of_tensor || is_of_module) set_companion(i, roles, is_counted);
  }
}

// The variables of a layer of Keras 3, by their order: the weights, a bias, the scale of the weights.
struct Variables {
  std::optional<size_t> weights, last_float;
};

bool is_all_int8(const Model& model) {
  const auto* const facts = model.metadata.find_as<Map>("keras");
  const auto* const modes = facts == nullptr ? nullptr : facts->find_as<List>("quantization");
  if (modes == nullptr || modes->empty()) return false;
  return std::ranges::all_of(*modes, [](const Value& mode) {
    const auto* const text = std::get_if<std::string>(&mode);
    return text != nullptr && *text == "int8";
  });
}

// int8 or two int4 in a byte: only the configuration tells.
void count_keras(const Model& model, Roles& roles, std::vector<bool>& is_counted) {
  if (traits_of(model.format).framework != Traits::keras) return;
  const TensorList& tensors = model.tensors;
  std::map<std::string_view, Variables> layers;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string_view parent = parent_of(tensors.name(i));
    if (last_component(parent) != "vars" || roles.tensors[i].role == Role::state) continue;
    Variables& variables = layers[parent];
    const std::string_view type = tensors.dtype(i)->name;
    if ((type == "int8" || type == "uint8") && tensors.shape(i).size() >= 2 && !variables.weights)
      variables.weights = i;
    if (type.starts_with("float") || type == "bfloat16") variables.last_float = i;
  }
  const bool is_known = is_all_int8(model);
  for (const auto& [layer, variables] : layers) {
    if (!variables.weights) continue;
    const size_t weights = *variables.weights;
    const Number elements = is_known ? elements_of(tensors.shape(weights)) : std::nullopt;
    is_counted[weights] = true;
    roles.tensors[weights] = {Role::parameter, elements.value_or(0), elements.has_value()};
    roles.packing.is_complete &= elements.has_value();
    if (variables.last_float) set_companion(*variables.last_float, roles, is_counted);
  }
}

}  // namespace

void count_quantised_tensors(const Model& model, Roles& roles, std::vector<bool>& is_counted) {
  count_torch(model, roles, is_counted);
  count_keras(model, roles, is_counted);
}

}  // namespace weightfs::summary
