// Tensor names are data: these turn them into paths that a file system can hold, one path per tensor, always the same.
// The rules are semantics 3.1 to 3.7; the original name stays in tensors.json and in an extended attribute.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"

namespace weightfs {

/// The longest component of a path, in bytes (NAME_MAX).
inline constexpr size_t kMaxComponentLength = 255;

/// Owns texts that live as long as it does, packed: what a million names need. A few names take little more than their
/// bytes.
class Texts {
 public:
  std::string_view keep(std::string_view text);
  uint64_t size() const { return size_; }  ///< bytes of all texts

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
  size_t block_size_ = 64;  // of the newest block; before the first, half of that
  size_t left_ = 0;
  uint64_t size_ = 0;
};

/// Whether a `%` becomes %25, so that an escape can be undone, or stays, so that a file has its own name.
enum class Percent { escaped, kept };

/// `raw` as one component: `%`, `/`, control characters and bytes that are no UTF-8 become %XX, so do the dots of `.`
/// and
/// `..`; the empty text becomes `%`. Together with `suffix` it has at most kMaxComponentLength bytes: a longer one is cut
/// and ends in
/// `~`, 16 hex digits of the SHA-256 of `raw`, and `suffix`.
std::string component(std::string_view raw, std::string_view suffix = "", Percent percent = Percent::escaped);

/// A tensor to be named: where it belongs ("" or a graph, whose `/` make directories) and what the container calls it.
struct TensorName {
  std::string_view scope;
  std::string_view name;
};

/// A path has at most so many components, and only so many `/` of a name (and its scope) can make one; the rest are
/// written %2F.
inline constexpr size_t kMostComponents = 32;

/// A tensor's path: which of the names that were given it is for.
struct NamedPath {
  std::string_view path;
  uint32_t name;
};

/// One path for each of `names`, sorted by path_less, `suffix` at the end of each: unique, and none runs through
/// another. A path that is no other text than its name is that very text; the others are kept in `texts`. Views into
/// both.
std::vector<NamedPath> paths_of(const std::vector<TensorName>& names, std::string_view suffix, Texts& texts,
                                Percent percent = Percent::escaped);

/// The same. Names as input and texts that are kept are charged to `budget`, unless it is null; fails when that does
/// not have them.
Result<std::vector<NamedPath>> paths_within(Budget* budget, const std::vector<TensorName>& names,
                                            std::string_view suffix, Texts& texts, Percent percent = Percent::escaped);

/// Orders paths so that what lies in a directory follows it: `/` sorts before every other byte.
bool path_less(std::string_view a, std::string_view b);

}  // namespace weightfs
