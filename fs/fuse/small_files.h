// The bytes of small files are stored in the page cache of the mount when they are opened, so that their readers wait
// for one request (OPEN) instead of two (OPEN and READ).
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>

#include "fs/tree/grafted_trees.h"

// libfuse's type.
struct fuse_session;

namespace weightfs::fuse {

/// Callable from any thread.
class SmallFiles {
 public:
  /// The kernel requests so much for the first byte of a file.
  static constexpr uint64_t kMaxSize = uint64_t{16} << 10;

  /// Whether it has not been called with that inode. The page cache of a file is filled once: later the kernel requests
  /// what it has evicted.
  bool is_first_open(Ino ino);

  /// Stores all bytes of a file in the page cache. Returns whether it succeeded. No OPEN of the file may have been
  /// answered without a RELEASE: this waits for pages that are being read.
  static bool store(fuse_session* session, Ino ino, std::span<std::byte> bytes);

 private:
  static constexpr size_t kInodes = 512;  // of a bitset: the numbers of a model's files are consecutive

  std::mutex mutex_;  // guards the rest
  std::unordered_map<Ino, std::bitset<kInodes>> opened_;
};

}  // namespace weightfs::fuse
