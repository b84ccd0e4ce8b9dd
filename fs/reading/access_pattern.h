// The pattern of the reads of one open file of the mount. The kernel detects reads in order, in the mount and in the
// container, and reads ahead. It does not detect reads at equal distances, such as of the columns of a matrix.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "base/source.h"

namespace weightfs {

/// Callable from any thread.
class AccessPattern {
 public:
  /// How many reads are requested ahead.
  static constexpr uint64_t kAhead = 8;

  /// Records a read of a file of `size` bytes. After three equal distances between ascending reads that are not
  /// adjacent, returns the next ones, each once; empty otherwise.
  std::vector<ByteRange> next_after(ByteRange read, uint64_t size);

 private:
  std::mutex mutex_;        // guards the rest
  uint64_t last_ = 0;       // the offset of the last read; at first the beginning of the file
  uint64_t distance_ = 0;   // to the one before it; 0 if that was not before it
  uint64_t repeats_ = 0;    // of the distance
  uint64_t requested_ = 0;  // the offset of the last read that was requested ahead
};

}  // namespace weightfs
