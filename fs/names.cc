#include "fs/names.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "base/digest.h"
#include "base/text.h"

namespace weightfs {
namespace {

constexpr size_t kHashDigits = 16;

bool is_plain(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return byte >= 0x20 && byte < 0x7F && c != '%' && c != '/';
}

std::string escaped(std::string_view raw, Percent percent) {
  if (raw.empty()) return "%";
  if (raw == ".") return "%2E";
  if (raw == "..") return "%2E%2E";
  if (percent == Percent::escaped) return percent_escaped(raw);
  // A `%` before a `~` is escaped: `%~` marks the numbers of clashing paths.
  std::string out;
  for (size_t end = 0; end <= raw.size(); ++end) {
    const size_t begin = end;
    end = std::min(raw.find('%', begin), raw.size());
    const bool mark = begin < raw.size() && raw[begin] == '~';
    out.append(begin == 0 ? "" : mark ? "%25" : "%").append(percent_escaped(raw.substr(begin, end - begin)));
  }
  return out;
}

// The first bytes of `text`, at most `size`, without an incomplete character or escape at the end.
std::string_view cut(std::string_view text, size_t size) {
  std::string_view out = begin_of_text(text, size);
  const size_t percent = out.rfind('%');
  if (percent != out.npos && out.size() - percent < 3) out = out.substr(0, percent);
  return out;
}

// `text` and `suffix`; if that is too long, the beginning of `text`, a digest of `raw`, and `suffix`.
std::string fit(std::string_view text, std::string_view raw, std::string_view suffix) {
  if (text.size() + suffix.size() <= kMaxComponentLength) return std::string(text).append(suffix);
  const size_t space = kMaxComponentLength - suffix.size() - kHashDigits - 1;
  return fmt::format("{}~{}{}", cut(text, space), sha256(raw).hex().substr(0, kHashDigits), suffix);
}

bool needs_no_change(std::string_view name) {
  if (name.size() > kMaxComponentLength || !is_file_name(name)) return false;
  // No early exit from the loop, so that the compiler can vectorise it.
  bool all_plain = true;
  for (const char c : name) all_plain &= is_plain(c);
  return all_plain;
}

// Names that are made when they are needed: a list of a million would take much memory.
struct Names {
  size_t count;
  std::function<TensorName(size_t i)> at;
};

bool is_parent_of(std::string_view file, std::string_view other) {
  return other.size() > file.size() && other[file.size()] == '/' && other.starts_with(file);
}

// Tensors of one scope have the same copy of it, which may be long.
bool is_same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && (a.data() == b.data() || a == b);
}

// How many bytes the texts have in common at their beginning.
size_t common_length(std::string_view a, std::string_view b) {
  constexpr size_t kBlock = 256;
  const size_t both = std::min(a.size(), b.size());
  size_t at = 0;
  while (at + kBlock <= both && std::memcmp(a.data() + at, b.data() + at, kBlock) == 0) at += kBlock;
  while (at < both && a[at] == b[at]) ++at;
  return at;
}

// The names that would be directories of other names: of each name the numbers of those `/` whose left side is a name,
// too. Names may be long and begin alike: each is compared with few others, not searched for each `/`.
class NamesAround {
 public:
  explicit NamesAround(const Names& names) {
    bool slashes = false;
    for (size_t i = 0; i < names.count && !slashes; ++i) slashes = names.at(i).name.find('/') != std::string_view::npos;
    if (!slashes) return;
    std::vector<Entry> sorted;
    sorted.reserve(names.count);
    for (uint32_t i = 0; i < names.count; ++i) sorted.push_back({names.at(i), i});
    std::sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) { return is_before(a.of, b.of); });
    slashes_.resize(names.count);
    std::vector<const Entry*> around;  // each is a directory of those behind it
    for (const Entry& entry : sorted) {
      while (!around.empty() && !is_around(around.back()->of, entry.of)) around.pop_back();
      if (!around.empty())
        slashes_[entry.index] = slashes_[around.back()->index] | slash_behind(around.back()->of.name);
      if (slash_behind(entry.of.name) != 0) around.push_back(&entry);
    }
  }

  /// Whether the left side of the `/` with this number, from 0 on and below kMaxComponents, is a name.
  bool has(size_t i, size_t slash) const { return !slashes_.empty() && (slashes_[i] >> slash & 1) != 0; }

 private:
  struct Entry {
    TensorName of;
    uint32_t index;
  };

  // A directory is right before what is in it. Unlike path_less it is made for any bytes.
  static bool is_before(const TensorName& a, const TensorName& b) {
    if (!is_same(a.scope, b.scope)) return a.scope < b.scope;
    const size_t at = common_length(a.name, b.name);
    if (at == a.name.size() || at == b.name.size()) return a.name.size() < b.name.size();
    if (a.name[at] == '/' || b.name[at] == '/') return a.name[at] == '/';
    return a.name[at] < b.name[at];
  }

  static bool is_around(const TensorName& a, const TensorName& b) {
    return is_same(a.scope, b.scope) && is_parent_of(a.name, b.name);
  }

  // The bit of the `/` that follows the name in a longer one; 0 if that is not counted.
  static uint32_t slash_behind(std::string_view name) {
    static_assert(kMaxComponents <= 32);
    const auto number = std::count(name.begin(), name.end(), '/');
    return number < static_cast<ptrdiff_t>(kMaxComponents) ? uint32_t{1} << number : 0;
  }

  std::vector<uint32_t> slashes_;  // a bit for each; empty if no name has a `/`
};

