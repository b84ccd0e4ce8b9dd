#include "report/compare/tensors.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/cancel.h"
#include "base/cancellable_sort.h"
#include "report/compare/select_tensors.h"

namespace weightfs::compare {
namespace {

using numbers::Elements;

// The bytes of a pair that one thread compares at once.
constexpr uint64_t kRange = uint64_t{32} << 20;

bool has_same_type(const TensorView& a, const TensorView& b) {
  if (a.dtype != b.dtype || !(a.shape == b.shape)) return false;
  return a.dtype->block_bytes != 0 || (a.stored_dtype == b.stored_dtype && a.nbytes() == b.nbytes());
}

// Whether both are one range of one file, which needs no reading.
bool is_same_storage(const Slice& a, const Slice& b) {
  if (a.size() != b.size() || a.refused() || b.refused()) return false;
  const std::string identity = a.identity();
  return !identity.empty() && identity == b.identity();
}

// The tensors without a counterpart that may be equal to each other, by what a tensor and its counterpart share.
using Kind = std::tuple<const DType*, std::string_view, Shape, uint64_t>;

Kind kind_of(const TensorView& tensor) {
  const bool is_known = tensor.dtype->block_bytes != 0;
  return {tensor.dtype, is_known ? std::string_view() : tensor.stored_dtype, tensor.shape, tensor.nbytes()};
}

struct Candidates {
  std::vector<size_t> a;
  std::vector<size_t> b;
};

class TensorComparer {
 public:
  TensorComparer(const Model& a, const Model& b, const CompareOptions& options) : a_(a), b_(b), options_(options) {}

  Result<TensorComparison> run() {
    TRY_VOID(match_names());
    TRY_VOID(compare_bytes());
    TRY_VOID(find_renamed());
    if (options_.deviation) TRY_VOID(compute_deviations());
    for (auto& [place, error] : unreadable_) out_.unreadable.push_back({place.first, place.second, std::move(error)});
    return std::move(out_);
  }

 private:
  Result<void> match_names() {
    MatchedTensors matched = TRY(match_tensors(a_, b_));
    pairs_ = std::move(matched.pairs);
    out_.missing = std::move(matched.missing);
    out_.added = std::move(matched.added);
    return {};
  }

  Result<void> compare_bytes() {
    std::vector<TensorPair> same_type;
    std::vector<uint64_t> first_ranges;  // of each pair of them
    uint64_t ranges = 0;
    uint64_t total = 0;
    for (const TensorPair& pair : pairs_) {
      if (is_cancelled()) return cancelled();
      const TensorView a = a_.tensors[pair.a];
      const TensorView b = b_.tensors[pair.b];
      if (a.source.refused()) add_refused(Side::a, pair.a);
      if (b.source.refused()) add_refused(Side::b, pair.b);
      if (a.source.refused() || b.source.refused()) continue;
      if (!has_same_type(a, b)) {
        out_.changed.push_back({pair, true, {}, {}, {}});
      } else if (is_same_storage(a.source, b.source)) {
        ++out_.equal;
      } else {
        same_type.push_back(pair);
        first_ranges.push_back(ranges);
        ranges += a.nbytes() / kRange + 1;
        total += a.nbytes();
      }
    }
    std::vector<std::atomic<bool>> differ(same_type.size());
    begin_phase("comparing", total);
    TRY_VOID(run_parallel(ranges, [&](uint64_t range) {
      const auto place = static_cast<size_t>(std::upper_bound(first_ranges.begin(), first_ranges.end(), range) -
                                             first_ranges.begin() - 1);
      compare_range(same_type[place], (range - first_ranges[place]) * kRange, differ[place]);
    }));
    for (size_t i = 0; i < same_type.size(); ++i) {
      if (is_cancelled()) return cancelled();
      if (is_unreadable(same_type[i])) continue;
      if (differ[i])
        out_.changed.push_back({same_type[i], false, {}, {}, {}});
      else
        ++out_.equal;
    }
    return sort_cancellably(out_.changed,
                            [](const ChangedTensor& x, const ChangedTensor& y) { return x.pair.a < y.pair.a; });
  }

