// The files that a mirror has open: one object for all clients of a file, so that each byte is requested once.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "base/source.h"

namespace weightfs::mirror {

/// Callable from any thread.
class OpenFiles {
 public:
  static constexpr size_t kMost = 256;  ///< after that, the one that was used first is closed

  /// The bytes that were kept under a key; null if there are none, or if they did not match what they were compared
  /// with, which closes them.
  SourcePtr find(const std::string& key);

  /// Keeps bytes under a key, and returns them, or what another thread has kept there meanwhile.
  SourcePtr keep(const std::string& key, SourcePtr bytes);

 private:
  struct Opened {
    std::string key;
    SourcePtr bytes;
  };
  SourcePtr use(const std::string& key, SourcePtr& dropped);  // needs the lock

  std::mutex mutex_;            // never held while bytes are destroyed, which waits for their transfers
  std::vector<Opened> opened_;  // the last used first
};

}  // namespace weightfs::mirror
