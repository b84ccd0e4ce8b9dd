// The limits of TOML texts, which toml++ itself does not have.
#include "base/values/toml_limits.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/text.h"
#include "base/values/value.h"

namespace weightfs::toml_limits_test {
namespace {

using testing::HasSubstr;

std::string repeated(size_t count, const std::function<std::string(size_t)>& line) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += line(i);
  return text;
}

std::string joined(const std::string& part, size_t count, const std::string& between = ".") {
  std::string text = part;
  for (size_t i = 1; i < count; ++i) text += between + part;
  return text;
}

// "read", or the message.
std::string outcome(const std::string& text, uint64_t container = 0) {
  Budget budget(container);
  const auto map = parse_toml(text, budget);
  EXPECT_LE(budget.memory_used(), budget.memory_limit());
  if (!map) {
    EXPECT_EQ(budget.memory_used(), 0u);
  }
  return map ? "read" : map.error().message;
}

// 130 dots ended the fuzz target, 12,000 the server.
TEST(TomlDepth, IsBoundedForEveryConstruct) {
  const std::string refused = "line 1: TOML nested deeper than 100";
  for (const size_t depth : {101u, 130u, 12'000u, 1'000'000u}) {
    EXPECT_EQ(outcome(joined("a", depth) + "=1\n"), refused) << depth;
    EXPECT_EQ(outcome("[" + joined("a", depth) + "]\n"), refused) << depth;
    EXPECT_EQ(outcome("[[" + joined("a", depth) + "]]\n"), refused) << depth;
    EXPECT_EQ(outcome("a=" + std::string(depth, '[')), refused) << depth;
    EXPECT_EQ(outcome("a=" + joined("{a=", depth, "")), refused) << depth;
    EXPECT_EQ(outcome(joined("\"a\"", depth, " . ") + "=1\n"), refused) << depth;
    EXPECT_EQ(outcome(joined("'a'", depth, "\t.") + "=1\n"), refused) << depth;
  }
  EXPECT_EQ(outcome("\xEF\xBB\xBF[" + joined("a", 130) + "]\n"), refused);
}

TEST(TomlDepth, AddsUpHeadersKeysAndBrackets) {
  const std::string header = "[" + joined("h", 39) + "]\n";
  const auto keys = [](size_t count) { return joined("k", count + 1) + " = "; };
  EXPECT_EQ(outcome(header + keys(30) + std::string(30, '[') + std::string(30, ']')), "read");
  EXPECT_EQ(outcome(header + keys(30) + std::string(31, '[') + std::string(31, ']')),
            "line 2: TOML nested deeper than 100");
  EXPECT_EQ(outcome(header + "x = { " + keys(30) + std::string(29, '[') + std::string(29, ']') + " }"), "read");
  EXPECT_EQ(outcome(header + "x = { " + keys(30) + std::string(30, '[') + std::string(30, ']') + " }"),
            "line 2: TOML nested deeper than 100");
  EXPECT_EQ(outcome(header + "a = " + joined("[{a = ", 30, "") + "1" + joined("}]", 30, "")), "read");
  EXPECT_EQ(outcome(header + "a = " + joined("[{a = ", 31, "") + "1" + joined("}]", 31, "")),
            "line 2: TOML nested deeper than 100");
}

TEST(TomlDepth, CountsTheArrayBetweenTwoTables) {
  const auto of = [](size_t depth) {
    return repeated(depth, [](size_t i) { return "[[" + joined("a", i + 1) + "]]\n"; });
  };
  EXPECT_EQ(outcome(of(49)), "read");
  EXPECT_EQ(outcome(of(50)), "line 50: TOML nested deeper than 100");
}

TEST(TomlDepth, IgnoresStringsCommentsAndSiblings) {
  const std::string dots(1000, '.');
  const std::string brackets(1000, '[');
  EXPECT_EQ(outcome("\"" + dots + brackets + "\" = 1\n'" + dots + "' = 1\n"), "read");
  EXPECT_EQ(outcome("a = \"" + dots + brackets + "\\\"" + brackets + "\" # " + brackets + "\n# " + dots + "\n"),
            "read");
  EXPECT_EQ(outcome("a = \"\"\"" + brackets + "\"\"\"\"\"\nb = '''" + brackets + "'''''\nc = \"\\\\\"\n"), "read");
  EXPECT_EQ(outcome("a = '\\'\nb = \"\"\"\n" + brackets + "\n\"\" \\\"\"\" \"\"\"\nc = ''\n"), "read");
  EXPECT_EQ(outcome("a = [" + joined("1.5, 1979-05-27 07:32:00.999, 1e5, {}, []", 100, ",\n# [[[\n") + "]\n"), "read");
  EXPECT_EQ(outcome(repeated(500, [](size_t i) { return fmt::format("a.b.c{} = {{x.y = [[1], {{z = 1}}]}}\n", i); })),
            "read");
  EXPECT_EQ(outcome(repeated(500, [](size_t i) { return fmt::format("[a.b.c{}]\nx = [[\n[1]\n]]\n", i); })), "read");
  EXPECT_EQ(outcome(repeated(500, [](size_t) { return "[[tensor]]\nshape = [1, 2]\n[tensor.a.b]\n"; })), "read");
}

TEST(TomlLimits, ChargeRetainedValues) {
  Budget budget(0);
  const std::string text = "[a.b]\nc = [1, 2, {d = \"text\"}]\n";
  const auto map = parse_toml(text, budget);
  ASSERT_TRUE(map);
  Budget copy(0);
  ASSERT_TRUE(charge(footprint(*map), copy));
  EXPECT_GE(budget.memory_used(), copy.memory_used() - 128) << "without the root";
  EXPECT_LE(budget.memory_used(), 2 * copy.memory_used());
}

// A value takes a hundred times its two bytes.
// toml++ keeps more for a table with a header than for a key.
TEST(TomlLimits, TableWithHeaderCostsMoreThanKey) {
  const auto temporary = [](const char* text) {
    Budget budget(0);
    return measure_toml(text, budget).value().temporary;
  };
  EXPECT_GT(temporary("[a]\n"), temporary("a = 1\n"));
}

TEST(TomlLimits, DatesTakeNoSpareMemory) {
  Budget budget(0);
  const auto map = parse_toml("a = 1979-05-27T07:32:00Z\n", budget);
  const auto* const date = map->find_as<std::string>("a");
  ASSERT_NE(date, nullptr);
  EXPECT_EQ(*date, "1979-05-27T07:32:00Z");
  EXPECT_LT(date->capacity(), 2 * date->size());
}

TEST(TomlLimits, BoundTheValues) {
  EXPECT_EQ(outcome("a = [" + joined("0", 100'000, ",") + "]"), "read");
  EXPECT_THAT(outcome("a = [" + joined("{}", 1'000'000, ",") + "]"), HasSubstr("too many values: the memory limit"));
  EXPECT_THAT(outcome(repeated(500'000, [](size_t i) { return fmt::format("k{}=1\n", i); })), HasSubstr("limit"));
}

// toml++ looks for a table in a list of all of them: 466,000 lines took minutes.
TEST(TomlLimits, BoundTheSearchForTables) {
  EXPECT_THAT(outcome(repeated(150'000, [](size_t i) { return fmt::format("a{}.b{}=1\n", i / 2, i); }), 20'000'000),
              HasSubstr("too many steps: the time limit"));
  EXPECT_THAT(
      outcome(repeated(70'000, [](size_t i) { return fmt::format("[[a{}.b]]\n[[a{}.b]]\n", i, i); }), 20'000'000),
      HasSubstr("too many steps: the time limit"));
  EXPECT_EQ(
      outcome(repeated(20'000, [](size_t i) { return fmt::format("[[tensor]]\nname = \"{}\"\n", i); }), 20'000'000),
      "read");
  EXPECT_EQ(
      outcome(repeated(2'000, [](size_t i) { return joined("a", 99) + fmt::format(".k{} = 1\n", i); }), 20'000'000),
      "read");
}

}  // namespace
}  // namespace weightfs::toml_limits_test
