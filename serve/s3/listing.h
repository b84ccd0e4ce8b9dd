// A page of the keys of a bucket (ListObjects, ListObjectsV2).
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weightfs::objects {

inline constexpr size_t kMaxKeys = 1'000;     ///< entries of a page
inline constexpr size_t kMaxKeySize = 1'024;  ///< bytes of a key, as in S3; a longer one is not listed

enum class Names {
  escaped,  ///< any key can be sent: encoding-type=url
  plain     ///< a key that XML cannot have is left out
};

/// Which keys are wanted.
struct PageQuery {
  std::string prefix = {};     ///< of the keys
  std::string delimiter = {};  ///< keys with it behind the prefix are grouped up to it; empty: none are
  std::string after = {};      ///< only keys and groups behind this one
  size_t most = kMaxKeys;
  Names names = Names::plain;
};

/// A key, or the beginning of keys that are grouped (CommonPrefixes).
struct PageEntry {
  std::string name;
  std::optional<size_t> file;  ///< its number; nothing: a group
};

struct Page {
  std::vector<PageEntry> entries = {};  ///< sorted by the bytes of their names
  bool is_truncated = false;
};

/// The paths of files by their numbers, which are sorted.
struct SortedPaths {
  size_t count;
  std::function<std::string_view(size_t)> at;
};

/// A page of files; their keys are `above` and the path, and the prefix begins with `above`.
Page page_of(const SortedPaths& paths, std::string_view above, const PageQuery& query);

}  // namespace weightfs::objects
