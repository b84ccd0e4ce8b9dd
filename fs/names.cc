#include "fs/names.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/digest.h"
#include "base/text.h"

namespace weightfs {
namespace {

constexpr size_t kBlockSize = 64 * 1024;
constexpr size_t kHashDigits = 16;

void escape(std::string& out, char c) {
  constexpr char kHex[] = "0123456789ABCDEF";
  const auto byte = static_cast<uint8_t>(c);
  out += {'%', kHex[byte >> 4], kHex[byte & 15]};
}

bool plain(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return byte >= 0x20 && byte < 0x7F && c != '%' && c != '/';
}

std::string escaped(std::string_view raw) {
  if (raw.empty()) return "%";
  std::string out;
  if (raw == "." || raw == "..") {
    for (const char c : raw) escape(out, c);
    return out;
  }
  while (!raw.empty()) {
    const size_t length = utf8_sequence(raw);
    if (plain(raw[0]) || length > 1) {
      out += raw.substr(0, length);
    } else {
      escape(out, raw[0]);
    }
    raw.remove_prefix(std::max<size_t>(length, 1));
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
  if (text.size() + suffix.size() <= kLongestComponent) return str(text, suffix);
  const size_t room = kLongestComponent - suffix.size() - kHashDigits - 1;
  return str(cut(text, room), "~", sha256(raw).hex().substr(0, kHashDigits), suffix);
}

bool needs_no_change(std::string_view name) {
  return !name.empty() && name.size() <= kLongestComponent && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), plain);
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

// Splits at each `/` that has a component before it, is not the last byte, and does not run into a tensor (semantics 3.3).
std::string path_of(const TensorName& tensor, std::string_view suffix, const KnownNames& known) {
  const auto [scope, name] = tensor;
  std::string path;
  for (size_t begin = 0; begin < scope.size();) {
    const size_t end = std::min(scope.find('/', begin), scope.size());
    path += component(scope.substr(begin, end - begin)) + "/";
    begin = end + 1;
  }
  size_t begin = 0;
  for (size_t i = name.find('/'); i != name.npos; i = name.find('/', i + 1)) {
    if (i == begin || i + 1 == name.size() || known.has({scope, name.substr(0, i)})) continue;
    path += component(name.substr(begin, i - begin)) + "/";
    begin = i + 1;
  }
  return path + component(name.substr(begin), suffix);
}

// `path` told apart from `count - 1` earlier ones of the same text. `%~` is in no other path: `%` is always followed by hex.
std::string numbered(std::string_view path, std::string_view suffix, size_t count) {
  const std::string mark = str("%~", count, suffix);
  path.remove_suffix(suffix.size());
  const size_t slash = path.rfind('/');
  const size_t last = slash == path.npos ? 0 : slash + 1;
  return str(path.substr(0, last), fit(path.substr(last), path.substr(last), mark));
}

bool runs_through(std::string_view file, std::string_view other) {
  return other.size() > file.size() && other[file.size()] == '/' && other.starts_with(file);
}

}  // namespace

std::string_view Texts::keep(std::string_view text) {
  if (text.size() > left_) {
    left_ = std::max(kBlockSize, text.size());
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(left_));
    // The newest block is filled from its end, so that one number says what is free.
  }
  left_ -= text.size();
  char* at = blocks_.empty() ? nullptr : blocks_.back().get() + left_;
  if (!text.empty()) std::memcpy(at, text.data(), text.size());
  return {at, text.size()};
}

std::string component(std::string_view raw, std::string_view suffix) { return fit(escaped(raw), raw, suffix); }

bool path_less(std::string_view a, std::string_view b) {
  const auto rank = [](char c) { return c == '/' ? 0 : static_cast<uint8_t>(c); };
  const size_t common = std::min(a.size(), b.size());
  size_t i = 0;
  while (i < common && a[i] == b[i]) ++i;
  return i < common ? rank(a[i]) < rank(b[i]) : a.size() < b.size();
}

std::vector<std::string_view> paths_of(const std::vector<TensorName>& names, std::string_view suffix, Texts& texts) {
  const KnownNames known(names);
  std::vector<std::string_view> paths;
  paths.reserve(names.size());
  for (const TensorName& tensor : names) {
    const bool as_is = suffix.empty() && tensor.scope.empty() && needs_no_change(tensor.name);
    paths.push_back(as_is ? tensor.name : texts.keep(path_of(tensor, suffix, known)));
  }
  std::vector<uint32_t> order(paths.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto before = [&](uint32_t a, uint32_t b) {
    if (paths[a] == paths[b]) return a < b;
    return path_less(paths[a], paths[b]);
  };
  // A clash is rare: a name that stands twice, or cut components that meet. The first keeps its path, the k-th gets `%~k`,
  // and a tensor that others would lie under gets `%~1`; until nothing clashes.
  for (std::vector<std::pair<uint32_t, size_t>> losers;; losers.clear()) {
    if (!std::is_sorted(order.begin(), order.end(), before)) std::sort(order.begin(), order.end(), before);
    for (size_t i = 1, copy = 1; i < order.size(); ++i) {
      const uint32_t previous = order[i - 1];
      copy = paths[previous] == paths[order[i]] ? copy + 1 : 1;
      if (copy > 1) losers.emplace_back(order[i], copy);
      else if (runs_through(paths[previous], paths[order[i]])) losers.emplace_back(previous, 1);
    }
    if (losers.empty()) break;
    for (const auto& [loser, number] : losers) paths[loser] = texts.keep(numbered(paths[loser], suffix, number));
  }
  return paths;
}

}  // namespace weightfs
