// Sequential reader of numbers and strings in a range of a Source; never reads outside the range.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/source.h"

namespace weightfs {

/// Buffered and bounds-checked. Not thread-safe. The source outlives the cursor.
class Cursor {
 public:
  /// Reads [begin, end) of `source`; an `end` beyond the source is reduced to its end. Numbers have the byte order
  /// `order`.
  Cursor(const Source& source, uint64_t begin, uint64_t end, std::endian order = std::endian::little);

  uint64_t position() const { return buffer_begin_ + at_; }  ///< offset in the source of the next byte
  uint64_t left() const { return end_ - position(); }        ///< bytes up to the end of the range

  /// The next number. Fails with corrupt at the end of the range.
  template <class T>
  requires std::integral<T> || std::floating_point<T> Result<T> number() {
    if (buffer_.size() - at_ < sizeof(T)) TRY_VOID(fill(sizeof(T)));
    std::array<std::byte, sizeof(T)> bytes;
    std::memcpy(bytes.data(), buffer_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    if (order_ != std::endian::native) std::reverse(bytes.begin(), bytes.end());
    return std::bit_cast<T>(bytes);
  }

  /// The next `size` bytes. Checked against left() before anything is allocated.
  Result<std::string> text(uint64_t size);
  /// Reads them into `out`, whose memory is used again.
  Result<void> read_text(uint64_t size, std::string& out);

  /// The next bytes, which stay to be read: at least `least` (at most 65,536), or all that are left. They are valid
  /// until the next call. Fails as reads do.
  Result<std::string_view> ahead(size_t least = 1);

  /// Skips `size` bytes. Fails with corrupt if fewer are left.
  Result<void> skip(uint64_t size);

  /// Checks a count from the container: the range must have room for that many records of at least `smallest` bytes.
  /// Call it before reserving memory.
  Result<uint64_t> bounded(uint64_t count, uint64_t smallest);

  /// Whether one of these functions failed because the range ends too early.
  bool has_ended() const { return has_ended_; }

 private:
  Result<void> fill(size_t wanted);
  tl::unexpected<Error> ends(std::string message);

  const Source& source_;
  uint64_t end_;
  std::endian order_;
  uint64_t buffer_begin_;  // offset of buffer_[0] in the source
  size_t at_ = 0;          // the next byte in buffer_
  std::vector<std::byte> buffer_;
  uint64_t in_order_ = 0;      // bytes that were read one buffer after the other
  uint64_t expected_end_ = 0;  // of the bytes that will probably be read
  bool has_ended_ = false;
};

}  // namespace weightfs
