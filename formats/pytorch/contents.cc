#include "formats/pytorch/contents.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <tuple>

#include "base/text.h"
#include "formats/common/flat.h"
#include "formats/pytorch/globals.h"
#include "formats/pytorch/walk.h"

namespace weightfs::pytorch {
namespace {

// Places of the tensors, those of the same bytes next to each other.
std::vector<size_t> sorted_by_bytes(const TensorList& tensors) {
  std::vector<size_t> places(tensors.size());
  std::iota(places.begin(), places.end(), size_t{0});
  const auto key = [&](size_t i) {
    const Slice bytes = tensors[i].source;
    return std::tuple(bytes.whole().get(), bytes.offset(), bytes.size(), i);
  };
  std::sort(places.begin(), places.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  return places;
}

bool same_tensor(const TensorView& a, const TensorView& b) {
  return !a.source.refused() && a.nbytes() > 0 && a.source.whole() == b.source.whole() &&
         a.source.offset() == b.source.offset() && a.dtype == b.dtype && a.shape == b.shape;
}

// The names of tensors with the same bytes, one list for each such tensor.
Result<List> tied(const TensorList& tensors, Charges& charges) {
  const std::vector<size_t> places = sorted_by_bytes(tensors);
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 1; i < places.size(); ++i) {
    if (!same_tensor(tensors[places[i - 1]], tensors[places[i]])) continue;
    const bool starts = groups.empty() || groups.back().back() != places[i - 1];
    if (starts && groups.size() == kMaxInlineList) break;
    if (starts) groups.push_back({places[i - 1]});
    groups.back().push_back(places[i]);
  }
  std::sort(groups.begin(), groups.end());
  List lists;
  for (const auto& group : groups) {
    List names;
    for (const size_t place : group) {
      TRY_VOID(charges.charge(Cost::value, 2));
      TRY_VOID(charges.charge(Cost::kept, tensors[place].name.size()));
      if (names.size() < kMaxInlineList) names.emplace_back(tensors[place].name);
    }
    lists.emplace_back(std::move(names));
  }
  return lists;
}

void add_unless_empty(Map& facts, const char* key, Map map) {
  map.keep_last_of_each_key();
  if (!map.empty()) facts.append(key, std::move(map));
}

}  // namespace

Result<void> add_pickle(const Pickle& pickle, const StorageBytes& storages, const std::string& prefix,
                        std::string_view subject, Contents& out) {
  uint64_t bytes = 0;
  for (const std::string& global : pickle.globals()) bytes += 3 * global.size();
  TRY_VOID(out.charges.charge(Cost::kept, bytes));
  TRY_VOID(out.charges.charge(Cost::value, pickle.globals().size()));
  ReportedGlobals reported = report_globals(pickle.globals(), subject, out.warnings);
  std::move(reported.all.begin(), reported.all.end(), std::back_inserter(out.globals));
  out.dangerous +=
      fmt::format("{}{}", out.dangerous.empty() || reported.dangerous.empty() ? "" : ", ", reported.dangerous);
  return walk(pickle, storages, prefix, out);
}

Result<void> add_contents(Model& model, Contents contents, Map facts) {
  for (const size_t place : flat::repeated_names(contents.tensors))
    contents.warnings.add("tensor {}: duplicate name", quoted(contents.tensors[place].name));
  List ties = TRY(tied(contents.tensors, contents.charges));
  if (!contents.globals.empty()) facts.append("globals", std::move(contents.globals));
  if (!ties.empty()) facts.append("tied", std::move(ties));
  add_unless_empty(facts, "quantized", std::move(contents.quantized));
  add_unless_empty(facts, "sparse", std::move(contents.sparse));
  contents.charges.keep();
  if (!contents.dangerous.empty()) model.common.append("dangerous_globals", std::move(contents.dangerous));
  model.metadata = std::move(contents.metadata);
  flat::add_facts(model.metadata, model.format, std::move(facts));
  model.tensors = std::move(contents.tensors);
  std::move(contents.warnings).move_to(model);
  return {};
}

}  // namespace weightfs::pytorch
