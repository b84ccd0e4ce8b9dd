// Converts tensor names, which are arbitrary data, to paths: valid in a file system, unique and deterministic. The
// rules are semantics 3.1 to 3.7. The original name is in tensors.json and in an extended attribute.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/string_arena.h"
#include "formats/model.h"

namespace weightfs {

/// The maximum length of a path component in bytes (NAME_MAX).
inline constexpr size_t kMaxComponentLength = 255;

/// Whether a `%` is written %25, so that escapes are reversible, or kept, so that a file keeps its name.
enum class Percent { escaped, kept };

/// `raw` as one path component, with `suffix`. `%`, `/`, control characters and bytes that are not UTF-8 become %XX, as
/// do the dots of `.` and `..`; the empty string becomes `%`. A component longer than kMaxComponentLength is truncated
/// and ends in `~`, 16 hex digits of the SHA-256 of `raw`, and `suffix`.
std::string component(std::string_view raw, std::string_view suffix = "", Percent percent = Percent::escaped);

/// A tensor's name in the container, and its scope: "" or a graph, whose `/` make directories.
struct TensorName {
  std::string_view scope;
  std::string_view name;
};

/// The maximum number of components of a path. Only as many `/` of a scope and name separate components; the rest are
/// written %2F.
inline constexpr size_t kMaxComponents = 32;

/// A path, and the index of its name, in 16 bytes: there may be a million.
class NamedPath {
 public:
  NamedPath(std::string_view path, uint32_t name)
      : text_(path.data()), size_(static_cast<uint32_t>(path.size())), name_(name) {}

  std::string_view path() const { return {text_, size_}; }
  uint32_t name() const { return name_; }

 private:
  const char* text_;
  uint32_t size_;
  uint32_t name_;
};

/// A path for each of `names`, ending in `suffix`, sorted by path_less. The paths are unique, and no path is a parent
/// of another. They refer to `names` where path and name are equal, else to strings added to `texts`.
std::vector<NamedPath> paths_of(const std::vector<TensorName>& names, std::string_view suffix, StringArena& texts,
                                Percent percent = Percent::escaped);

/// The paths of tensors, charged to `budget` unless that is null: the names as input, the added strings as
/// kept. Fails as Budget::charge does.
Result<std::vector<NamedPath>> tensor_paths(Budget* budget, const TensorList& tensors, std::string_view suffix,
                                            StringArena& texts);

/// Orders paths so that the entries of a directory follow it: `/` sorts before all other bytes. The paths have no bytes
/// below 0x20.
bool path_less(std::string_view a, std::string_view b);

}  // namespace weightfs
