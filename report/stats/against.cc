#include "report/stats/against.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <utility>

#include "base/cancel.h"
#include "base/text.h"
#include "formats/completeness.h"
#include "report/compare/select_tensors.h"

namespace weightfs::stats {
namespace {

using compare::LayerDeviation;
using numbers::Deviation;
using numbers::Elements;

class AgainstComputation {
 public:
  AgainstComputation(const compare::ComparedModels& models, const compare::MatchedTensors& matched,
                     const AgainstOptions& options)
      : reference_(*models.a), model_(*models.b), options_(options) {
    for (const compare::TensorPair& pair : matched.pairs) counterparts_.emplace(pair.b, pair.a);
  }

  Result<AgainstGroups> run(std::span<const size_t> selected, const UseAgainst& use) {
    TRY_VOID(add_costs(selected));
    for (const size_t index : selected) {
      if (is_cancelled()) return cancelled();
      AgainstFigures one = compute(index);
      add_to_groups(one);
      TRY_VOID(use(std::move(one)));
    }
    return std::move(groups_);
  }

 private:
  Result<void> add_costs(std::span<const size_t> selected) {
    for (const size_t index : selected) {
      const auto found = counterparts_.find(index);
      if (found == counterparts_.end()) continue;
      for (const TensorView& tensor : {reference_.tensors[found->second], model_.tensors[index]})
        if (const auto elements = Elements::of(tensor)) cost_.add(tensor, elements->bytes(elements->count()));
    }
    return cost_.check();
  }

  AgainstFigures compute(size_t index) {
    const TensorView tensor = model_.tensors[index];
    AgainstFigures one{full_name(tensor), tensor, {}, failure(Code::not_found, "not in the reference")};
    const auto found = counterparts_.find(index);
    if (found == counterparts_.end()) return one;
    one.reference = reference_.tensors[found->second];
    one.deviation = deviation_of(one, found->second, index);
    return one;
  }

  Result<Deviation> deviation_of(const AgainstFigures& one, size_t in_reference, size_t in_model) {
    TRY_VOID(check_read(reference_, in_reference, "the reference: refused: "));
    TRY_VOID(check_read(model_, in_model, "refused: "));
    if (!(one.reference->shape == one.tensor.shape)) return failure(Code::unsupported, "another shape");
    const Elements a = TRY(Elements::of(*one.reference)), b = TRY(Elements::of(one.tensor));
    const std::string name = quoted(one.name);
    const auto count_bytes = [&](uint64_t bytes) {
      options_.report(done_.fetch_add(bytes) + bytes, cost_.bytes(), name);
    };
    const auto precision = numbers::worse_precision(*one.reference->dtype, *one.tensor.dtype);
    auto found = numbers::deviation_of(a, b, precision, options_.threads, count_bytes);
    if (found) return std::move(found->deviation);
    const Error& error = found.error().error;
    const bool is_reference = found.error().side == numbers::Side::a;
    return failure(error.code, (is_reference ? "the reference: " : "") + error.message);
  }

  static Result<void> check_read(const Model& model, size_t index, const char* what) {
    if (!model.tensors[index].source.refused()) return {};
    const Error reason = reason_of_refused(model, model.tensors.name(index));
    return failure(reason.code, what + reason.message);
  }

  void add_to_groups(const AgainstFigures& one) {
    if (!one.deviation) return;
    add_to(groups_.total, *one.deviation);
    const std::string layer = layer_of(one.name);
    if (layer.empty()) return;
    const auto [place, is_new] = layers_.try_emplace(layer, groups_.layers.size());
    if (is_new) groups_.layers.push_back({layer, 0, Deviation()});
    add_to(groups_.layers[place->second], *one.deviation);
  }

  static void add_to(LayerDeviation& group, const Deviation& deviation) {
    ++group.tensors;
    group.deviation.add(deviation);
  }

  const Model& reference_;
  const Model& model_;
  const AgainstOptions& options_;
  std::unordered_map<size_t, size_t> counterparts_;  // indices in the reference
  FigureCost cost_;
  std::atomic<uint64_t> done_ = 0;
  std::unordered_map<std::string, size_t> layers_;  // places in groups_.layers
  AgainstGroups groups_{{}, {"total", 0, Deviation()}};
};

}  // namespace

Result<AgainstGroups> compute_against(const compare::ComparedModels& models, const compare::MatchedTensors& matched,
                                      std::span<const size_t> selected, const AgainstOptions& options,
                                      const UseAgainst& use) {
  return AgainstComputation(models, matched, options).run(selected, use);
}

}  // namespace weightfs::stats
