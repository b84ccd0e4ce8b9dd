#include "report/compare/pairs.h"

#include <string_view>
#include <tuple>

#include "base/cancellable_sort.h"
#include "report/compare/common_weights.h"

namespace weightfs::compare {
namespace {

struct NameKey {
  std::string_view scope;
  std::string_view name;
  size_t index;
};

bool name_less(const NameKey& x, const NameKey& y) {
  return std::tie(x.scope, x.name, x.index) < std::tie(y.scope, y.name, y.index);
}

Result<std::vector<NameKey>> sorted_names(const Model& model) {
  std::vector<NameKey> keys;
  keys.reserve(model.tensors.size());
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const TensorView tensor = model.tensors[i];
    keys.push_back({tensor.scope, tensor.name, i});
  }
  TRY_VOID(sort_cancellably(keys, name_less));
  return keys;
}

}  // namespace

Result<MatchedTensors> match_tensors(const Model& a, const Model& b) {
  MatchedTensors out;
  const auto names_a = TRY(sorted_names(a));
  const auto names_b = TRY(sorted_names(b));
  auto x = names_a.begin();
  auto y = names_b.begin();
  while (x != names_a.end() || y != names_b.end()) {
    const auto before = [](const NameKey& p, const NameKey& q) {
      return std::tie(p.scope, p.name) < std::tie(q.scope, q.name);
    };
    const bool is_only_a = y == names_b.end() || (x != names_a.end() && before(*x, *y));
    const bool is_only_b = !is_only_a && (x == names_a.end() || before(*y, *x));
    if (is_only_a)
      out.missing.push_back(x->index);
    else if (is_only_b)
      out.added.push_back(y->index);
    else
      out.pairs.push_back({x->index, y->index});
    if (!is_only_b) ++x;
    if (!is_only_a) ++y;
  }
  TRY_VOID(sort_cancellably(out.missing));
  TRY_VOID(sort_cancellably(out.added));
  TRY_VOID(sort_cancellably(out.pairs, [](const TensorPair& p, const TensorPair& q) { return p.a < q.a; }));
  return out;
}

Result<ComparedModels> comparable_models(const ModelPtr& a, const ModelPtr& b, NameMatching names) {
  ComparedModels out{a, b, {}};
  if (names == NameMatching::mapped) out.names = TRY(mapped_names(a, b));
  if (const auto& mapped = out.names.mapped)
    (mapped->side == Side::a ? out.a : out.b) = mapped->model;
  else
    std::tie(out.a, out.b) = TRY(with_common_weights(a, b));
  return out;
}

}  // namespace weightfs::compare