// The directory of a scope. That of the last one is kept: tensors of one scope follow each other.
class ScopeDirectory {
 public:
  explicit ScopeDirectory(Percent percent) : percent_(percent) {}

  void enter(std::string_view scope) {
    if (scope.size() == scope_.size() && scope.data() == scope_.data()) return;
    scope_ = scope;
    path_.clear();
    components_ = 0;
    for (size_t begin = 0; begin < scope.size(); ++components_) {
      const bool is_last = components_ + 2 == kMaxComponents;  // the name is another one
      const size_t end = is_last ? scope.size() : std::min(scope.find('/', begin), scope.size());
      path_ += component(scope.substr(begin, end - begin), "", percent_) + "/";
      begin = end + 1;
    }
  }
  const std::string& path() const { return path_; }  ///< empty, or it ends in a `/`
  size_t components() const { return components_; }

 private:
  Percent percent_;
  std::string_view scope_;
  std::string path_;
  size_t components_ = 0;
};

// Splits at each `/` that follows a component, is not the last byte, does not make a tensor a directory, and is within
// kMaxComponents (semantics 3.3).
std::string path_of(const Names& names, size_t index, std::string_view suffix, Percent percent,
                    const NamesAround& around, ScopeDirectory& directory) {
  const auto [scope, name] = names.at(index);
  directory.enter(scope);
  std::string path = directory.path();
  if (needs_no_change(name) && name.size() + suffix.size() <= kMaxComponentLength)
    return path.append(name).append(suffix);
  size_t components = directory.components() + 1;
  size_t begin = 0;
  size_t slash = 0;
  for (size_t i = name.find('/'); i != name.npos && components < kMaxComponents; i = name.find('/', i + 1), ++slash) {
    ++components;  // also for a `/` that does not split: bounds the work
    if (i == begin || i + 1 == name.size() || around.has(index, slash)) continue;
    path += component(name.substr(begin, i - begin), "", percent) + "/";
    begin = i + 1;
  }
  return path + component(name.substr(begin), suffix, percent);
}

// `path` with the number `count`, for the count-th of equal paths. No other path contains `%~`.
std::string with_number(std::string_view path, std::string_view suffix, size_t count) {
  const std::string mark = fmt::format("%~{}{}", count, suffix);
  path.remove_suffix(suffix.size());
  const size_t slash = path.rfind('/');
  const size_t last = slash == path.npos ? 0 : slash + 1;
  return fmt::format("{}{}", path.substr(0, last), fit(path.substr(last), path.substr(last), mark));
}

// Adds strings to an arena and charges them to a budget, a block at a time. Releases the charge unless finished.
class ChargedStrings {
 public:
  ChargedStrings(Budget* budget, StringArena& texts) : budget_(budget), texts_(texts) {}
  ~ChargedStrings() {
    if (budget_ != nullptr && !is_finished_) budget_->release(Cost::kept, charged_);
  }
  ChargedStrings(const ChargedStrings&) = delete;
  ChargedStrings& operator=(const ChargedStrings&) = delete;

  Result<std::string_view> add(std::string_view text) {
    uncharged_ += text.size();
    if (uncharged_ >= StringArena::kMaxBlockSize) TRY_VOID(charge());
    return texts_.add(text);
  }
  Result<void> finish() {
    TRY_VOID(charge());
    is_finished_ = true;
    return {};
  }

 private:
  Result<void> charge() {
    if (budget_ != nullptr) TRY_VOID(budget_->charge(Cost::kept, uncharged_));
    charged_ += uncharged_;
    uncharged_ = 0;
    return {};
  }

  Budget* budget_;
  StringArena& texts_;
  uint64_t charged_ = 0;
  uint64_t uncharged_ = 0;
  bool is_finished_ = false;
};

// The sort order of a byte of a path; 0 is the end of the path. Paths have no bytes below 0x20.
uint8_t rank(char c) { return c == '/' ? 1 : static_cast<uint8_t>(c); }

