#include "formats/string_pool.h"

#include <gtest/gtest.h>

namespace weightfs::test::string_pool_test {
namespace {

TEST(StringPool, EqualTextsAreKeptAndChargedOnce) {
  Budget budget(1'000'000);
  std::list<std::string> texts;
  StringPool pool(texts);
  const std::string_view first = pool.add("INT4", budget).value_or("");
  EXPECT_EQ(first, "INT4");
  const uint64_t charged = budget.memory_used();
  EXPECT_EQ(pool.add(std::string("INT4"), budget).value_or("").data(), first.data());
  EXPECT_EQ(pool.add("INT4").data(), first.data());
  EXPECT_EQ(budget.memory_used(), charged);
  EXPECT_EQ(texts.size(), 1u);
}

}  // namespace
}  // namespace weightfs::test::string_pool_test
