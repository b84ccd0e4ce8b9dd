#include "formats/python/slices.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "formats/numpy/pickled_type.h"

namespace weightfs::python {
namespace {

using pickle::Index;
using pickle::Kind;
using pickle::kNoValue;
using pickle::Pickle;

constexpr std::string_view kTable = "UnpackBigParamInfor@@";

// The maximum number of slices of one array, each of which has 1 GiB.
constexpr size_t kMaxSlices = 1 << 16;

constexpr size_t kMostOfParameter = 16;  // keys and values

class SliceJoiner {
 public:
  SliceJoiner(const Pickle& pickle, pickle::Contents& out) : pickle_(pickle), out_(out), temporary_(out.budget) {}

  Result<void> join(Index table) {
    constexpr uint64_t kPlace = 96;  // an entry of places_
    TRY_VOID(temporary_.charge(Cost::kept, kPlace * out_.tensors.size()));
    TRY_VOID(out_.charges.charge(Cost::step, out_.tensors.size()));
    for (size_t i = 0; i < out_.tensors.size(); ++i) places_.insert_or_assign(out_.tensors.name(i), i);
    TRY_VOID(temporary_.charge(Cost::kept, sizeof(Index) * pickle_.item_count(table)));
    const std::vector<Index> items = pickle_.items(table);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (pickle_.kind(items[i]) != Kind::text) continue;
      const std::string name(pickle_.text(items[i]));
      TRY_VOID(out_.charges.charge(Cost::tensor));
      TRY_VOID(out_.charges.charge(Cost::kept, name.size()));
      const auto joined = join_one(name, items[i + 1]);
      if (!joined && !is_about_the_bytes(joined.error())) return tl::unexpected(joined.error());
      if (!joined) refuse(name, joined.error());
    }
    const std::vector<size_t> places(removed_.begin(), removed_.end());
    pickle::erase_tensors(out_, places);
    return {};
  }

 private:
  static tl::unexpected<Error> wrong(std::string what) { return failure(Code::corrupt, std::move(what)); }

  // The places of the slices.
  Result<std::vector<size_t>> slices_of(Index parameter) {
    const Index names = pickle_.value_of(parameter, "slices", kMostOfParameter);
    if (names == kNoValue || pickle_.item_count(names) == 0) return wrong("no list of its slices");
    if (pickle_.item_count(names) > kMaxSlices) return wrong(fmt::format("more than {} slices", kMaxSlices));
    TRY_VOID(out_.charges.charge(Cost::step, pickle_.item_count(names)));
    std::vector<size_t> places;
    for (const Index item : pickle_.items(names)) {
      const std::string_view name = pickle_.text(item);
      const auto found = places_.find(name);
      if (found == places_.end()) return wrong(fmt::format("its slice {} is missing", quoted(name)));
      const size_t place = found->second;
      if (out_.tensors.is_refused(place)) return wrong(fmt::format("its slice {} is refused", quoted(name)));
      const TensorView slice = out_.tensors[place];
      if (slice.shape.size() != 1) return wrong(fmt::format("its slice {} is not flat", quoted(name)));
      const TensorView first = out_.tensors[places.empty() ? place : places.front()];
      if (slice.dtype != first.dtype || slice.stored_dtype != first.stored_dtype)
        return wrong(fmt::format("its slice {} is of another type", quoted(name)));
      places.push_back(place);
    }
    std::vector<size_t> sorted = places;
    std::ranges::sort(sorted);
    const auto is_used = [&](size_t place) { return removed_.contains(place) || used_.contains(place); };
    if (std::ranges::adjacent_find(sorted) != sorted.end() || std::ranges::any_of(sorted, is_used))
      return wrong("a slice is used twice");
    return places;
  }

  Result<void> join_one(const std::string& name, Index parameter) {
    const std::vector<size_t> places = TRY(slices_of(parameter));
    const Index axes = pickle_.value_of(parameter, "OriginShape", kMostOfParameter);
    if (axes == kNoValue) return wrong("no shape");
    Tensor tensor;
    tensor.name = name;
    tensor.shape = TRY(numpy::pickled_shape(pickle_, axes));
    tensor.dtype = out_.tensors.dtype(places.front());
    tensor.stored_dtype = out_.tensors[places.front()].stored_dtype;
    uint64_t elements = 0;
    std::vector<SourcePtr> parts;
    for (const size_t place : places) {
      const TensorView slice = out_.tensors[place];
      if (__builtin_add_overflow(elements, slice.shape[0], &elements)) return wrong("too many elements");
      parts.push_back(std::make_shared<Slice>(slice.source));
    }
    if (elements_of(tensor.shape) != elements)
      return wrong(fmt::format("its slices have {} elements, its shape has another number", elements));
    constexpr uint64_t kPart = 128;
    TRY_VOID(out_.charges.charge(Cost::kept, kPart * parts.size() + sizeof(uint64_t) * tensor.shape.size()));
    const SourcePtr all = concat(std::move(parts));
    tensor.source = TRY(slice(all, 0, all->size()));
    out_.tensors.replace(places.front(), tensor);
    out_.npy_files.erase(places.front());
    used_.insert(places.front());
    removed_.insert(places.begin() + 1, places.end());
    // Paddle replaces an array of the same name.
    if (const auto same = places_.find(name); same != places_.end() && !used_.contains(same->second))
      removed_.insert(same->second);
    return {};
  }

  void refuse(const std::string& name, const Error& reason) {
    Tensor tensor;
    tensor.name = name;
    tensor.dtype = &kUnknownDType;
    tensor.stored_dtype = "unknown";
    out_.tensors.push_back(tensor);
    out_.warnings.refuse(reason.code, "tensor {}: {}", quoted(name), reason.message);
  }

  const Pickle& pickle_;
  pickle::Contents& out_;
  Charges temporary_;
  std::map<std::string_view, size_t> places_;  // of the tensors by their names
  std::set<size_t> used_, removed_;            // places of slices: of the first of an array, and of the others
};

}  // namespace

Result<void> join_slices(const Pickle& pickle, pickle::Contents& out) {
  const size_t items = pickle.item_count(pickle.root());
  Charges temporary(out.budget);
  TRY_VOID(temporary.charge(Cost::kept, sizeof(Index) * items));
  TRY_VOID(temporary.charge(Cost::input, items));
  const Index table = pickle.value_of(pickle.root(), kTable, items);
  if (table == kNoValue || pickle.kind(table) != Kind::dict) return {};
  return SliceJoiner(pickle, out).join(table);
}

}  // namespace weightfs::python
