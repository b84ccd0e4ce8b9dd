#include "cache/fetch_window.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>

namespace weightfs {
namespace {

std::string taken(Window& window, size_t most = 1 << 20) {
  std::string out(most, '\0');
  const auto got = window.next(std::as_writable_bytes(std::span(out)));
  if (!got) return "nothing yet";
  if (!*got) return "error: " + got->error().message;
  return out.substr(0, **got);
}

Window::Took put(Window& window, const Window::PiecePtr& piece, std::string_view bytes) {
  return window.put(*piece, std::as_bytes(std::span(bytes)));
}

TEST(Window, TheLastByteIsKeptBackUntilItIsSure) {
  Window window(0, 4);
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
  Window window(0, 4);
  EXPECT_EQ(put(window, window.take_first(), "abcde"), Window::Took::too_long);
}

TEST(Window, AnEndThatContradictsWhatCameIsRefused) {
  Window window(0, std::nullopt);
  put(window, window.take_first(), "abcde");
  EXPECT_FALSE(window.set_end(4));
  EXPECT_TRUE(window.set_end(5));
  EXPECT_FALSE(window.set_end(6));
}

TEST(Window, AFailureComesAfterWhatIsThere) {
  Window window(0, 4);
  put(window, window.take_first(), "ab");
  window.finish(failure(Code::unreachable, "gone"));
  EXPECT_EQ(taken(window), "ab");
  EXPECT_EQ(taken(window), "error: gone");
}

TEST(Window, OneConnectionIsNeverFurtherAheadThanItMayBe) {
  constexpr size_t kAll = 3 * Window::kAhead;
  Window window(0, kAll);
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
  Window window(0, 10 * Window::kMost);
  const auto first = window.take_first();
  ASSERT_TRUE(window.split());
  uint64_t planned = window.bounds(*first).second;
  EXPECT_EQ(planned, Window::kChunk);
  while (planned + Window::kChunk <= Window::kMost) planned = window.bounds(*window.take_chunk()).second;
  std::thread ends([&] { window.stop(); });
  EXPECT_EQ(window.take_chunk(), nullptr);
  ends.join();
}

TEST(Window, JoinedUpTheLeaderGoesOnAndWhatHelpersHaveIsDropped) {
  Window window(0, 5 * Window::kChunk);
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
  Window window(0, 5 * Window::kChunk);
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
