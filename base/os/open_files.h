// The open descriptors of files that can be opened again: those of the files that were used last stay open, so that ten
// thousand models need few descriptors.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/os/descriptor.h"

namespace weightfs {

/// An open file. It is in use, and stays open, as long as its OpenFilePtr is held outside of RecentFiles.
struct OpenFile {
  explicit OpenFile(Descriptor file) : descriptor(std::move(file)) {}

  int number() const { return descriptor.number(); }

  Descriptor descriptor;
  mutable std::atomic<std::chrono::nanoseconds> last_use{};  ///< on any steady clock
};

using OpenFilePtr = std::shared_ptr<const OpenFile>;

/// Keeps the most recently used files open. Callable from any thread.
class RecentFiles {
 public:
  explicit RecentFiles(size_t max) : max_(max) {}

  /// Keeps `file` open, in place of the least recently used one if there are `max` others.
  void add(OpenFilePtr file);

  /// Keeps `file` open no longer.
  void remove(const OpenFilePtr& file);

  /// Keeps no file open. Returns whether there was one.
  bool clear();

 private:
  const size_t max_;
  std::mutex mutex_;  // guards files_
  std::vector<OpenFilePtr> files_;
};

/// How many files that are not in use stay open.
inline constexpr size_t kMaxIdleFiles = 64;

/// Those of this process, as the limit of descriptors is one of the process: at most kMaxIdleFiles.
RecentFiles& recent_files();

}  // namespace weightfs
