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

// Alone, and with all the time of the world.
class TestWindow : public Window {
 public:
  TestWindow(uint64_t begins_at, std::optional<uint64_t> size)
      : Window(begins_at, size, std::make_shared<Memory>(kUnknown), std::chrono::hours(1)) {}
};

std::string taken(Window& window, size_t most = 1 << 20) {
  std::string out(most, '\0');
  const auto got = window.next(std::as_writable_bytes(std::span(out)));
  if (!got) return "nothing yet";
  if (!*got) return "error: " + got->error().message;
  return out.substr(0, **got);
}

Window::Took put(Window& window, const Window::PiecePtr& piece, std::string_view bytes) {
  return window.put(*piece, std::as_bytes(std::span(bytes))).took;
}

TEST(Window, TheLastByteIsKeptBackUntilItIsSure) {
  TestWindow window(0, 4);
  const auto piece = window.take_first();
  EXPECT_EQ(put(window, piece, "abcd"), Window::Took::all);
  EXPECT_EQ(taken(window), "abc");
  EXPECT_EQ(taken(window), "nothing yet");
  window.confirm(*piece);
  EXPECT_EQ(taken(window), "d");
  EXPECT_EQ(taken(window), "");
  EXPECT_EQ(window.take_first(), nullptr);
}

TEST(Window, WhatComesAfterTheEndIsTooLong) {
  TestWindow window(0, 4);
  EXPECT_EQ(put(window, window.take_first(), "abcde"), Window::Took::too_long);
}

TEST(Window, AnEndThatContradictsWhatCameIsRefused) {
  TestWindow window(0, std::nullopt);
  put(window, window.take_first(), "abcde");
  EXPECT_FALSE(window.set_end(4));
  EXPECT_TRUE(window.set_end(5));
  EXPECT_FALSE(window.set_end(6));
}

TEST(Window, AFailureComesAfterWhatIsThere) {
  TestWindow window(0, 4);
  put(window, window.take_first(), "ab");
  window.finish(failure(Code::network, "gone"));
  EXPECT_EQ(taken(window), "ab");
  EXPECT_EQ(taken(window), "error: gone");
}

