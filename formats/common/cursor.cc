#include "formats/common/cursor.h"

#include <fmt/core.h>

#include "base/text.h"
#include "formats/grouped.h"

namespace weightfs {
namespace {

constexpr uint64_t kBufferSize = 64 * 1024;
constexpr uint64_t kMostAhead = 8 << 20;

}  // namespace

Cursor::Cursor(const Source& source, uint64_t begin, uint64_t end, std::endian order)
    : source_(source), end_(std::min(end, source.size())), order_(order), buffer_begin_(std::min(begin, end_)) {}

tl::unexpected<Error> Cursor::ends(std::string message) {
  has_ended_ = true;
  return failure(Code::corrupt, std::move(message));
}

// Makes at least `wanted` (at most kBufferSize) bytes available at at_.
Result<void> Cursor::fill(size_t wanted) {
  if (left() < wanted)
    return ends(fmt::format("ends at byte {}, {} needed at {}", end_, counted_bytes(wanted), position()));
  buffer_begin_ = position();
  at_ = 0;
  buffer_.resize(static_cast<size_t>(std::min(kBufferSize, end_ - buffer_begin_)));
  if (buffer_begin_ + buffer_.size() > expected_end_) {
    // How long a header is may be known only when it has been read. A server is asked for twice as much each time.
    const uint64_t ahead = std::clamp<uint64_t>(in_order_, buffer_.size(), kMostAhead);
    expected_end_ = std::min(end_, buffer_begin_ + ahead);
  }
  in_order_ += buffer_.size();
  return read_exact(source_, buffer_begin_, buffer_, {buffer_begin_, expected_end_});
}

Result<std::string> Cursor::text(uint64_t size) {
  std::string out;
  TRY_VOID(read_text(size, out));
  return out;
}

Result<void> Cursor::read_text(uint64_t size, std::string& out) {
  if (size > left()) return ends(fmt::format("a string of {} bytes at {}, {} left", size, position(), left()));
  if (size > buffer_.size() - at_ && size <= kBufferSize) TRY_VOID(fill(static_cast<size_t>(size)));
  if (size <= buffer_.size() - at_) {
    const auto* begin = reinterpret_cast<const char*>(buffer_.data() + at_);
    at_ += static_cast<size_t>(size);
    out.assign(begin, static_cast<size_t>(size));
    return {};
  }
  out = TRY(weightfs::read_text(source_, position(), size));
  return skip(size);
}

Result<std::string_view> Cursor::ahead(size_t least) {
  const auto wanted = static_cast<size_t>(std::min<uint64_t>(least, left()));
  if (buffer_.size() - at_ < wanted) TRY_VOID(fill(wanted));
  return std::string_view(reinterpret_cast<const char*>(buffer_.data()) + at_, buffer_.size() - at_);
}

Result<void> Cursor::skip(uint64_t size) {
  if (size > left()) return ends(fmt::format("{} bytes to skip at {}, {} left", size, position(), left()));
  if (size <= buffer_.size() - at_) {
    at_ += static_cast<size_t>(size);
  } else {
    if (size - (buffer_.size() - at_) > kBufferSize) in_order_ = 0;
    buffer_begin_ = position() + size;
    at_ = 0;
    buffer_.clear();
  }
  return {};
}

Result<uint64_t> Cursor::bounded(uint64_t count, uint64_t smallest) {
  if (count > left() / smallest)
    return ends(fmt::format("a count of {} at {}, {} left", count, position(), counted_bytes(left())));
  return count;
}

}  // namespace weightfs
