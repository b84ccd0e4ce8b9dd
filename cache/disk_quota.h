// The room that a store may take on disk, shared by all its processes.
// The invariant: under the store's lock, what is counted as used is never less than what is used. So room is taken by
// adding to one number; only when that number reaches the quota are the files looked at, and the count put right.
// A fetch that was left stays counted; who continues it takes room for what is to come only.
// What makes room: first the fetches that were left, the one left longest ago first, then the blobs used longest ago.
// Never what the user pinned, nor what somebody is making.
// Not counted: directories and the lock file, and blobs that were removed while a process has them open, whose blocks
// the system keeps until that process lets go of them (when it opens or evicts another one).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "cache/store/blob_backend.h"
#include "cache/store/inventory.h"

namespace weightfs {

/// A quarter of the file system that `path`, or what there is above it, lies on.
uint64_t default_quota(std::string path);

/// `size` bytes as a file system allocates them: whole blocks, and a little for its own maps.
uint64_t allocated(uint64_t size);

/// Allocates the bytes [from, to) of a file without changing its size. False with errno set when the system would not;
/// true also where a file system cannot allocate before bytes are written.
bool allocate(int fd, uint64_t from, uint64_t to);

/// Whether that errno says that there is no room, for the disk or for the user.
bool is_full(int error);

/// What was removed to make room.
struct Freed {
  uint64_t blobs = 0;
  uint64_t parts = 0;
  uint64_t bytes = 0;  ///< on disk
};

/// Callable from any thread.
class Room {
 public:
  /// `evicted` is called when blobs were looked for to be removed.
  Room(std::optional<uint64_t> quota, std::function<void()> evicted) : quota_(quota), evicted_(std::move(evicted)) {}

  /// Allocates the bytes [from, to) of a file in making/, if need be and `others` says so in place of others. `from` is
  /// 0 or what the file took room for before, by whichever process. Fails when the store's lock cannot be had for two
  /// seconds, and when it is told to stop.
  Result<void> take(const Folders& folders, int fd, uint64_t from, uint64_t to, Others others,
                    const std::atomic<bool>& stop);

  /// Counts a symbolic link that is about to be made in index/.
  Result<void> take_link(const Folders& folders);

  /// Counts a file of `size` bytes that is about to be made, if it fits; nothing is removed for it.
  bool take_extra(const Folders& folders, uint64_t size);

  /// For when the disk is full whatever the quota says: removes `size` bytes. False when there was nothing to remove.
  bool free_up(const Folders& folders, uint64_t size, const std::atomic<bool>& stop);

  /// Puts the count right, and removes until at most `most` bytes are used, or nothing is left that may go.
  Result<Freed> shrink(const Folders& folders, uint64_t most, const std::atomic<bool>& stop);

 private:
  uint64_t quota(const Folders& folders);
  Result<uint64_t> make_room(const Folders& folders, uint64_t quota, uint64_t wanted, Others others);
  Freed evict(const Folders& folders, Contents& contents, uint64_t wanted);

  std::mutex mutex_;  // guards quota_
  std::optional<uint64_t> quota_;
  std::function<void()> evicted_;
};

}  // namespace weightfs
