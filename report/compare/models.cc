#include "report/compare/models.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/blobs.h"
#include "formats/completeness.h"
#include "report/text/words.h"

namespace weightfs::compare {
namespace {

// Whether a file that only one of them has is a difference.
bool have_same_files(const Contents& a, const Contents& b) {
  if (a.model == nullptr || b.model == nullptr || a.model->format == b.model->format) return true;
  return a.model->tensors.empty() && b.model->tensors.empty();
}

FileState state_of(const Item& item) {
  FileState out;
  out.is_model = item.model != nullptr;
  if (!item.file) return out;
  if (const auto* const digest = item.file->checksums.get<Digest>()) out.digest = *digest;
  out.link_target = item.file->link_target;
  if (const auto bytes = item.file->source.get()) out.size = (*bytes)->size();
  return out;
}

bool has_link(const Item& a, const Item& b) { return !a.file->link_target.empty() || !b.file->link_target.empty(); }

class ContentsComparer {
 public:
  explicit ContentsComparer(const CompareOptions& options) : options_(options) {}

  Result<void> compare(const std::string& path, const Contents& a, const Contents& b) {
    if (a.model != nullptr && b.model != nullptr) TRY_VOID(compare_models(path, a.model, b.model));
    const bool counts_alone = have_same_files(a, b);
    auto x = a.items.begin();
    auto y = b.items.begin();
    while (x != a.items.end() || y != b.items.end()) {
      const int order = x == a.items.end() ? 1 : y == b.items.end() ? -1 : x->path.compare(y->path);
      if (order == 0)
        TRY_VOID(compare_items(join_path(path, x->path), *x, *y));
      else if (counts_alone && order < 0)
        add_alone(path, *x, Side::a);
      else if (counts_alone)
        add_alone(path, *y, Side::b);
      if (order <= 0) ++x;
      if (order >= 0) ++y;
    }
    return {};
  }

  ContentsComparison take() && { return std::move(out_); }

 private:
  // The bytes of two items; null if they are not known.
  using Pair = std::pair<SourcePtr, SourcePtr>;

  static Pair pair_of(const Item& a, const Item& b) {
    const auto bytes_of = [](const Item& item) {
      return item.file ? item.file->source.peek().value_or(nullptr) : nullptr;
    };
    return {bytes_of(a), bytes_of(b)};
  }

  Result<void> compare_models(const std::string& path, const ModelPtr& a, const ModelPtr& b) {
    const ComparedModels compared = TRY(comparable_models(a, b, options_.names));
    ModelComparison found{path, compared.a, compared.b, compared.names, {}, {}};
    if (!found.names.mapped) found.metadata = compare_metadata(*a, *b);
    found.tensors = TRY(compare_tensors(*found.a, *found.b, options_));
    out_.equal_tensors += found.tensors.equal;
    if (found.is_different()) ++different_models_;
    // Incomplete models are kept, too: the command reports what they lack.
    const bool is_complete = completeness_of(*a).is_complete() && completeness_of(*b).is_complete();
    if (path.empty() || found.is_different() || found.is_unreadable() || !is_complete)
      out_.models.push_back(std::move(found));
    return {};
  }

  void add_alone(const std::string& path, const Item& item, Side side) {
    FileChange change{join_path(path, item.path), {}, {}};
    (side == Side::a ? change.a : change.b) = state_of(item);
    out_.files.push_back(std::move(change));
  }

  Result<void> compare_items(const std::string& path, const Item& a, const Item& b) {
    const Pair pair = pair_of(a, b);
    const bool is_known = pair.first != nullptr && pair.second != nullptr;
    if (const auto seen = known_.find(pair); is_known && seen != known_.end()) {
      if (seen->second) add_changed(path, a, b);
      return {};
    }
    if (is_known) known_[pair] = false;
    const size_t before = differences();
    if (a.model == nullptr || b.model == nullptr || !TRY(compare_nested(path, a, b))) compare_files(path, a, b);
    if (is_known) known_[pair] = differences() > before;
    return {};
  }

  size_t differences() const { return out_.files.size() + different_models_; }

  // Whether both are models. The bytes of others are compared if they are known: they only begin like a model.
  Result<bool> compare_nested(const std::string& path, const Item& a, const Item& b) {
    const auto read = [](const Item& item) {
      return item.model().and_then([](const ModelPtr& model) { return contents_of(model); });
    };
    const auto inside_a = read(a);
    const auto inside_b = read(b);
    if (inside_a && inside_b) {
      TRY_VOID(compare(path, *inside_a, *inside_b));
      return true;
    }
    if (a.file && b.file) return false;
    if (!inside_a) out_.unreadable.push_back({Side::a, path, inside_a.error()});
    if (!inside_b) out_.unreadable.push_back({Side::b, path, inside_b.error()});
    return true;
  }

  void compare_files(const std::string& path, const Item& a, const Item& b) {
    if (!a.file || !b.file) return add_changed(path, a, b);  // a model's directory, and a file
    const auto equal = are_equal_files(*a.file, *b.file, has_link(a, b));
    if (!equal)
      out_.unreadable.push_back({equal.error().side, path, equal.error().error});
    else if (*equal)
      ++out_.equal_files;
    else
      add_changed(path, a, b);
  }

  void add_changed(const std::string& path, const Item& a, const Item& b) {
    out_.files.push_back({path, state_of(a), state_of(b)});
  }

  tl::expected<bool, SideError> are_equal_files(const Part& a, const Part& b, bool is_link) const {
    if (is_link) return a.link_target == b.link_target;
    const auto *const digest_a = a.checksums.get<Digest>(), *const digest_b = b.checksums.get<Digest>();
    if (digest_a != nullptr && digest_b != nullptr) return *digest_a == *digest_b;
    const auto bytes_a = a.source.get();
    if (!bytes_a) return tl::unexpected(SideError{Side::a, bytes_a.error()});
    const auto bytes_b = b.source.get();
    if (!bytes_b) return tl::unexpected(SideError{Side::b, bytes_b.error()});
    const uint64_t size = (*bytes_a)->size();
    if (size != (*bytes_b)->size()) return false;
    const std::string identity = (*bytes_a)->identity();
    if (*bytes_a == *bytes_b || (!identity.empty() && identity == (*bytes_b)->identity())) return true;
    uint64_t done = 0;
    return are_equal(**bytes_a, **bytes_b, {0, size},
                     [&](uint64_t bytes) { options_.report("comparing", done += bytes, size); });
  }

  const CompareOptions& options_;
  std::map<Pair, bool> known_;  // whether they differ: a container may be nested under many names, also in itself
  size_t different_models_ = 0;
  ContentsComparison out_;
};

}  // namespace

bool ModelComparison::is_different() const {
  return !metadata.changes.empty() || !tensors.missing.empty() || !tensors.added.empty() || !tensors.renamed.empty() ||
         !tensors.changed.empty();
}

bool ContentsComparison::is_different() const {
  return !files.empty() || std::ranges::any_of(models, [](const ModelComparison& one) { return one.is_different(); });
}

bool ContentsComparison::is_incomplete() const {
  return !unreadable.empty() ||
         std::ranges::any_of(models, [](const ModelComparison& one) { return one.is_unreadable(); });
}

Result<ContentsComparison> compare_contents(const Contents& a, const Contents& b, const CompareOptions& options) {
  ContentsComparer comparer(options);
  TRY_VOID(comparer.compare("", a, b));
  return std::move(comparer).take();
}

}  // namespace weightfs::compare
