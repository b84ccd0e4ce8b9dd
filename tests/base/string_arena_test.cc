#include "base/string_arena.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace weightfs::string_arena_test {
namespace {

TEST(StringArena, KeepsStringsOfAnyLengthAlsoWhenMoved) {
  StringArena arena;
  std::vector<std::string_view> kept;
  const auto text = [](size_t size) { return std::string(size, static_cast<char>('a' + size % 26)); };
  uint64_t total = 0;
  for (size_t size = 0; size < 300; ++size) {
    kept.push_back(arena.add(text(size)));
    total += size;
  }
  kept.push_back(arena.add(text(StringArena::kMaxBlockSize + 1)));
  EXPECT_EQ(arena.size(), total + StringArena::kMaxBlockSize + 1);
  const StringArena moved = std::move(arena);
  for (const std::string_view one : kept) EXPECT_EQ(one, text(one.size()));
}

}  // namespace
}  // namespace weightfs::string_arena_test
