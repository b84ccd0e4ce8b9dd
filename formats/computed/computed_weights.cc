#include "formats/computed_weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>

#include "base/text.h"
#include "formats/common/warnings.h"
#include "formats/computed/packing_rules.h"
#include "formats/format.h"
#include "formats/summary/tensors/tensor_name.h"

namespace weightfs {
namespace {

using computed::MatrixPtr;
using computed::ModulePieces;
using computed::PackingRules;
using computed::RecentTiles;

// Elements of two bits become sixteen times as large.
constexpr uint64_t kMostTimesLarger = 32;
constexpr uint64_t kMaxElements = uint64_t{1} << 60;

constexpr uint64_t kMemory = 600;  // bytes of a computed weight, besides its name

// Collects the weights of a model, and why some of them are not known.
class Collector {
 public:
  Collector(const Model& model, const PackingRules& rules) : model_(model), rules_(rules) {}

  Result<void> add(const summary::Module& module) {
    ModulePieces pieces(model_.tensors, module);
    const std::string_view end = rules_.weight_of(pieces);
    if (end.empty()) return {};
    if (model_.budget != nullptr) TRY_VOID(model_.budget->charge(Cost::kept, kMemory + module.name.size()));
    ComputedWeight weight = named(pieces, module, end);
    const auto is_its = [&](const auto& member) { return model_.tensors.name(member.tensor) == weight.name; };
    auto values = !weight.stored && std::ranges::any_of(module.members, is_its)
                      ? failure(Code::unsupported, "a tensor of this name is stored")
                      : compute(pieces, weight);
    if (values)
      weight.values = std::move(*values);
    else
      lack(weight.name, values.error().message);
    if (values || weight.stored) out_.weights.push_back(std::move(weight));
    return {};
  }

  ComputedWeights take() && {
    if (computed_bytes_ > kMostTimesLarger * stored_bytes()) {
      reasons_.clear();
      lack(out_.weights.front().name, "they share their bytes with others");
      for (ComputedWeight& weight : out_.weights) weight.values = Slice();
    }
    std::erase_if(out_.weights, [](const ComputedWeight& one) { return one.values.refused() && !one.stored; });
    std::ranges::sort(out_.weights, {}, [](const ComputedWeight& one) {
      return one.pieces.empty() ? one.stored.value_or(0) : one.pieces.front();
    });
    Warnings warnings;
    for (const auto& [reason, modules] : reasons_) {
      const auto& [first, count] = modules;
      const std::string others = count == 1 ? "" : fmt::format(" and {} others", count - 1);
      warnings.add("float32/: {}{} not computed: {}", quoted(first), others, reason);
    }
    out_.warnings = warnings.lines();
    return std::move(out_);
  }

 private:
  // "x.qweight" and "x.weight_packed" become "x.weight", and "x_blocks" becomes "x".
  ComputedWeight named(const ModulePieces& pieces, const summary::Module& module, std::string_view end) const {
    ComputedWeight out;
    for (const summary::Module::Member& member : module.members) {
      if (!pieces.is_named(member.tensor, end)) continue;
      const std::string_view name = model_.tensors.name(member.tensor);
      out.name = end == "blocks" ? module.name : std::string(name.substr(0, name.size() - end.size())) + "weight";
      out.scope = model_.tensors.scope(member.tensor);
      if (end == "weight") out.stored = member.tensor;
      break;
    }
    return out;
  }

  Result<Slice> compute(ModulePieces& pieces, ComputedWeight& weight) {
    MatrixPtr matrix = TRY(rules_.matrix(pieces));
    for (const size_t i : pieces.taken())
      if (model_.tensors.scope(i) != weight.scope)
        return failure(Code::unsupported, "its tensors are in several graphs");
    const Shape shape = matrix->shape();
    const auto elements = elements_of(shape);
    if (!elements || *elements > kMaxElements) return failure(Code::unsupported, "too many elements");
    weight.shape = shape;
    weight.pieces = pieces.taken();
    for (const size_t i : weight.pieces) files_.insert(model_.tensors[i].source.whole());
    const uint64_t size = *elements * sizeof(float);
    computed_bytes_ = size > UINT64_MAX - computed_bytes_ ? UINT64_MAX : computed_bytes_ + size;
    return slice(source_of(std::move(matrix), recent_), 0, size);
  }

