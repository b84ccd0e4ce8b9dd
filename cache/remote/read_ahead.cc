#include "cache/remote/read_ahead.h"

#include <algorithm>

#include "cache/blocks/block_file.h"

namespace weightfs::blobs {
namespace {

using store::kBlock;

constexpr uint64_t kFirstRead = 1 << 20;    // ahead of the first bytes of a file: perhaps no others are read
constexpr uint64_t kFirstWindow = 8 << 20;  // ahead of the second read in order; twice as much ahead of each next
constexpr uint64_t kSmall = 256 << 10;      // requested whole
constexpr uint64_t kNear = 2 << 20;         // parallel reads of one reader arrive out of order by less

}  // namespace

ReadAhead::Stream& ReadAhead::stream_at(uint64_t from, uint64_t to, uint64_t gap) {
  const auto continues = [&](const Stream& stream) {
    return stream.next != UINT64_MAX && from <= stream.next + gap && to + gap >= stream.next && from >= stream.begin;
  };
  const auto found = std::find_if(streams_.begin(), streams_.end(), continues);
  if (found != streams_.end()) return *found;
  Stream& oldest = *std::min_element(streams_.begin(), streams_.end(),
                                     [](const Stream& a, const Stream& b) { return a.used < b.used; });
  oldest = {.begin = from, .next = from};
  return oldest;
}

uint64_t ReadAhead::end_for(uint64_t from, uint64_t to, const std::optional<ByteRange>& expected) {
  Stream& stream = stream_at(from, to, expected ? kNear : kBlock);
  stream.used = ++reads_;
  const bool is_first = stream.next == stream.begin;
  const bool is_new = to > stream.next;
  stream.next = std::max(stream.next, to);
  if (!expected) return to + (from - stream.begin) / 10 / kBlock * kBlock;
  if (expected->to - expected->from <= kSmall) return std::max(to, expected->to);
  if (is_first && from != expected->from) return to;
  if (is_first)
    stream.window = kFirstRead;
  else if (is_new)
    stream.window = std::clamp(2 * stream.window, kFirstWindow, kMaxWindow);
  if (stream.requested > stream.next + stream.window / 2) return to;
  stream.requested = std::max(to, std::min(expected->to, stream.next + stream.window));
  return stream.requested;
}

}  // namespace weightfs::blobs