// The ranks of eight bytes from `at` on, as one number of the same order.
uint64_t ranks(std::string_view path, size_t at) {
  uint64_t key = 0;
  if (at + sizeof key > path.size()) {
    for (size_t i = at; i < at + sizeof key; ++i) key = key << 8 | (i < path.size() ? rank(path[i]) : uint8_t{0});
    return key;
  }
  std::memcpy(&key, path.data() + at, sizeof key);
  if constexpr (std::endian::native == std::endian::little) key = __builtin_bswap64(key);
  // All `/` at once: a byte of `others` has its highest bit set, unless it is one.
  constexpr uint64_t kEach = 0x0101'0101'0101'0101;
  const uint64_t different = key ^ kEach * '/';
  const uint64_t others = ((different & kEach * 0x7F) + kEach * 0x7F) | different;
  return key ^ (~others >> 7 & kEach) * ('/' ^ rank('/'));
}

struct SortKey {
  uint64_t key;
  uint32_t at;  // index in the sorted run
};

// Sorts by key, in place: groups the keys by the first byte that is not the same in all of them, then sorts each group.
void sort_by_key(std::span<SortKey> keyed) {
  constexpr size_t kSmall = 256;
  const auto less = [](const SortKey& a, const SortKey& b) { return a.key < b.key; };
  if (std::is_sorted(keyed.begin(), keyed.end(), less)) return;
  if (keyed.size() < kSmall) return std::sort(keyed.begin(), keyed.end(), less);
  uint64_t different = 0;
  for (const SortKey& k : keyed) different |= k.key ^ keyed.front().key;
  const auto shift = (std::bit_width(different) - 1) / 8 * 8;
  const auto byte = [&](const SortKey& k) { return k.key >> shift & 0xFF; };
  std::array<size_t, 257> begins{};
  for (const SortKey& k : keyed) ++begins[byte(k) + 1];
  for (size_t i = 1; i < begins.size(); ++i) begins[i] += begins[i - 1];
  std::array<size_t, 257> next = begins;
  for (size_t group = 0; group < 256; ++group)
    while (next[group] < begins[group + 1]) {
      SortKey& k = keyed[next[group]];
      if (byte(k) == group)
        ++next[group];
      else
        std::swap(k, keyed[next[byte(k)]++]);
    }
  for (size_t group = 0; group < 256; ++group)
    sort_by_key(keyed.subspan(begins[group], begins[group + 1] - begins[group]));
}

// Moves the path at keyed[i].at to i, for each i: along the cycles, without a copy of all paths.
void arrange(std::span<NamedPath> paths, std::vector<SortKey>& keyed) {
  for (uint32_t begin = 0; begin < keyed.size(); ++begin) {
    if (keyed[begin].at == begin) continue;
    const NamedPath first = paths[begin];
    uint32_t to = begin;
    while (keyed[to].at != begin) {
      const uint32_t from = std::exchange(keyed[to].at, to);
      paths[to] = paths[from];
      to = from;
    }
    keyed[to].at = to;
    paths[to] = first;
  }
}

bool by_name(const NamedPath& a, const NamedPath& b) { return a.name() < b.name(); }

// Sorts by path, then by name: by eight bytes at a time, and runs of equal bytes by the next eight. The names of a
// model have long common prefixes, which a comparison sort would compare repeatedly.
void sort(std::vector<NamedPath>& paths) {
  struct Run {
    size_t begin, end, at;
  };
  std::vector<SortKey> keyed;
  std::vector<Run> runs{{0, paths.size(), 0}};
  while (!runs.empty()) {
    const Run run = runs.back();
    runs.pop_back();
    keyed.clear();
    keyed.reserve(run.end - run.begin);
    for (size_t i = run.begin; i < run.end; ++i)
      keyed.push_back({ranks(paths[i].path(), run.at), static_cast<uint32_t>(i - run.begin)});
    sort_by_key(keyed);
    const auto sorted = std::span(paths).subspan(run.begin, run.end - run.begin);
    arrange(sorted, keyed);
    for (size_t i = 0, first = 0; i < keyed.size(); ++i) {
      if (i + 1 < keyed.size() && keyed[i + 1].key == keyed[i].key) continue;
      const bool ended = (keyed[i].key & 0xFF) == 0;
      const size_t end = i + 1;
      if (i > first && ended)  // equal paths
        std::sort(&sorted[first], &sorted[first] + (end - first), by_name);
      else if (i > first)
        runs.push_back({run.begin + first, run.begin + end, run.at + 8});
      first = end;
    }
  }
}

}  // namespace

