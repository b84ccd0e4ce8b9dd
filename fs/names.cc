#include "fs/names.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "base/digest.h"
#include "base/text.h"

namespace weightfs {
namespace {

constexpr size_t kMaxBlockSize = 64 * 1024;
constexpr size_t kHashDigits = 16;

bool plain(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return byte >= 0x20 && byte < 0x7F && c != '%' && c != '/';
}

std::string escaped(std::string_view raw, Percent percent) {
  if (raw.empty()) return "%";
  if (raw == ".") return "%2E";
  if (raw == "..") return "%2E%2E";
  if (percent == Percent::escaped) return percent_escaped(raw);
  // But not in front of a `~`: `%~` is what tells paths apart that would clash.
  std::string out;
  for (size_t end = 0; end <= raw.size(); ++end) {
    const size_t begin = end;
    end = std::min(raw.find('%', begin), raw.size());
    const bool mark = begin < raw.size() && raw[begin] == '~';
    out.append(begin == 0 ? "" : mark ? "%25" : "%").append(percent_escaped(raw.substr(begin, end - begin)));
  }
  return out;
}

// The first bytes of `text`, at most `size`, that end with neither half a character nor half an escape.
std::string_view cut(std::string_view text, size_t size) {
  std::string_view out = text.substr(0, size);
  while (!out.empty() && (static_cast<uint8_t>(text[out.size()]) & 0xC0) == 0x80) out.remove_suffix(1);
  const size_t percent = out.rfind('%');
  if (percent != out.npos && out.size() - percent < 3) out = out.substr(0, percent);
  return out;
}

// `text`, or where it leaves no room for `suffix`, its beginning and the digest of `raw`.
std::string fit(std::string_view text, std::string_view raw, std::string_view suffix) {
  if (text.size() + suffix.size() <= kMaxComponentLength) return std::string(text).append(suffix);
  const size_t room = kMaxComponentLength - suffix.size() - kHashDigits - 1;
  return str(cut(text, room), "~", sha256(raw).hex().substr(0, kHashDigits), suffix);
}

bool needs_no_change(std::string_view name) {
  if (name.empty() || name.size() > kMaxComponentLength || name == "." || name == "..") return false;
  // No way out of the loop before its end: so it is one of few instructions for many bytes.
  bool all_plain = true;
  for (const char c : name) all_plain &= plain(c);
  return all_plain;
}

// The names of one scope, to tell whether a directory's name would be a tensor's.
class KnownNames {
 public:
  explicit KnownNames(const std::vector<TensorName>& names) {
    const bool slashes =
        std::any_of(names.begin(), names.end(), [](const TensorName& t) { return t.name.find('/') != t.name.npos; });
    if (!slashes) return;
    for (const TensorName& t : names) sorted_.push_back(&t);
    std::sort(sorted_.begin(), sorted_.end(), less);
  }
  bool has(const TensorName& name) const {
    const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), &name, less);
    return found != sorted_.end() && !less(&name, *found);
  }

 private:
  static bool less(const TensorName* a, const TensorName* b) {
    return std::pair(a->scope, a->name) < std::pair(b->scope, b->name);
  }
  std::vector<const TensorName*> sorted_;
};

// Splits at each `/` that has a component before it, is not the last byte, does not run into a tensor and is not too
// deep (semantics 3.3).
std::string path_of(const TensorName& tensor, std::string_view suffix, Percent percent, const KnownNames& known) {
  const auto [scope, name] = tensor;
  std::string path;
  size_t components = 1;
  for (size_t begin = 0; begin < scope.size(); ++components) {
    const size_t end = std::min(scope.find('/', begin), scope.size());
    path += component(scope.substr(begin, end - begin), "", percent) + "/";
    begin = end + 1;
  }
  if (needs_no_change(name) && name.size() + suffix.size() <= kMaxComponentLength)
    return path.append(name).append(suffix);
  size_t begin = 0;
  for (size_t i = name.find('/'); i != name.npos && components < kMostComponents; i = name.find('/', i + 1)) {
    ++components;  // whatever becomes of it: what is looked at is bounded, too
    if (i == begin || i + 1 == name.size() || known.has({scope, name.substr(0, i)})) continue;
    path += component(name.substr(begin, i - begin), "", percent) + "/";
    begin = i + 1;
  }
  return path + component(name.substr(begin), suffix, percent);
}

