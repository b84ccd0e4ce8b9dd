// A snapshot of a store from a scan of all files, for eviction and for the cache commands; and what is removed from it.
#pragma once

#include <ctime>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cache/paths.h"

namespace weightfs {

namespace store {
struct Item;
}

/// The items of a store: a blob, an active or abandoned download, blocks of a remote file that is read by ranges, and a
/// pin without one of them.
enum class ItemKind { blob, part, remote, absent };

/// What was removed, and what could not be removed.
struct GcResult {
  uint64_t blobs = 0;
  uint64_t records = 0;  ///< of weightfs itself
  uint64_t partial = 0;
  uint64_t remotes = 0;
  uint64_t leftovers = 0;                ///< files of killed processes, and dead links
  uint64_t bytes = 0;                    ///< on disk
  std::vector<std::string> not_removed;  ///< a line for each item that could not be removed

  /// Counts a removed item.
  void add(const store::Item& item, uint64_t freed);
};

/// An abandoned partial download is kept for so many seconds.
inline constexpr time_t kMaxPartAge = 7 * 24 * 3600;

/// Removes files of killed processes: files in making/ whose lock is free, blobs that were being written; checksums,
/// lists and names without a blob; and abandoned partial downloads that were last used before `kept_since`.
GcResult sweep(const Folders& folders, time_t kept_since = ::time(nullptr) - kMaxPartAge);

/// Removes the index links to blobs that are not cached: to those of `gone`, and all that are older than a minute; and
/// digests of external files that were saved 90 days ago. Returns their number.
uint64_t unlink_dead_links(const Folders& folders, const std::set<Digest>& gone);

namespace store {

struct Item {
  ItemKind kind;
  Digest digest;            ///< of the blob; for a remote file its name
  Digest name;              ///< of the file
  uint64_t size = 0;        ///< bytes
  uint64_t on_disk = 0;     ///< of a blob with its checksums and block list
  timespec last_used = {};  ///< or written
  bool pinned = false;
  std::string source = {};  ///< the URL and validator of a remote file
  // Set by CacheMaintenance::inventory(), with the size of a download or of ranges: the bytes that are present.
  bool is_active = false;        ///< being downloaded
  uint64_t reserved = 0;         ///< of `on_disk`: allocated for bytes that are absent
  std::vector<Name> names = {};  ///< see names_of()
};

struct Inventory {
  std::vector<Item> items;
  uint64_t temporary_files = 0;  ///< files in making/, and blobs that are being written
  uint64_t on_disk = 0;          ///< total
};

/// Scans the store; other processes may change it meanwhile. Fails when the pins cannot be read.
Result<Inventory> scan_inventory(const Folders& folders);

/// Whether a blob is a record of weightfs itself, such as a saved listing of a server. Needs its names.
bool is_record(const Item& item);

/// Removes the file of an item, pinned or not, unless it is being downloaded; links to it stay (unlink_dead_links).
/// Returns the freed disk space; nothing with errno set on failure.
std::optional<uint64_t> remove_item(const Folders& folders, const Item& item);

/// Whether `a` is before `b`.
inline bool is_older(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

}  // namespace store
}  // namespace weightfs