std::string component(std::string_view raw, std::string_view suffix, Percent percent) {
  // Escaping never shortens a text, so fit() cuts a longer component within these bytes.
  constexpr size_t kShown = kMaxComponentLength + 4;
  return fit(escaped(raw.substr(0, kShown), percent), raw, suffix);
}

bool path_less(std::string_view a, std::string_view b) {
  const size_t longer = std::max(a.size(), b.size());
  for (size_t at = 0; at < longer; at += sizeof(uint64_t))
    if (const uint64_t in_a = ranks(a, at), in_b = ranks(b, at); in_a != in_b) return in_a < in_b;
  return false;
}

namespace {

// The path of each name, before clashes are resolved.
Result<std::vector<NamedPath>> paths_before_clashes(const Names& names, std::string_view suffix, Percent percent,
                                                    ChargedStrings& kept) {
  const NamesAround around(names);
  ScopeDirectory directory(percent);
  std::vector<NamedPath> paths;
  paths.reserve(names.count);
  for (uint32_t i = 0; i < names.count; ++i) {
    const TensorName tensor = names.at(i);
    std::string_view shown = tensor.name;
    if (!suffix.empty() || !tensor.scope.empty() || !needs_no_change(tensor.name))
      if (const std::string path = path_of(names, i, suffix, percent, around, directory); path != tensor.name)
        shown = TRY(kept.add(path));
    paths.emplace_back(shown, i);
  }
  return paths;
}

// The paths of a sorted list that have to change, each with its number: the k-th of equal paths, and a path that is a
// parent of another.
std::vector<std::pair<size_t, size_t>> clashes_in(const std::vector<NamedPath>& paths) {
  std::vector<std::pair<size_t, size_t>> losers;
  for (size_t i = 1, copy = 1; i < paths.size(); ++i) {
    copy = paths[i - 1].path() == paths[i].path() ? copy + 1 : 1;
    if (copy > 1) {
      losers.emplace_back(i, copy);
    } else if (is_parent_of(paths[i - 1].path(), paths[i].path())) {
      losers.emplace_back(i - 1, 1);
    }
  }
  return losers;
}

// Whether the components of the name, as separated by `/`, need no change.
bool is_path(std::string_view name) {
  size_t components = 0;
  for (size_t begin = 0; begin <= name.size(); ++components) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (!needs_no_change(name.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return components <= kMaxComponents;
}

// The names, sorted, if all of them are paths that do not clash, as in most archives. Nothing if one is not.
std::optional<std::vector<NamedPath>> names_as_paths(const Names& names) {
  std::vector<NamedPath> paths;
  paths.reserve(names.count);
  for (uint32_t i = 0; i < names.count; ++i) {
    const auto [scope, name] = names.at(i);
    if (!scope.empty() || !is_path(name)) return std::nullopt;
    paths.emplace_back(name, i);
  }
  sort(paths);
  if (!clashes_in(paths).empty()) return std::nullopt;
  return paths;
}

Result<std::vector<NamedPath>> paths_within(Budget* budget, const Names& names, std::string_view suffix,
                                            StringArena& texts, Percent percent) {
  if (auto paths = suffix.empty() ? names_as_paths(names) : std::nullopt) return std::move(*paths);
  ChargedStrings kept(budget, texts);
  std::vector<NamedPath> paths = TRY(paths_before_clashes(names, suffix, percent, kept));
  // Clashes are rare: a repeated name, or equal components after truncation. The first keeps its path, the k-th gets
  // `%~k`, and a tensor whose path is a parent of another gets `%~1`. Repeated until nothing clashes.
  while (true) {
    sort(paths);
    const auto losers = clashes_in(paths);
    if (losers.empty()) {
      TRY_VOID(kept.finish());
      return paths;
    }
    for (const auto& [i, number] : losers) {
      const std::string_view path = TRY(kept.add(with_number(paths[i].path(), suffix, number)));
      paths[i] = NamedPath(path, paths[i].name());
    }
  }
}

}  // namespace

std::vector<NamedPath> paths_of(const std::vector<TensorName>& names, std::string_view suffix, StringArena& texts,
                                Percent percent) {
  return *paths_within(nullptr, {names.size(), [&](size_t i) { return names[i]; }}, suffix, texts, percent);
}

Result<std::vector<NamedPath>> tensor_paths(Budget* budget, const TensorList& tensors, std::string_view suffix,
                                            StringArena& texts) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) bytes += tensors.scope(i).size() + tensors.name(i).size();
  if (budget != nullptr) TRY_VOID(budget->charge(Cost::input, bytes));
  const auto name = [&](size_t i) { return TensorName{tensors.scope(i), tensors.name(i)}; };
  return paths_within(budget, {tensors.size(), name}, suffix, texts, Percent::escaped);
}

}  // namespace weightfs
