// How many bytes of a remote file are requested ahead of its readers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/source.h"

namespace weightfs::blobs {

/// Reads that follow each other, and how many bytes to request ahead of them.
class ReadAhead {
 public:
  static constexpr uint64_t kMaxWindow = 64 << 20;  ///< bytes that are requested ahead

  /// The end of the bytes to request for a read of [from, to) by a reader that will probably read the bytes of
  /// `expected`; at least `to`. Without `expected`, at most a tenth of what was read in order.
  uint64_t end_for(uint64_t from, uint64_t to, const std::optional<ByteRange>& expected);

 private:
  struct Stream {
    uint64_t begin = 0;
    uint64_t next = UINT64_MAX;  ///< the end of its last read
    uint64_t window = 0;
    uint64_t requested = 0;  ///< the end of the bytes that were requested ahead
    uint64_t used = 0;       ///< the number of the last read that belonged to it
  };

  Stream& stream_at(uint64_t from, uint64_t to, uint64_t gap);

  std::array<Stream, 16> streams_;
  uint64_t reads_ = 0;
};

}  // namespace weightfs::blobs