  void compare_range(const TensorPair& pair, uint64_t from, std::atomic<bool>& differs) {
    const TensorView a = a_.tensors[pair.a];
    const TensorView b = b_.tensors[pair.b];
    const ByteRange range{from, from + std::min(kRange, a.nbytes() - from)};
    if (differs || is_unreadable(pair)) return count(range.to - range.from);
    const auto equal = are_equal(a.source, b.source, range, [this](uint64_t bytes) { count(bytes); });
    if (!equal)
      add_unreadable(equal.error().side, index_of(pair, equal.error().side), equal.error().error);
    else if (!*equal)
      differs = true;
  }

  struct Hashed {
    const Model* model;
    Side side;
    size_t index;
    std::optional<Digest> digest;
  };

  // The tensors without a counterpart for which the other model has one of the same type, shape and size.
  Result<std::vector<Hashed>> renamed_candidates() {
    std::map<Kind, Candidates> kinds;
    for (const size_t i : out_.missing) {
      if (is_cancelled()) return cancelled();
      if (can_read(Side::a, i)) kinds[kind_of(a_.tensors[i])].a.push_back(i);
    }
    for (const size_t i : out_.added) {
      if (is_cancelled()) return cancelled();
      if (can_read(Side::b, i)) kinds[kind_of(b_.tensors[i])].b.push_back(i);
    }
    std::vector<Hashed> hashed;
    for (const auto& [kind, found] : kinds) {
      if (found.a.empty() || found.b.empty()) continue;
      for (const size_t i : found.a) hashed.push_back({&a_, Side::a, i, {}});
      for (const size_t i : found.b) hashed.push_back({&b_, Side::b, i, {}});
    }
    return hashed;
  }

  Result<void> find_renamed() {
    std::vector<Hashed> hashed = TRY(renamed_candidates());
    uint64_t total = 0;
    for (const Hashed& one : hashed) total += one.model->tensors.nbytes(one.index);
    begin_phase("hashing", total);
    TRY_VOID(run_parallel(hashed.size(), [&](uint64_t i) {
      Hashed& one = hashed[static_cast<size_t>(i)];
      auto digest = digest_of(one.model->tensors[one.index].source, [this](uint64_t bytes) { count(bytes); });
      if (digest)
        one.digest = *digest;
      else
        add_unreadable(one.side, one.index, digest.error());
    }));
    std::map<std::pair<Digest, Kind>, Candidates> equal;
    for (const Hashed& one : hashed) {
      if (is_cancelled()) return cancelled();
      if (!one.digest) continue;
      Candidates& found = equal[{*one.digest, kind_of(one.model->tensors[one.index])}];
      (one.side == Side::a ? found.a : found.b).push_back(one.index);
    }
    for (const auto& [key, found] : equal)
      for (size_t i = 0; i < std::min(found.a.size(), found.b.size()); ++i)
        out_.renamed.push_back({found.a[i], found.b[i]});
    TRY_VOID(sort_cancellably(out_.renamed, [](const TensorPair& p, const TensorPair& q) { return p.a < q.a; }));
    remove_renamed(out_.missing, &TensorPair::a);
    remove_renamed(out_.added, &TensorPair::b);
    return {};
  }

  void remove_renamed(std::vector<size_t>& indices, size_t TensorPair::*side) const {
    std::vector<size_t> renamed;
    for (const TensorPair& pair : out_.renamed) renamed.push_back(pair.*side);
    std::sort(renamed.begin(), renamed.end());
    std::erase_if(indices, [&](size_t i) { return std::binary_search(renamed.begin(), renamed.end(), i); });
  }

