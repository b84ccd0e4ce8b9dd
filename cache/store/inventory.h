// A snapshot of a store from a scan of all files, for eviction and for the cache commands.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "cache/paths.h"

namespace weightfs::store {

struct Inventory {
  struct Blob {
    Digest digest;
    uint64_t size;
    uint64_t on_disk;  ///< with its block list
    timespec last_used;
    bool pinned;
  };
  /// An active or abandoned download.
  struct Part {
    Digest digest;
    Digest name;  ///< of the file with the blocks
    uint64_t on_disk;
    timespec written;
    uint64_t size = 0;       ///< bytes present; set by inspect_downloads()
    bool is_active = false;  ///< being downloaded; set by inspect_downloads()
  };

  /// Blocks of a remote file that is read by ranges.
  struct Remote {
    Digest name;         ///< of the file with the blocks
    std::string source;  ///< the URL and validator
    uint64_t on_disk;
    timespec last_used;
  };

  std::vector<Blob> blobs;
  std::vector<Part> parts;
  std::vector<Remote> remotes;
  std::vector<Digest> absent;    ///< pinned but not cached
  uint64_t temporary_files = 0;  ///< files in making/
  uint64_t links = 0;            ///< in the index
  uint64_t on_disk = 0;          ///< total
};

/// Scans the store; other processes may change it meanwhile. Fails when the pins cannot be read.
Result<Inventory> scan_inventory(const Folders& folders);

/// Sets Part::size and Part::is_active.
void inspect_downloads(const Folders& folders, Inventory& inventory);

/// Whether `a` is before `b`.
inline bool is_older(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

}  // namespace weightfs::store
