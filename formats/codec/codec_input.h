// The input of the decoders in codec.cc and codec_xz.cc, and their construction.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "base/blobs.h"

namespace weightfs::codec {

/// A buffered reader of compressed bytes.
class Input {
 public:
  static constexpr size_t kBuffer = 128 * 1024;

  explicit Input(SourcePtr source)
      : source_(std::move(source)), buffer_(static_cast<size_t>(std::min<uint64_t>(kBuffer, source_->size()))) {}

  /// The bytes that were read and not consumed.
  std::span<std::byte> left() { return std::span(buffer_).subspan(begin_, end_ - begin_); }
  void consume(size_t count) { begin_ += count; }
  uint64_t position() const { return next_ - (end_ - begin_); }

  /// Whether the source has been read to its end.
  bool is_read() const { return next_ == source_->size(); }

  /// Reads more bytes after those that are left, until the buffer is full or the source ends.
  Result<void> fill() {
    if (begin_ < end_) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(buffer_.size() - end_, source_->size() - next_));
    const size_t got = TRY(source_->read_ahead(next_, std::span(buffer_).subspan(end_, wanted), {0, source_->size()}));
    next_ += got;
    end_ += got;
    return {};
  }

 private:
  SourcePtr source_;
  uint64_t next_ = 0;  // offset of the first unread byte
  std::vector<std::byte> buffer_;
  size_t begin_ = 0, end_ = 0;  // the unconsumed bytes in buffer_
};

/// Constructs a decoder, which allocates large buffers. Fails with Code::resource if memory is exhausted.
template <class Decoder>
Result<StreamPtr> decoder_of(SourcePtr compressed) {
  try {
    return std::make_unique<Decoder>(std::move(compressed));
  } catch (const std::bad_alloc&) {
    return failure(Code::resource, "out of memory");
  }
}

}  // namespace weightfs::codec
