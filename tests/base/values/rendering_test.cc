// Renderings of container metadata: bounded, and charged before they are built.
#include "base/values/rendering.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "base/values/json.h"
#include "base/values/value.h"

namespace weightfs::rendering_test {
namespace {

using testing::HasSubstr;

// A map in a map, so many of them.
Map nested(int depth, const Value& inside = 1) {
  Map map;
  map.append("a", inside);
  for (int i = 1; i < depth; ++i) {
    Map outer;
    outer.append("a", std::move(map));
    map = std::move(outer);
  }
  return map;
}

TEST(ToJson, IndentsDownToDepth16) {
  const std::string json = to_json(nested(100));
  const std::string line = to_json_line(nested(100 - kMaxIndent));
  EXPECT_THAT(json, HasSubstr("\n" + std::string(2 * kMaxIndent, ' ') + "\"a\": " + line + "\n"));
  EXPECT_EQ(std::count(json.begin(), json.end(), '\n'), 2 * kMaxIndent + 1);
  EXPECT_EQ(to_json_line(*parse_json(*in_memory(json), 0, json.size())), to_json_line(nested(100)));
}

TEST(ToJson, EscapesStrings) {
  EXPECT_EQ(to_json_line(List{std::string("\0\x1f\x7f\b\f\n\r\t\"\\/", 11), "é日\U0001F600", "\xF0\x9F", "a\xFFz"}),
            "[\"\\u0000\\u001f\\u007f\\b\\f\\n\\r\\t\\\"\\\\/\",\"é日\U0001F600\",\"\uFFFD\uFFFD\",\"a\uFFFDz\"]");
  EXPECT_EQ(to_json_line(List{"\u007e\u0080\u009b\u009f\u00a0\u2028"}),
            "[\"\u007e\\u0080\\u009b\\u009f\u00a0\u2028\"]");
  Map map;
  map.set("\u009b", true);
  EXPECT_EQ(to_json_line(map), "{\"\\u009b\":true}");
  EXPECT_EQ(to_json(List{}), "[]\n");
  EXPECT_EQ(to_json(Map{}), "{}\n");
}

TEST(ToToml, IndentsTablesDownToDepth16) {
  List list;
  list.emplace_back(nested(1));
  Value value = list;
  for (int i = 0; i < 45; ++i) {
    Map map;
    map.append("x", 1);
    map.append("a", std::move(value));
    value = std::move(map);
  }
  const std::string toml = to_toml(std::get<Map>(value));
  EXPECT_THAT(toml, HasSubstr("\n" + std::string(4 * kMaxIndent, ' ') + "[a.a"));
  EXPECT_EQ(toml.find("\n" + std::string(4 * kMaxIndent + 1, ' ')), toml.npos);
  Budget budget(1'000'000);
  const auto back = parse_toml(toml, budget);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(to_toml(*back), toml);
}

TEST(ToToml, BreaksLongArraysAndPutsTablesUnderHeaders) {
  Map map;
  map.append("z", List{std::string(60, 'a'), std::string(60, 'b')});
  map.append("t", Value(List{Value(nested(1)), Value(nullptr), Value(nested(2))}));
  map.append("a", nested(2, 0.1));
  EXPECT_EQ(to_toml(map), "z = [\n    \"" + std::string(60, 'a') + "\",\n    \"" + std::string(60, 'b') +
                              "\"\n]\n\n[a.a]\na = 0.10000000000000001\n\n[[t]]\na = 1\n\n[[t]]\n\n[[t]]\n\n"
                              "    [t.a]\n    a = 1\n");
}

TEST(Rendered, IsChargedExactlyAndReleased) {
  Budget budget(0);
  const Map map = nested(20);
  const std::string json = *to_json(Value(map), budget);
  EXPECT_EQ(json, to_json(Value(map)));
  EXPECT_EQ(budget.memory_used(), json.size());
  const std::string toml = *to_toml(map, budget);
  EXPECT_EQ(toml, to_toml(map));
  EXPECT_EQ(budget.memory_used(), json.size() + toml.size());
  const auto shared = std::make_shared<Budget>(0);
  SourcePtr bytes = charged_text(*to_json(Value(map), *shared), shared);
  EXPECT_EQ(*read_text(*bytes, 0, bytes->size()), json);
  EXPECT_EQ(shared->memory_used(), json.size());
  bytes = nullptr;
  EXPECT_EQ(shared->memory_used(), 0u);
}

// The header of each table has the keys of all tables around it: a few kilobytes became gigabytes.
TEST(Rendered, BeyondBudgetFailsBeforeBuilding) {
  const std::string key(1'000'000, 'k');
  Map leaves;
  for (int i = 0; i < 1'000; ++i) {
    Map leaf;
    leaf.append("x", i);
    leaves.append(std::to_string(i), std::move(leaf));
  }
  Map map;
  map.append(key, std::move(leaves));
  Budget budget(1'000'000);
  const auto toml = to_toml(map, budget);
  ASSERT_FALSE(toml);
  EXPECT_EQ(toml.error().code, Code::unsupported);
  EXPECT_THAT(toml.error().message, HasSubstr("too many bytes of rendered text: the memory limit of"));
  EXPECT_EQ(budget.memory_used(), 0u);
  EXPECT_TRUE(to_json(Value(std::move(map)), budget)) << "where the key stands once";

  const auto json = to_json(std::string(13'000'000, '\0'), budget);
  ASSERT_FALSE(json);
  EXPECT_THAT(json.error().message, HasSubstr("too many bytes of rendered text"));
}

TEST(ParseJson, ChargesValuesAndTexts) {
  Budget budget(0);
  const std::string json = R"({"key": ["text", 1, {}], "key": 2})";
  ASSERT_TRUE(parse_json(*in_memory(json), 0, json.size(), budget));
  Budget expected(0);
  ASSERT_TRUE(expected.charge(Cost::value, 6 + 2));
  ASSERT_TRUE(expected.charge(Cost::kept, 3 + 3 + 4));
  EXPECT_EQ(budget.memory_used(), expected.memory_used());
}

TEST(ParseJson, StopsAtBudgetLimit) {
  for (const char* one : {"[],", "{},", "0,", "{\"\":0},", "\"\","}) {
    std::string json = "[";
    while (json.size() < 4'000'000) json += one;
    json += "0]";
    Budget budget(0);
    const auto value = parse_json(*in_memory(json), 0, json.size(), budget);
    ASSERT_FALSE(value) << one;
    EXPECT_THAT(value.error().message, HasSubstr("too many values: the")) << one;
    EXPECT_EQ(budget.memory_used(), 0u) << one;
  }
}

}  // namespace
}  // namespace weightfs::rendering_test