// `path` told apart from `count - 1` earlier ones of the same text. `%~` is in no other path where `%` is escaped.
std::string numbered(std::string_view path, std::string_view suffix, size_t count) {
  const std::string mark = str("%~", count, suffix);
  path.remove_suffix(suffix.size());
  const size_t slash = path.rfind('/');
  const size_t last = slash == path.npos ? 0 : slash + 1;
  return str(path.substr(0, last), fit(path.substr(last), path.substr(last), mark));
}

// Texts that are charged to a budget, a block of them at a time. Gives back what was charged, unless it is finished.
class KeptTexts {
 public:
  KeptTexts(Budget* budget, Texts& texts) : budget_(budget), texts_(texts) {}
  ~KeptTexts() {
    if (budget_ != nullptr && !is_finished_) budget_->release(Cost::kept, charged_);
  }
  KeptTexts(const KeptTexts&) = delete;
  KeptTexts& operator=(const KeptTexts&) = delete;

  Result<std::string_view> keep(std::string_view text) {
    uncharged_ += text.size();
    if (uncharged_ >= kMaxBlockSize) TRY_VOID(charge());
    return texts_.keep(text);
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
  Texts& texts_;
  uint64_t charged_ = 0;
  uint64_t uncharged_ = 0;
  bool is_finished_ = false;
};

bool runs_through(std::string_view file, std::string_view other) {
  return other.size() > file.size() && other[file.size()] == '/' && other.starts_with(file);
}

// Where a byte of a path sorts; 0 is left for the end. Paths have no bytes below 0x20.
uint8_t rank(char c) { return c == '/' ? 1 : static_cast<uint8_t>(c); }

// The ranks of eight bytes from `at` on, as one number that sorts as they do.
uint64_t ranks(std::string_view path, size_t at) {
  uint64_t key = 0;
  for (size_t i = at; i < at + 8; ++i) key = key << 8 | (i < path.size() ? rank(path[i]) : uint8_t{0});
  return key;
}

struct Keyed {
  uint64_t key;
  uint32_t at;  // in the run that is sorted
};

// Sorts by key and keeps the order of equals: byte by byte from the last, and no byte that all have in common.
void sort_by_key(std::vector<Keyed>& keyed, std::vector<Keyed>& room) {
  constexpr size_t kFew = 256;
  const auto less = [](const Keyed& a, const Keyed& b) { return std::pair(a.key, a.at) < std::pair(b.key, b.at); };
  if (std::is_sorted(keyed.begin(), keyed.end(), less)) return;
  if (keyed.size() < kFew) return std::sort(keyed.begin(), keyed.end(), less);
  uint64_t differing = 0;
  for (const Keyed& k : keyed) differing |= k.key ^ keyed.front().key;
  room.resize(keyed.size());
  for (int shift = 0; shift < 64; shift += 8) {
    if ((differing >> shift & 0xFF) == 0) continue;
    std::array<size_t, 257> begins{};
    for (const Keyed& k : keyed) ++begins[(k.key >> shift & 0xFF) + 1];
    for (size_t i = 1; i < begins.size(); ++i) begins[i] += begins[i - 1];
    for (const Keyed& k : keyed) room[begins[k.key >> shift & 0xFF]++] = k;
    keyed.swap(room);
  }
}

// Sorts by path, then by name: by eight bytes at a time, and only what is equal so far by the next eight. Names of one
// model have long beginnings in common, which a plain comparison sort would compare again and again.
void sort(std::vector<NamedPath>& paths) {
  struct Run {
    size_t begin, end, at;
  };
  std::vector<Keyed> keyed, room;
  std::vector<NamedPath> sorted;
  std::vector<Run> runs{{0, paths.size(), 0}};
  while (!runs.empty()) {
    const Run run = runs.back();
    runs.pop_back();
    keyed.clear();
    for (size_t i = run.begin; i < run.end; ++i)
      keyed.push_back({ranks(paths[i].path, run.at), static_cast<uint32_t>(i - run.begin)});
    sort_by_key(keyed, room);
    sorted.assign(paths.begin() + static_cast<ptrdiff_t>(run.begin), paths.begin() + static_cast<ptrdiff_t>(run.end));
    for (size_t i = 0, first = 0; i < keyed.size(); ++i) {
      paths[run.begin + i] = sorted[keyed[i].at];
      if (i + 1 < keyed.size() && keyed[i + 1].key == keyed[i].key) continue;
      const bool ended = (keyed[i].key & 0xFF) == 0;
      if (i > first && !ended) runs.push_back({run.begin + first, run.begin + i + 1, run.at + 8});
      first = i + 1;
    }
  }
}

}  // namespace

