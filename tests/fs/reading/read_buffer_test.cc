// The memory of reads.
#include "fs/reading/read_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>

namespace weightfs::test::read_buffer_test {
namespace {

constexpr std::byte kTouched{1};

/// Takes `count` buffers, and touches them.
void take(std::deque<ReadBuffer>& buffers, size_t count) {
  for (size_t i = 0; i < count; ++i) std::ranges::fill(buffers.emplace_back().first(kMaxRead), kTouched);
}

TEST(ReadBuffer, MemoryIsUsedAgain) {
  std::deque<ReadBuffer> buffers;
  take(buffers, 1);
  const std::byte* const memory = buffers.front().first(1).data();
  buffers.clear();
  EXPECT_EQ(buffers.emplace_back().first(1).data(), memory);
}

// Threads that wait with a buffer that was used before would keep the memory of as many reads.
TEST(ReadBuffer, MemoryOfMoreReadersIsNotKept) {
  std::deque<ReadBuffer> kept;
  take(kept, ReadBuffer::kKept);
  std::deque<ReadBuffer> more;
  take(more, ReadBuffer::kKept);
  more.clear();
  for (size_t i = 0; i < ReadBuffer::kKept; ++i) EXPECT_EQ(more.emplace_back().first(1)[0], std::byte{0});
}

}  // namespace
}  // namespace weightfs::test::read_buffer_test
