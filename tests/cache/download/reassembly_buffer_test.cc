#include "cache/download/reassembly_buffer.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace weightfs {
namespace {

using namespace download;

// Without other shares and without timeouts.
class TestBuffer : public ReassemblyBuffer {
 public:
  TestBuffer(uint64_t begins_at, std::optional<uint64_t> size)
      : ReassemblyBuffer(begins_at, size, std::make_shared<MemoryBudget>(kUnknown), std::chrono::hours(1)) {}
};

std::string taken(ReassemblyBuffer& buffer, size_t most = 1 << 20) {
  std::string out(most, '\0');
  const auto got = buffer.next(std::as_writable_bytes(std::span(out)));
  if (!got) return "nothing yet";
  if (!*got) return "error: " + got->error().message;
  return out.substr(0, **got);
}

ReassemblyBuffer::PutStatus put(ReassemblyBuffer& buffer, const ReassemblyBuffer::ChunkPtr& chunk,
                                std::string_view bytes) {
  return buffer.put(*chunk, std::as_bytes(std::span(bytes))).status;
}

TEST(ReassemblyBuffer, LastByteIsWithheldUntilEndIsConfirmed) {
  TestBuffer buffer(0, 4);
  const auto chunk = buffer.take_first_missing();
  EXPECT_EQ(put(buffer, chunk, "abcd"), ReassemblyBuffer::PutStatus::accepted);
  EXPECT_EQ(taken(buffer), "abc");
  EXPECT_EQ(taken(buffer), "nothing yet");
  buffer.confirm(*chunk);
  EXPECT_EQ(taken(buffer), "d");
  EXPECT_EQ(taken(buffer), "");
  EXPECT_EQ(buffer.take_first_missing(), nullptr);
}

TEST(ReassemblyBuffer, BytesPastEndAreRejected) {
  TestBuffer buffer(0, 4);
  EXPECT_EQ(put(buffer, buffer.take_first_missing(), "abcde"), ReassemblyBuffer::PutStatus::past_end);
}

TEST(ReassemblyBuffer, ContradictoryEndIsRejected) {
  TestBuffer buffer(0, std::nullopt);
  put(buffer, buffer.take_first_missing(), "abcde");
  EXPECT_FALSE(buffer.set_end(4));
  EXPECT_TRUE(buffer.set_end(5));
  EXPECT_FALSE(buffer.set_end(6));
}

TEST(ReassemblyBuffer, ErrorFollowsBufferedBytes) {
  TestBuffer buffer(0, 4);
  put(buffer, buffer.take_first_missing(), "ab");
  buffer.finish(failure(Code::network, "gone"));
  EXPECT_EQ(taken(buffer), "ab");
  EXPECT_EQ(taken(buffer), "error: gone");
}

TEST(ReassemblyBuffer, OneConnectionStaysWithinMaxAhead) {
  constexpr size_t kAll = 3 * ReassemblyBuffer::kMaxAheadPerConnection;
  TestBuffer buffer(0, kAll);
  const auto chunk = buffer.take_first_missing();
  std::thread brings([&] {
    const std::string block(300'000, 'x');
    for (size_t at = 0; at < kAll; at += block.size()) put(buffer, chunk, block.substr(0, kAll - at));
    buffer.confirm(*chunk);
  });
  size_t sum = 0;
  std::vector<std::byte> out(1 << 20);
  for (;;) {
    EXPECT_LE(buffer.progress().ready, ReassemblyBuffer::kMaxAheadPerConnection);
    const auto got = buffer.next(out);
    if (!got) continue;
    if (**got == 0) break;
    sum += **got;
  }
  brings.join();
  EXPECT_EQ(sum, kAll);
}

TEST(ReassemblyBuffer, HelpersStayWithinMaxAhead) {
  TestBuffer buffer(0, 10 * ReassemblyBuffer::kMaxAhead);
  const auto first = buffer.take_first_missing();
  ASSERT_TRUE(buffer.split());
  uint64_t planned = buffer.bounds(*first).second;
  EXPECT_EQ(planned, ReassemblyBuffer::kChunkSize);
  while (planned + ReassemblyBuffer::kChunkSize <= ReassemblyBuffer::kMaxAhead)
    planned = buffer.bounds(*buffer.take_parallel()).second;
  std::thread ends([&] { buffer.stop(); });
  EXPECT_EQ(buffer.take_parallel(), nullptr);
  ends.join();
}

// Helpers may plan up to `most` with this number of shares.
void expect_planned(uint64_t most, size_t windows) {
  const auto all = std::make_shared<MemoryBudget>(2 * ReassemblyBuffer::kMaxAhead);
  std::vector<std::unique_ptr<MemoryBudget::Share>> others;
  while (others.size() + 1 < windows) others.push_back(std::make_unique<MemoryBudget::Share>(all));
  ReassemblyBuffer buffer(0, 10 * ReassemblyBuffer::kMaxAhead, all, std::chrono::hours(1));
  const auto first = buffer.take_first_missing();
  ASSERT_TRUE(buffer.split());
  uint64_t planned = buffer.bounds(*first).second;
  while (planned + ReassemblyBuffer::kChunkSize <= most) planned = buffer.bounds(*buffer.take_parallel()).second;
  auto more = std::async(std::launch::async, [&] { return buffer.take_parallel(); });
  EXPECT_EQ(more.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout) << windows;
  buffer.stop();
  EXPECT_EQ(more.get(), nullptr);
}

TEST(ReassemblyBuffer, SharesMemoryBudget) {
  expect_planned(ReassemblyBuffer::kMaxAhead, 1);
  expect_planned(ReassemblyBuffer::kMaxAhead, 2);
  expect_planned(ReassemblyBuffer::kMaxAhead / 2, 4);
  expect_planned(ReassemblyBuffer::kMaxAheadPerConnection, 16);
  expect_planned(ReassemblyBuffer::kMaxAheadPerConnection, 100);
}

TEST(ReassemblyBuffer, DroppedBytesAreNotCounted) {
  TestBuffer buffer(0, 5 * ReassemblyBuffer::kChunkSize);
  const auto first = buffer.take_first_missing();
  ASSERT_TRUE(buffer.split());
  const auto chunk = buffer.take_parallel();
  const std::byte some[3] = {};
  EXPECT_EQ(buffer.put(*chunk, some).count, 3u);
  buffer.switch_to_single();
  EXPECT_EQ(buffer.put(*chunk, some).count, 0u);
  EXPECT_EQ(buffer.put(*chunk, some).status, ReassemblyBuffer::PutStatus::dropped);
}

TEST(ReassemblyBuffer, StalledChunkIsReassignedOnce) {
  ReassemblyBuffer buffer(0, 3 * ReassemblyBuffer::kChunkSize,
                          std::make_shared<MemoryBudget>(ReassemblyBuffer::kUnknown), std::chrono::milliseconds(0));
  const auto first = buffer.take_first_missing();
  ASSERT_TRUE(buffer.split());
  const auto still = buffer.take_parallel();
  const auto behind = buffer.take_parallel();
  const std::string chunk(ReassemblyBuffer::kChunkSize, 'a');
  put(buffer, first, chunk);
  buffer.release(first);
  put(buffer, still, "bcd");
  put(buffer, behind, chunk);
  buffer.confirm(*behind);
  buffer.release(behind);
  EXPECT_EQ(taken(buffer, ReassemblyBuffer::kChunkSize), chunk);
  EXPECT_EQ(taken(buffer), "bcd");
  EXPECT_EQ(taken(buffer), "nothing yet");
  EXPECT_EQ(put(buffer, still, "e"), ReassemblyBuffer::PutStatus::accepted);  // no other connection was idle
  EXPECT_EQ(taken(buffer), "e");
  auto leader = std::async(std::launch::async, [&] { return buffer.take_first_missing(); });
  while (leader.wait_for(std::chrono::seconds(0)) != std::future_status::ready) EXPECT_EQ(taken(buffer), "nothing yet");
  const auto again = leader.get();
  EXPECT_EQ(buffer.bounds(*again), std::pair(ReassemblyBuffer::kChunkSize + 4, 2 * ReassemblyBuffer::kChunkSize));
  EXPECT_EQ(put(buffer, still, "x"), ReassemblyBuffer::PutStatus::dropped);
  auto other = std::async(std::launch::async, [&] { return buffer.take_first_missing(); });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(taken(buffer), "nothing yet");
  EXPECT_EQ(put(buffer, again, "f"), ReassemblyBuffer::PutStatus::accepted);
  EXPECT_EQ(taken(buffer), "f");
  buffer.stop();
  EXPECT_EQ(other.get(), nullptr);
}

TEST(ReassemblyBuffer, SwitchToSingleDropsHelperChunks) {
  TestBuffer buffer(0, 5 * ReassemblyBuffer::kChunkSize);
  const auto first = buffer.take_first_missing();
  ASSERT_TRUE(buffer.split());
  const auto chunk = buffer.take_parallel();
  put(buffer, chunk, "something");
  buffer.switch_to_single();
  EXPECT_EQ(put(buffer, chunk, "more"), ReassemblyBuffer::PutStatus::dropped);
  EXPECT_EQ(buffer.bounds(*first).second, 5 * ReassemblyBuffer::kChunkSize);
  EXPECT_EQ(buffer.take_parallel(), nullptr);
}

TEST(ReassemblyBuffer, SwitchToSingleKeepsContiguousHelperChunk) {
  TestBuffer buffer(0, 5 * ReassemblyBuffer::kChunkSize);
  const auto first = buffer.take_first_missing();
  ASSERT_TRUE(buffer.split());
  const auto chunk = buffer.take_parallel();
  put(buffer, first, std::string(ReassemblyBuffer::kChunkSize, 'a'));
  put(buffer, chunk, "bcd");
  buffer.release(first);
  buffer.switch_to_single();
  const auto rest = buffer.take_first_missing();
  EXPECT_EQ(buffer.bounds(*rest), std::pair(ReassemblyBuffer::kChunkSize + 3, 5 * ReassemblyBuffer::kChunkSize));
  EXPECT_EQ(put(buffer, chunk, "x"), ReassemblyBuffer::PutStatus::dropped);
  EXPECT_EQ(taken(buffer, ReassemblyBuffer::kChunkSize), std::string(ReassemblyBuffer::kChunkSize, 'a'));
  EXPECT_EQ(taken(buffer), "bcd");
}

}  // namespace
}  // namespace weightfs