  void lack(const std::string& name, const std::string& reason) {
    const auto [known, is_new] = reasons_.try_emplace(reason, name, 0);
    ++known->second.second;
    if (!is_new && name < known->second.first) known->second.first = name;
  }

  uint64_t stored_bytes() const {
    uint64_t bytes = 0;
    for (const SourcePtr& file : files_) bytes += std::min(file->size(), UINT64_MAX / kMostTimesLarger - bytes);
    return bytes;
  }

  const Model& model_;
  const PackingRules& rules_;
  std::shared_ptr<RecentTiles> recent_ = std::make_shared<RecentTiles>();
  std::map<std::string, std::pair<std::string, uint64_t>> reasons_;  // with the first module, and how many there are
  std::set<SourcePtr> files_;
  uint64_t computed_bytes_ = 0;
  ComputedWeights out_;
};

// A model that keeps the one that its tensors are of.
struct Extended {
  ModelPtr from;
  Model model;
};

}  // namespace

bool may_have_computed_weights(const Model& model) {
  static constexpr auto kPackedEnds = std::to_array<std::string_view>({"qweight", "weight_packed"});
  static constexpr auto kTypes =
      std::to_array<std::string_view>({"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "int8", "uint8"});
  if (!traits_of(model.format).has_modules || model.beside == nullptr) return false;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const std::string_view end = summary::last_component(model.tensors.name(i));
    if (end.ends_with("_blocks")) return true;
    if (end == "weight" ? summary::is_in(model.tensors.dtype(i)->name, kTypes) : summary::is_in(end, kPackedEnds))
      return true;
  }
  return false;
}

Result<ComputedWeights> computed_weights(const Model& model) {
  if (!may_have_computed_weights(model)) return ComputedWeights{};
  if (model.budget != nullptr) TRY_VOID(model.budget->charge(Cost::step, model.tensors.size()));
  summary::SmallFiles files(model);
  const PackingRules rules = PackingRules::read(files);
  if (!rules.are_known()) return ComputedWeights{};
  Collector collector(model, rules);
  for (const summary::Module& module : summary::find_modules(model.tensors)) TRY_VOID(collector.add(module));
  return std::move(collector).take();
}

Result<ModelPtr> with_computed(const ModelPtr& model, std::span<const ComputedWeight> weights, Pieces pieces) {
  if (weights.empty()) return model;
  if (model->budget != nullptr) TRY_VOID(model->budget->charge(Cost::tensor, model->tensors.size() + weights.size()));
  const auto extended = std::make_shared<Extended>();
  extended->from = model;
  Model& out = extended->model;
  out.format = model->format;
  out.version = model->version;
  out.parts = model->parts;
  out.warnings = model->warnings;
  out.budget = model->budget;
  out.beside = model->beside;
  if (model->lacks.is_set()) out.lacks.edit() = *model->lacks;
  if (model->chosen.is_set()) out.chosen.edit() = *model->chosen;
  out.tensors.append(model->tensors);
  std::set<size_t> left_out;
  for (const ComputedWeight& weight : weights) {
    TensorView tensor = weight.stored ? model->tensors[*weight.stored] : TensorView();
    if (!weight.stored) tensor.name = weight.name;
    tensor.dtype = weight.values.refused() ? &kUnknownDType : dtype_named("float32");
    if (!weight.values.refused()) {
      tensor.stored_dtype = "computed";
      tensor.scope = weight.scope;
      tensor.shape = weight.shape;
      tensor.source = weight.values;
    }
    if (weight.stored)
      out.tensors.replace(*weight.stored, tensor);
    else
      out.tensors.push_back(tensor);
    for (const size_t i : weight.pieces)
      if (i != weight.stored) left_out.insert(i);
  }
  if (pieces == Pieces::left_out) out.tensors.erase(std::vector<size_t>(left_out.begin(), left_out.end()));
  return ModelPtr(extended, &out);
}

}  // namespace weightfs
