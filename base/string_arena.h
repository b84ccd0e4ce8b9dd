// Owns many short strings without an allocation for each: the names of a million tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <memory>
#include <string_view>

namespace weightfs {

/// Owns strings in packed blocks, for up to millions of names. The strings are valid as long as the arena, also after
/// it is moved.
class StringArena {
 public:
  /// The size of the largest block; a longer string has a block of its own.
  static constexpr size_t kMaxBlockSize = 64 * 1024;

  std::string_view add(std::string_view text);  ///< the copy
  uint64_t size() const { return size_; }       ///< bytes of all strings

 private:
  std::forward_list<std::unique_ptr<char[]>> blocks_;  // the newest first
  size_t block_size_ = 64;                             // of the next block; the first one is smaller
  size_t left_ = 0;
  uint64_t size_ = 0;
};

}  // namespace weightfs
