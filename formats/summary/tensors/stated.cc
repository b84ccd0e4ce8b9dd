#include "formats/summary/tensors/stated.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"

namespace weightfs::summary {
namespace {

constexpr size_t kMaxGroups = 16;  // models have one to three; each is searched for by its name
constexpr size_t kMaxShape = 16;
constexpr size_t kMaxName = 100;
constexpr uint64_t kMaxStatedBits = 16;
constexpr auto kBitsFields = std::to_array<std::string_view>({"bits", "w_bit", "nbits", "num_bits"});
constexpr auto kGroupSizes = std::to_array<std::string_view>({"group_size", "q_group_size", "quantization_group_size"});

// HQQ and torchao describe the weights in an object of an object.
std::vector<Fields> objects_of(const Fields& quantisation) {
  std::vector<Fields> out{quantisation};
  const Fields hqq = quantisation.object({"quant_config"});
  for (const Fields& fields : {quantisation.object({"weight"}), hqq, hqq.object({"weight_quant_params"}),
                               quantisation.object({"weight_quant_params"}), quantisation.object({"quant_type"}),
                               quantisation.object({"quant_type"}).object({"default"}),
                               quantisation.object({"quant_type"}).object({"default"}).object({"_data"}),
                               quantisation.object({"quant_type_kwargs"})})
    if (fields) out.push_back(fields);
  return out;
}

// A type of weights by its name, where the number of bits is not stated.
Number bits_by_types(const std::vector<Fields>& objects) {
  for (const Fields& fields : objects)
    for (const char* const name : {"weights", "weights_dtype", "dtype", "weight_dtype", "_type", "quant_type"}) {
      const Value* const value = fields.find(name);
      const auto* const text = value == nullptr ? nullptr : std::get_if<std::string>(value);
      if (text != nullptr)
        if (const Number bits = bits_in_name(*text)) return bits;
    }
  return std::nullopt;
}

void add_groups(const Fields& quantisation, StatedPacking& out) {
  const Fields groups = quantisation.object({"config_groups"});
  if (!groups) return;
  size_t seen = 0;
  for (const auto& [name, value] : *groups.map()) {
    if (++seen > kMaxGroups) break;
    const Fields group = groups.object({name});
    const Fields weights = group.object({"weights"});
    if (!weights) continue;
    out.groups.push_back({weights.number({"num_bits"}), weights.positive({"group_size"}), group.texts("targets")});
  }
}

void add_modules(const Fields& quantisation, StatedPacking& out) {
  const auto add = [&](const Map* map) {
    if (map == nullptr) return;
    for (const auto& [key, value] : *map)
      if (const auto* const own = std::get_if<Map>(&value)) out.modules.emplace(key, own);
  };
  if (!quantisation.has("quant_method")) add(quantisation.map());
  add(quantisation.object({"config_for_layers"}).map());  // VPTQ
}

// GPTQ: what patterns of names state of some modules; "-:" is before those of modules that are not quantised.
void add_exceptions(const Fields& quantisation, StatedPacking& out) {
  const Fields dynamic = quantisation.object({"dynamic"});
  if (!dynamic) return;
  for (const auto& [name, value] : *dynamic.map()) {
    const auto* const own = std::get_if<Map>(&value);
    if (own == nullptr || name.starts_with("-:")) continue;
    out.has_own_bits |= own->find("bits") != nullptr;
    out.has_own_groups |= own->find("group_size") != nullptr;
  }
}

// The number after a stem that begins at `at`, such as 4 of "int4", and its end.
std::optional<std::pair<uint64_t, size_t>> bits_at(std::string_view text, size_t at) {
  static constexpr auto kStems = std::to_array<std::string_view>({"uint", "int", "nf", "fp", "float", "w", "q"});
  for (const std::string_view stem : kStems) {
    if (!text.substr(at).starts_with(stem)) continue;
    const size_t begin = at + stem.size();
    size_t end = begin;
    while (end < text.size() && end < begin + 2 && text[end] >= '0' && text[end] <= '9') ++end;
    const auto bits = parse_number<uint64_t>(text.substr(begin, end - begin));
    if (bits && *bits > 0 && *bits <= kMaxStatedBits) return std::pair(*bits, end);
  }
  return std::nullopt;
}

}  // namespace

std::vector<uint64_t> StatedPacking::group_sizes() const {
  std::vector<uint64_t> out;
  for (const Group& group : groups)
    if (group.size.value_or(0) > 0) out.push_back(*group.size);
  if (group_size.value_or(0) > 0) out.push_back(*group_size);
  return out;
}

StatedPacking stated_packing(const Fields& config, const Fields& quantisation) {
  StatedPacking out;
  out.method = lower_case(quantisation.text({"quant_method", "method"}));
  out.algorithm = quantisation.text({"quant_algo"});
  out.mode = quantisation.text({"mode"});
  if (const Value* const code = config.find("quantization");
      code != nullptr && std::holds_alternative<std::string>(*code))
    out.code = config.text({"quantization"});
  out.experts = config.text({"expert_dtype", "store_dtype"});
  if (out.experts.empty()) out.experts = quantisation.text({"expert_dtype", "store_dtype"});
  const auto objects = objects_of(quantisation);
  for (const Fields& fields : objects) {
    if (!out.bits) out.bits = fields.number(kBitsFields);
    if (!out.group_size) out.group_size = fields.positive(kGroupSizes);
  }
  if (!out.bits) out.bits = bits_by_types(objects);
  if (!out.bits) out.bits = bits_in_name(out.method);
  if (!out.bits) out.bits = bits_in_name(out.algorithm);
  if (out.code.starts_with("q") && !out.bits) out.bits = bits_in_name(out.code);
  const List* const block = quantisation.list("weight_block_size");
  if (!out.group_size && block != nullptr && block->size() == 2) out.group_size = number_of(block->back());
  out.is_fp4 = quantisation.text({"bnb_4bit_quant_type"}) == "fp4";
  add_groups(quantisation, out);
  add_exceptions(quantisation, out);
  add_modules(quantisation, out);
  return out;
}

Number bits_in_name(std::string_view name) {
  const std::string lower = lower_case(name.substr(0, kMaxName));
  const std::string_view text = lower;
  Number first;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto found = bits_at(text, at);
    if (!found) continue;
    const std::string_view rest = text.substr(found->second);
    if (rest.starts_with("weight") || rest.starts_with("_weight")) return found->first;
    if (!first) first = found->first;
  }
  // The bits of the weights are stated elsewhere: "Int8DynamicActivationIntxWeightConfig".
  return text.find("activation") == text.npos ? first : std::nullopt;
}

Number flattened_elements(const Map& metadata, std::string_view module, const ParseObject& parse) {
  for (const std::string_view end : {".weight", ""}) {
    const auto* const text = metadata.find_as<std::string>(std::string(module) + std::string(end));
    const Map* const object = text == nullptr ? nullptr : parse(*text);
    const Map* const data = object == nullptr ? nullptr : object->find_as<Map>("_data");
    const List* const shape = data == nullptr ? nullptr : data->find_as<List>("shape");
    if (shape == nullptr || shape->empty() || shape->size() > kMaxShape) continue;
    Number elements = 1;
    for (const Value& size : *shape) elements = product(elements, number_of(size));
    return elements;
  }
  return std::nullopt;
}

}  // namespace weightfs::summary