TEST(Window, OneConnectionIsNeverFurtherAheadThanItMayBe) {
  constexpr size_t kAll = 3 * Window::kAhead;
  TestWindow window(0, kAll);
  const auto piece = window.take_first();
  std::thread brings([&] {
    const std::string block(300'000, 'x');
    for (size_t at = 0; at < kAll; at += block.size()) put(window, piece, block.substr(0, kAll - at));
    window.confirm(*piece);
  });
  size_t sum = 0;
  std::vector<std::byte> out(1 << 20);
  for (;;) {
    EXPECT_LE(window.progress().ready, Window::kAhead);
    const auto got = window.next(out);
    if (!got) continue;
    if (**got == 0) break;
    sum += **got;
  }
  brings.join();
  EXPECT_EQ(sum, kAll);
}

TEST(Window, HelpersAreNeverFurtherAheadThanTheyMayBe) {
  TestWindow window(0, 10 * Window::kMost);
  const auto first = window.take_first();
  ASSERT_TRUE(window.split());
  uint64_t planned = window.bounds(*first).second;
  EXPECT_EQ(planned, Window::kChunk);
  while (planned + Window::kChunk <= Window::kMost) planned = window.bounds(*window.take_chunk()).second;
  std::thread ends([&] { window.stop(); });
  EXPECT_EQ(window.take_chunk(), nullptr);
  ends.join();
}

// Helpers may plan so far and no further when there are so many windows.
void expect_planned(uint64_t most, size_t windows) {
  const auto all = std::make_shared<Memory>(2 * Window::kMost);
  std::vector<std::unique_ptr<Memory::Share>> others;
  while (all->shares() + 1 < windows) others.push_back(std::make_unique<Memory::Share>(all));
  Window window(0, 10 * Window::kMost, all, std::chrono::hours(1));
  const auto first = window.take_first();
  ASSERT_TRUE(window.split());
  uint64_t planned = window.bounds(*first).second;
  while (planned + Window::kChunk <= most) planned = window.bounds(*window.take_chunk()).second;
  auto more = std::async(std::launch::async, [&] { return window.take_chunk(); });
  EXPECT_EQ(more.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout) << windows;
  window.stop();
  EXPECT_EQ(more.get(), nullptr);
}

TEST(Window, SharesTheMemoryWithTheOthers) {
  expect_planned(Window::kMost, 1);
  expect_planned(Window::kMost, 2);
  expect_planned(Window::kMost / 2, 4);
  expect_planned(Window::kAhead, 16);
  expect_planned(Window::kAhead, 100);
}

TEST(Window, WhatIsDroppedIsNotCounted) {
  TestWindow window(0, 5 * Window::kChunk);
  const auto first = window.take_first();
  ASSERT_TRUE(window.split());
  const auto chunk = window.take_chunk();
  const std::byte some[3] = {};
  EXPECT_EQ(window.put(*chunk, some).count, 3u);
  window.join_up();
  EXPECT_EQ(window.put(*chunk, some).count, 0u);
  EXPECT_EQ(window.put(*chunk, some).took, Window::Took::dropped);
}

TEST(Window, WhatStandsStillIsAskedForAgainOnceByWhoIsFree) {
  Window window(0, 3 * Window::kChunk, std::make_shared<Memory>(Window::kUnknown), std::chrono::milliseconds(0));
  const auto first = window.take_first();
  ASSERT_TRUE(window.split());
  const auto still = window.take_chunk();
  const auto behind = window.take_chunk();
  const std::string chunk(Window::kChunk, 'a');
  put(window, first, chunk);
  window.give_back(first);
  put(window, still, "bcd");
  put(window, behind, chunk);
  window.confirm(*behind);
  window.give_back(behind);
  EXPECT_EQ(taken(window, Window::kChunk), chunk);
  EXPECT_EQ(taken(window), "bcd");
  EXPECT_EQ(taken(window), "nothing yet");
  EXPECT_EQ(put(window, still, "e"), Window::Took::all);  // nobody else was free
  EXPECT_EQ(taken(window), "e");
  auto leader = std::async(std::launch::async, [&] { return window.take_first(); });
  while (leader.wait_for(std::chrono::seconds(0)) != std::future_status::ready) EXPECT_EQ(taken(window), "nothing yet");
  const auto again = leader.get();
  EXPECT_EQ(window.bounds(*again), std::pair(Window::kChunk + 4, 2 * Window::kChunk));
  EXPECT_EQ(put(window, still, "x"), Window::Took::dropped);
  auto other = std::async(std::launch::async, [&] { return window.take_first(); });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(taken(window), "nothing yet");
  EXPECT_EQ(put(window, again, "f"), Window::Took::all);
  EXPECT_EQ(taken(window), "f");
  window.stop();
  EXPECT_EQ(other.get(), nullptr);
}

TEST(Window, JoinedUpTheLeaderGoesOnAndWhatHelpersHaveIsDropped) {
  TestWindow window(0, 5 * Window::kChunk);
  const auto first = window.take_first();
  ASSERT_TRUE(window.split());
  const auto chunk = window.take_chunk();
  put(window, chunk, "something");
  window.join_up();
  EXPECT_EQ(put(window, chunk, "more"), Window::Took::dropped);
  EXPECT_EQ(window.bounds(*first).second, 5 * Window::kChunk);
  EXPECT_EQ(window.take_chunk(), nullptr);
}

TEST(Window, JoinedUpTheLeaderTakesWhatAHelperHadInFront) {
  TestWindow window(0, 5 * Window::kChunk);
  const auto first = window.take_first();
  ASSERT_TRUE(window.split());
  const auto chunk = window.take_chunk();
  put(window, first, std::string(Window::kChunk, 'a'));
  put(window, chunk, "bcd");
  window.give_back(first);
  window.join_up();
  const auto rest = window.take_first();
  EXPECT_EQ(window.bounds(*rest), std::pair(Window::kChunk + 3, 5 * Window::kChunk));
  EXPECT_EQ(put(window, chunk, "x"), Window::Took::dropped);
  EXPECT_EQ(taken(window, Window::kChunk), std::string(Window::kChunk, 'a'));
  EXPECT_EQ(taken(window), "bcd");
}

}  // namespace
}  // namespace weightfs
