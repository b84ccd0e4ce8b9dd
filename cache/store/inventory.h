// What there is in a store at one moment, found by looking at every file: what room is made by, and what people are
// shown.
#pragma once

#include <ctime>
#include <vector>

#include "cache/paths.h"

namespace weightfs {

struct Contents {
  struct Blob {
    Digest digest;
    uint64_t size;
    uint64_t on_disk;
    timespec used;  ///< when it was asked for last
    bool pinned;
  };
  /// A fetch that is under way, or was left.
  struct Part {
    Digest digest;
    uint64_t size;  ///< the bytes that are there
    uint64_t on_disk;
    timespec written;
    bool held = false;  ///< somebody fetches it: see ask_who_fetches()
  };

  std::vector<Blob> blobs;
  std::vector<Part> parts;
  std::vector<Digest> absent;  ///< pinned, but not kept
  uint64_t makings = 0;        ///< files in making/ that are no parts
  uint64_t links = 0;          ///< in the index
  uint64_t on_disk = 0;        ///< what all of that takes
};

/// Others may change anything meanwhile. Fails when pins cannot be read.
Result<Contents> contents_of(const Folders& folders);

/// Finds out which parts are being fetched. That is to take each lock for a moment: who wants to continue a fetch just
/// then finds it taken, and tries again.
void ask_who_fetches(const Folders& folders, Contents& contents);

/// Whether the one time is before the other.
inline bool is_older(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

}  // namespace weightfs
