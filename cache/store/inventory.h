// A snapshot of a store from a scan of all files, for eviction and for the cache commands.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "cache/paths.h"

namespace weightfs::store {

struct Item {
  ItemKind kind;
  Digest digest;  ///< of the blob; for a remote file its name
  Digest name;    ///< of the file
  uint64_t size = 0;
  uint64_t on_disk = 0;     ///< of a blob with its block list
  timespec last_used = {};  ///< of a download: when it was last written
  bool pinned = false;
  bool is_active = false;   ///< being downloaded; set by CacheMaintenance::inventory(), with the size of a download
  std::string source = {};  ///< the URL and validator of a remote file
};

struct Inventory {
  std::vector<Item> items;
  uint64_t temporary_files = 0;  ///< files in making/
  uint64_t on_disk = 0;          ///< total
};

/// Scans the store; other processes may change it meanwhile. Fails when the pins cannot be read.
Result<Inventory> scan_inventory(const Folders& folders);

/// Removes the file of an item, pinned or not, unless it is being downloaded; links to it stay (unlink_links_to).
/// Returns the freed disk space; nothing with errno set on failure.
std::optional<uint64_t> remove_item(const Folders& folders, const Item& item);

/// Whether `a` is before `b`.
inline bool is_older(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

}  // namespace weightfs::store
