#include "formats/summary/tensors/packing.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/text.h"
#include "formats/format.h"
#include "formats/summary/tensors/framework_weights.h"
#include "formats/summary/tensors/module_count.h"
#include "formats/summary/tensors/modules.h"
#include "formats/summary/tensors/tensor_name.h"

namespace weightfs::summary {
namespace {

using Method = Packing::Method;

// The methods of the modules of one model, with their elements.
class Methods {
 public:
  void add(const Packing& packing, Number elements) {
    const Key key{packing.method, packing.operation};
    const auto [method, is_new] = methods_.emplace(key, std::pair(uint64_t{0}, packing));
    method->second.first = sum(method->second.first, std::max<uint64_t>(elements.value_or(0), 1)).value_or(0);
  }

  Packing most() const {
    const auto most = std::ranges::max_element(methods_, {}, [](const auto& one) { return one.second.first; });
    return most == methods_.end() ? Packing() : most->second.second;
  }

 private:
  using Key = std::pair<Method, std::string_view>;
  std::map<Key, std::pair<uint64_t, Packing>> methods_;
};

void set_weight(Number elements, Counted& out, bool& is_complete) {
  out = {Role::parameter, elements.value_or(0), elements.has_value()};
  is_complete &= elements.has_value();
}

// What the nodes of a graph state.
void count_operands(const Model& model, Methods& methods, Roles& roles, std::vector<bool>& is_counted) {
  for (const auto& [tensor, packed] : model.per_tensor->packed_weights) {
    if (tensor >= roles.tensors.size() || roles.tensors[tensor].role == Role::duplicate) continue;
    is_counted[tensor] = true;
    if (packed.is_companion) {
      roles.tensors[tensor] = {Role::companion, 0};
      continue;
    }
    set_weight(packed.elements, roles.tensors[tensor], roles.packing.is_complete);
    if (packed.method.empty()) continue;
    Packing packing;
    packing.method = Method::operation;
    packing.operation = packed.method;
    if (packed.bits > 0) packing.bits = packed.bits;
    if (packed.group_size > 0) packing.group_size = packed.group_size;
    methods.add(packing, packed.elements);
  }
}

// Whether a tensor beside packed weights is one of their companions by a name that is not known otherwise: `x_scale`.
bool is_named_as_scale(std::string_view name) {
  static constexpr auto kWords = std::to_array<std::string_view>({"offset", "quant", "scale", "smooth", "zero"});
  const std::string_view last = last_component(name);
  return std::ranges::any_of(kWords, [&](std::string_view word) { return last.find(word) != last.npos; });
}

void count_modules(const Model& model, const ModuleCounter& counter, Methods& methods, Roles& roles,
                   std::vector<bool>& is_counted) {
  std::set<std::string_view> packed;
  const std::vector<Module> modules = find_modules(model.tensors);
  for (const Module& module : modules) {
    const auto [weight, count] = counter.count(module);
    if (weight == nullptr) continue;
    if (roles.tensors[weight->tensor].role == Role::state) continue;
    packed.insert(module.name);
    const bool is_known = is_counted[weight->tensor];  // from a node; its other tensors may not be its operands
    for (const Module::Member& member : module.members) {
      if (member.piece <= Piece::unnamed) continue;
      is_counted[member.tensor] = true;
      roles.tensors[member.tensor] = {Role::companion, 0};
    }
    if (is_known) continue;
    is_counted[weight->tensor] = true;
    set_weight(count.elements, roles.tensors[weight->tensor], roles.packing.is_complete);
    if (count.method == Method::none) continue;  // sparse, but not quantised
    methods.add({count.method, count.bits, count.group_size, count.is_fp4, count.is_float8, {}, true}, count.elements);
  }
  for (size_t i = 0; i < model.tensors.size(); ++i)
    if (model.tensors.dtype(i)->name.starts_with("float8")) packed.insert(parent_of(model.tensors.name(i)));
  for (size_t i = 0; i < model.tensors.size() && !packed.empty(); ++i) {
    if (is_counted[i] || roles.tensors[i].role != Role::parameter || !is_named_as_scale(model.tensors.name(i)))
      continue;
    if (packed.contains(parent_of(model.tensors.name(i)))) roles.tensors[i] = {Role::companion, 0};
  }
}

bool is_named_as_weight(std::string_view last) {
  return last.find("weight") != last.npos || last.find("kernel") != last.npos;
}

// Masks, biases and places: "causal_mask", "position_ids", "token_idx".
bool is_named_as_index(std::string_view last) {
  static constexpr auto kParts = std::to_array<std::string_view>({"bias", "index", "mask", "position"});
  static constexpr auto kWords = std::to_array<std::string_view>({"id", "ids", "idx", "pos"});
  if (std::ranges::any_of(kParts, [&](std::string_view part) { return last.find(part) != last.npos; })) return true;
  while (!last.empty()) {
    const std::string_view word = last.substr(0, std::min(last.find('_'), last.size()));
    if (is_in(word, kWords)) return true;
    last.remove_prefix(std::min(last.size(), word.size() + 1));
  }
  return false;
}

// Whether a tensor may be packed weights by its type and shape, and is not named as what masks and indices are.
bool may_be_packed(const TensorList& tensors, size_t i) {
  static constexpr auto kTypes =
      std::to_array<std::string_view>({"int8", "uint8", "int16", "uint16", "int32", "uint32"});
  const DType* const dtype = tensors.dtype(i);
  const bool may_be = dtype == &kUnknownDType || is_in(dtype->name, kTypes);
  if (tensors.shape(i).size() < 2 || !may_be) return false;
  const std::string_view last = last_component(tensors.name(i));
  return is_named_as_weight(last) || !is_named_as_index(last);
}

// Whether integers without known scales are a good part of a checkpoint.
bool has_many_integers(const Model& model, const Roles& roles, const std::vector<bool>& is_counted) {
  constexpr uint64_t kPart = 16;  // embeddings and heads, which stay floating point, are at most so many times as large
  constexpr uint64_t kSmallest = 1024;  // bytes of a matrix of weights
  if (!traits_of(model.format).has_modules) return false;
  Number integers = 0, weights = 0;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const Role role = roles.tensors[i].role;
    const uint64_t bytes = listed_bytes(model.tensors, i);
    if (role == Role::parameter) weights = sum(weights, bytes);
    if (role == Role::buffer && !is_counted[i] && bytes >= kSmallest && may_be_packed(model.tensors, i))
      integers = sum(integers, bytes);
  }
  return weights.value_or(0) > 0 && integers.value_or(0) > 0 && *integers >= *weights / kPart;
}

}  // namespace

void count_packed(const Model& model, const StatedPacking& stated, const ParseObject& parse, Roles& roles) {
  const ModuleCounter counter(model, stated, parse);
  Methods methods;
  std::vector<bool> is_counted(model.tensors.size());
  count_quantised_tensors(model, roles, is_counted);
  count_operands(model, methods, roles, is_counted);
  count_modules(model, counter, methods, roles, is_counted);
  // Nothing tells how many elements they have.
  const bool is_packed = !stated.method.empty() || has_many_integers(model, roles, is_counted);
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    if (is_counted[i] || roles.tensors[i].role != Role::buffer || !may_be_packed(model.tensors, i)) continue;
    if (is_packed || is_named_as_weight(last_component(model.tensors.name(i))))
      set_weight(std::nullopt, roles.tensors[i], roles.packing.is_complete);
  }
  const bool is_complete = roles.packing.is_complete;
  roles.packing = methods.most();
  roles.packing.is_complete = is_complete;
  if (!is_complete)
    roles.warnings.emplace_back("packed weights of an unknown kind: the number of parameters is incomplete");
}

}  // namespace weightfs::summary