std::string_view Texts::keep(std::string_view text) {
  size_ += text.size();
  if (text.size() > left_) {
    block_size_ = std::min(2 * block_size_, kMaxBlockSize);
    left_ = std::max(block_size_, text.size());
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(left_));
    // The newest block is filled from its end, so that one number says what is free.
  }
  left_ -= text.size();
  char* at = blocks_.empty() ? nullptr : blocks_.back().get() + left_;
  if (!text.empty()) std::memcpy(at, text.data(), text.size());
  return {at, text.size()};
}

std::string component(std::string_view raw, std::string_view suffix, Percent percent) {
  return fit(escaped(raw, percent), raw, suffix);
}

bool path_less(std::string_view a, std::string_view b) {
  const size_t common = std::min(a.size(), b.size());
  size_t i = 0;
  while (i < common && a[i] == b[i]) ++i;
  return i < common ? rank(a[i]) < rank(b[i]) : a.size() < b.size();
}

std::vector<NamedPath> paths_of(const std::vector<TensorName>& names, std::string_view suffix, Texts& texts,
                                Percent percent) {
  return *paths_within(nullptr, names, suffix, texts, percent);
}

Result<std::vector<NamedPath>> paths_within(Budget* budget, const std::vector<TensorName>& names,
                                            std::string_view suffix, Texts& texts, Percent percent) {
  uint64_t bytes = 0;
  for (const TensorName& tensor : names) bytes += tensor.name.size();
  if (budget != nullptr) TRY_VOID(budget->charge(Cost::input, bytes));
  KeptTexts kept(budget, texts);
  const KnownNames known(names);
  std::vector<NamedPath> paths;
  paths.reserve(names.size());
  for (const TensorName& tensor : names) {
    const bool as_is = suffix.empty() && tensor.scope.empty() && needs_no_change(tensor.name);
    const std::string_view path = as_is ? tensor.name : TRY(kept.keep(path_of(tensor, suffix, percent, known)));
    paths.push_back({path, static_cast<uint32_t>(paths.size())});
  }
  // A clash is rare: a name that stands twice, or cut components that meet. The first keeps its path, the k-th gets
  // `%~k`, and a tensor that others would lie under gets `%~1`; until nothing clashes.
  for (std::vector<std::pair<size_t, size_t>> losers;; losers.clear()) {
    sort(paths);
    for (size_t i = 1, copy = 1; i < paths.size(); ++i) {
      copy = paths[i - 1].path == paths[i].path ? copy + 1 : 1;
      if (copy > 1) {
        losers.emplace_back(i, copy);
      } else if (runs_through(paths[i - 1].path, paths[i].path)) {
        losers.emplace_back(i - 1, 1);
      }
    }
    if (losers.empty()) {
      TRY_VOID(kept.finish());
      return paths;
    }
    for (const auto& [i, number] : losers) paths[i].path = TRY(kept.keep(numbered(paths[i].path, suffix, number)));
  }
}

}  // namespace weightfs
