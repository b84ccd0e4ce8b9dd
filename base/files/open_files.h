// The open descriptors of files that can be opened again: those of the files that were used last stay open, so that ten
// thousand models need few descriptors.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/files/leaf.h"
#include "base/os/descriptor.h"
#include "base/source.h"

namespace weightfs {

/// An open file. It is in use, and stays open, as long as its SharedFilePtr is held outside of RecentFiles.
struct SharedFile {
  explicit SharedFile(Descriptor file) : descriptor(std::move(file)) {}
  int number() const { return descriptor.number(); }

  Descriptor descriptor;
  mutable std::atomic<std::chrono::nanoseconds> last_use{};  ///< on any steady clock
};

using SharedFilePtr = std::shared_ptr<const SharedFile>;

/// Keeps the most recently used files open. Callable from any thread.
class RecentFiles {
 public:
  explicit RecentFiles(size_t max) : max_(max) {}

  /// Keeps `file` open, in place of the least recently used one if there are `max` others.
  void add(SharedFilePtr file);

  /// Keeps `file` open no longer.
  void remove(const SharedFilePtr& file);

  /// Keeps no file open. Returns whether there was one.
  bool clear();

 private:
  const size_t max_;
  std::mutex mutex_;  // guards files_
  std::vector<SharedFilePtr> files_;
};

/// How many files that are not in use stay open.
inline constexpr size_t kMaxIdleFiles = 64;

/// Whether the last byte of the range is in the page cache, so that the others probably are, too. False on file systems
/// that cannot tell. The range is in the extent, and not empty.
bool is_cached(const Extent& extent, ByteRange range);

/// Maps bytes of a file, for system calls that copy them, until the result is released. Nothing if the last byte is not
/// in the page cache, since page faults would read the bytes in small pieces, or if the file cannot be mapped. No bytes
/// for an empty range.
std::optional<MappedBytes> map_cached(const SharedFile& file, ByteRange range);

/// See Leaf::advise(). The range is in the file.
void advise_about(const SharedFile& file, ByteRange range, Advice advice);

/// Those of this process, as the limit of descriptors is one of the process: at most kMaxIdleFiles.
RecentFiles& recent_files();

}  // namespace weightfs
