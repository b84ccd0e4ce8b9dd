#include "report/compare/common_weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace weightfs::compare {
namespace {

using Key = std::pair<std::string_view, std::string_view>;  // scope and name

Key key_of(const ComputedWeight& weight) { return {weight.scope, weight.name}; }

// A model with its weights, and the tensors of the names of the other model's weights.
struct OneSide {
  const ModelPtr& model;
  std::vector<ComputedWeight> weights;
  std::map<Key, const ComputedWeight*> by_key = {};
  std::map<Key, size_t> stored = {};

  void index() {
    for (const ComputedWeight& weight : weights)
      if (!weight.values.refused()) by_key.emplace(key_of(weight), &weight);
  }
  void find_stored(const OneSide& other) {
    for (size_t i = 0; i < model->tensors.size() && !other.by_key.empty(); ++i)
      if (const Key key{model->tensors.scope(i), model->tensors.name(i)}; other.by_key.contains(key))
        stored.emplace(key, i);
  }
};

bool are_packed_alike(const OneSide& a, const ComputedWeight& x, const OneSide& b, const ComputedWeight& y) {
  const TensorList &of_a = a.model->tensors, &of_b = b.model->tensors;
  const auto is_same = [&](size_t i, size_t j) {
    return of_a.name(i) == of_b.name(j) && of_a.dtype(i) == of_b.dtype(j) && of_a.shape(i) == of_b.shape(j);
  };
  return std::ranges::is_permutation(x.pieces, y.pieces, is_same);
}

// Whether the numbers of a stored tensor are those of the weight: not of a type that has scales beside it.
bool is_whole_number(const DType& dtype) {
  static const std::set<std::string_view> kWithScales = {"int8", "uint8", "int32"};
  return !kWithScales.contains(dtype.name) && !dtype.name.starts_with("float8");
}

std::vector<ComputedWeight> common_weights(const OneSide& own, const OneSide& other) {
  std::vector<ComputedWeight> chosen;
  for (const ComputedWeight& weight : own.weights) {
    if (weight.values.refused()) continue;
    const auto computed = other.by_key.find(key_of(weight));
    const auto stored = other.stored.find(key_of(weight));
    const bool is_compared =
        computed != other.by_key.end()
            ? !are_packed_alike(own, weight, other, *computed->second)
            : stored != other.stored.end() && is_whole_number(*other.model->tensors.dtype(stored->second));
    if (is_compared) chosen.push_back(weight);
  }
  return chosen;
}

}  // namespace

Result<std::pair<ModelPtr, ModelPtr>> with_common_weights(const ModelPtr& a, const ModelPtr& b) {
  ComputedWeights weights_a = TRY(computed_weights(*a));
  ComputedWeights weights_b = TRY(computed_weights(*b));
  OneSide of_a{a, std::move(weights_a.weights)};
  OneSide of_b{b, std::move(weights_b.weights)};
  of_a.index();
  of_b.index();
  of_a.find_stored(of_b);
  of_b.find_stored(of_a);
  return std::pair(TRY(with_computed(a, common_weights(of_a, of_b), Pieces::left_out)),
                   TRY(with_computed(b, common_weights(of_b, of_a), Pieces::left_out)));
}

Result<ShownModels> ShownModels::of(const std::vector<FoundModel>& models) {
  ShownModels shown;
  for (const FoundModel& found : models) {
    std::vector<ComputedWeight> weights = TRY(computed_weights(*found.model)).weights;
    std::erase_if(weights, [](const ComputedWeight& weight) { return weight.values.refused(); });
    ModelPtr model = TRY(with_computed(found.model, weights, Pieces::kept));
    shown.models_.push_back({found.path, std::move(model)});
    auto& pieces = shown.pieces_.emplace_back();
    size_t behind = found.model->tensors.size();
    for (ComputedWeight& weight : weights)
      pieces.emplace(weight.stored ? *weight.stored : behind++, std::move(weight.pieces));
  }
  return shown;
}

std::vector<size_t> ShownModels::stored_tensors(const TensorPlace& place) const {
  const auto found = pieces_[place.model].find(place.index);
  return found == pieces_[place.model].end() ? std::vector<size_t>{place.index} : found->second;
}

}  // namespace weightfs::compare