  Result<void> compute_deviations() {
    FigureCost cost;
    for (ChangedTensor& changed : out_.changed) {
      if (is_cancelled()) return cancelled();
      const TensorView a = a_.tensors[changed.pair.a];
      const TensorView b = b_.tensors[changed.pair.b];
      const auto of_a = Elements::of(a);
      const auto of_b = Elements::of(b);
      if (!(a.shape == b.shape))
        changed.no_deviation = "another shape";
      else if (!of_a || !of_b)
        changed.no_deviation = (!of_a ? of_a : of_b).error().message;
      else
        cost.add(a, of_a->bytes(of_a->count()));
    }
    TRY_VOID(cost.check());
    begin_phase("measuring", cost.bytes());
    for (ChangedTensor& changed : out_.changed) {
      if (is_cancelled()) return cancelled();
      if (changed.no_deviation.empty()) TRY_VOID(compute_deviation(changed));
    }
    return {};
  }

  Result<void> compute_deviation(ChangedTensor& changed) {
    const TensorPair& pair = changed.pair;
    const auto precision = numbers::worse_precision(*a_.tensors.dtype(pair.a), *b_.tensors.dtype(pair.b));
    const Elements of_a = TRY(Elements::of(a_.tensors[pair.a])), of_b = TRY(Elements::of(b_.tensors[pair.b]));
    auto deviation =
        numbers::deviation_of(of_a, of_b, precision, options_.threads, [this](uint64_t bytes) { count(bytes); });
    if (deviation) {
      changed.deviation = deviation->deviation;
      changed.differences = deviation->differences.octaves();
    } else {
      add_unreadable(deviation.error().side, index_of(pair, deviation.error().side), deviation.error().error);
    }
    return {};
  }

  // Fails only for a lack of memory, or when it is cancelled: other errors are part of the result.
  Result<void> run_parallel(uint64_t parts, const std::function<void(uint64_t)>& work) const {
    return in_parallel(parts, options_.threads, [&](uint64_t part) -> Result<void> {
      if (is_cancelled()) return cancelled();
      work(part);
      return {};
    });
  }

  void begin_phase(const char* what, uint64_t total) {
    what_ = what;
    done_ = 0;
    total_ = total;
  }
  void count(uint64_t bytes) { options_.report(what_, done_.fetch_add(bytes) + bytes, total_); }

  using Place = std::pair<Side, size_t>;

  static size_t index_of(const TensorPair& pair, Side side) { return side == Side::a ? pair.a : pair.b; }

  bool can_read(Side side, size_t index) {
    if (!(side == Side::a ? a_ : b_).tensors[index].source.refused()) return true;
    add_refused(side, index);
    return false;
  }

  void add_refused(Side side, size_t index) {
    const bool is_unknown = (side == Side::a ? a_ : b_).tensors.dtype(index) == &kUnknownDType;
    add_unreadable(side, index, {is_unknown ? Code::unsupported : Code::corrupt, "refused: see warnings.txt"});
  }

  void add_unreadable(Side side, size_t index, const Error& error) {
    const std::scoped_lock lock(mutex_);
    unreadable_.emplace(Place{side, index}, error);
  }

  bool is_unreadable(const TensorPair& pair) {
    const std::scoped_lock lock(mutex_);
    return unreadable_.contains({Side::a, pair.a}) || unreadable_.contains({Side::b, pair.b});
  }

  const Model& a_;
  const Model& b_;
  const CompareOptions& options_;
  std::vector<TensorPair> pairs_;  // of the same name
  TensorComparison out_;
  const char* what_ = "";  // the phase
  std::atomic<uint64_t> done_ = 0;
  uint64_t total_ = 0;
  std::mutex mutex_;  // guards the next one
  std::map<Place, Error> unreadable_;
};

}  // namespace

Result<TensorComparison> compare_tensors(const Model& a, const Model& b, const CompareOptions& options) {
  return TensorComparer(a, b, options).run();
}

}  // namespace weightfs::compare
