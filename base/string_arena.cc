#include "base/string_arena.h"

#include <algorithm>
#include <cstring>

namespace weightfs {

std::string_view StringArena::add(std::string_view text) {
  size_ += text.size();
  if (text.size() > left_) {
    // Most of many arenas have one string: the first block takes the least that malloc gives.
    constexpr size_t kFirstBlock = 24;
    left_ = std::max(blocks_.empty() ? kFirstBlock : block_size_, text.size());
    if (!blocks_.empty()) block_size_ = std::min(2 * block_size_, kMaxBlockSize);
    blocks_.push_front(std::make_unique_for_overwrite<char[]>(left_));
    // The newest block is filled from its end, so that one number is enough for its free space.
  }
  left_ -= text.size();
  char* at = blocks_.empty() ? nullptr : blocks_.front().get() + left_;
  if (!text.empty()) std::memcpy(at, text.data(), text.size());
  return {at, text.size()};
}

}  // namespace weightfs
