#include "base/values/value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/values/json.h"

namespace weightfs::value_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Map sample() {
  Map map;
  map.set("zeta", 1);
  map.set("alpha", Value(List{nullptr, true, "text"}));
  return map;
}

TEST(ToJson, KeepsTheOrderOfKeys) {
  EXPECT_EQ(to_json(sample()), "{\n  \"zeta\": 1,\n  \"alpha\": [\n    null,\n    true,\n    \"text\"\n  ]\n}\n");
  EXPECT_EQ(to_json_line(sample()), "{\"zeta\":1,\"alpha\":[null,true,\"text\"]}");
}

// semantics 5.2: values that JSON lacks are written as strings.
TEST(ToJson, WritesNonJsonNumbersAsStrings) {
  const List list{std::nan(""), kInfinity, -kInfinity, UINT64_MAX, INT64_MIN, 0.1, 1e300};
  EXPECT_EQ(to_json_line(list),
            "[\"NaN\",\"Infinity\",\"-Infinity\",18446744073709551615,-9223372036854775808,0.1,1e+300]");
}

TEST(ToJson, ReplacesInvalidUtf8) {
  Map map;
  map.set("k\xFF", "v\xFE");
  EXPECT_EQ(to_json_line(map), "{\"k%FF\":\"v\uFFFD\"}");
  std::string out;
  append_json_string(out, "a\"\\\n\x01\xFF");
  EXPECT_EQ(out, "\"a\\\"\\\\\\n\\u0001\uFFFD\"");
}

// semantics 5.3: TOML has no null, no unsigned 64-bit integers; it has nan and inf.
TEST(ToToml, ConvertsValuesThatTomlLacks) {
  Map map;
  map.set("none", nullptr);
  map.set("list", Value(List{1, nullptr, 2}));
  map.set("big", UINT64_MAX);
  map.set("most", static_cast<uint64_t>(INT64_MAX));
  map.set("nan", std::nan(""));
  map.set("inf", -kInfinity);
  EXPECT_EQ(to_toml(map),
            "big = \"18446744073709551615\"\ninf = -inf\nlist = [ 1, {}, 2 ]\nmost = 9223372036854775807\nnan = nan\n");
}

TEST(ToToml, QuotesKeysAndEscapesText) {
  Map map;
  map.set("general.name", "tab\t quote\" back\\ \x01 del\x7f");
  map.set("", "empty key");
  map.set("lines", "one\ntwo");
  const std::string toml = to_toml(map);
  EXPECT_NE(toml.find("\"general.name\" = "), std::string::npos) << toml;
  EXPECT_EQ(toml.find('\x01'), std::string::npos) << toml;
  EXPECT_EQ(toml.find('\x7f'), std::string::npos) << toml;
}

TEST(ToToml, QuotesKeysThatTomlPlusPlusParsesAsBare) {
  Map map;
  map.set("a\nb", 1);
  map.set("it's", "\uE000");
  EXPECT_EQ(to_toml(map), "\"a\\nb\" = 1\n\"it's\" = \"\uE000\"\n");
}

TEST(ToToml, KeepsLineBreaksAtTheBeginning) {
  Map map;
  map.set("a", "\n\nb");
  EXPECT_EQ(to_toml(map), "a = \"\\n\\nb\"\n");
}

TEST(ToToml, EmptyMapIsEmptyText) { EXPECT_EQ(to_toml(Map{}), ""); }

TEST(ShortestDecimal, PrintsAsTheFloatDoes) {
  EXPECT_EQ(to_json_line(List{shortest_decimal(0.1F), shortest_decimal(1e-5F), shortest_decimal(-INFINITY)}),
            "[0.1,1e-05,\"-Infinity\"]");
}

TEST(MapOfValues, ReplacesInPlace) {
  Map map = sample();
  map.set("zeta", 2);
  EXPECT_EQ(map.size(), 2U);
  EXPECT_EQ(std::get<int64_t>(*map.find("zeta")), 2);
  EXPECT_EQ(map.find("beta"), nullptr);
}

std::string parsed(const std::string& json) {
  const auto value = parse_json(*in_memory(json), 0, json.size());
  return value ? to_json_line(*value) : "error: " + value.error().message;
}

TEST(ParseJson, ReadsWhatRfc8259Allows) {
  EXPECT_EQ(parsed(" {\"a\": [1, -2, 18446744073709551615, 0.5, \"\\u00e9\", null, true]} \n"),
            "{\"a\":[1,-2,18446744073709551615,0.5,\"\u00e9\",null,true]}");
  EXPECT_EQ(parsed("\"\\\"\\\\\\/\\u0041\\ud83d\\ude00\xE2\x82\xAC\x7F\""), "\"\\\"\\\\/A\U0001F600\u20AC\\u007f\"");
  EXPECT_EQ(parsed("[-0,0,1e2,-1.5E+1,1e-400,18446744073709551616,-9223372036854775809]"),
            "[0,0,100.0,-15.0,0.0,1.8446744073709552e+19,-9.223372036854776e+18]");
  EXPECT_EQ(parsed("{\"a\":1,\"a\":2}"), "{\"a\":2}") << "the last one stands";
}

TEST(ParseJson, RefusesInvalidJson) {
  using namespace std::string_literals;
  for (const std::string& bad : {""s,
                                 " "s,
                                 "{"s,
                                 "{\"a\":}"s,
                                 "[1,]"s,
                                 "nul"s,
                                 "1 2"s,
                                 "\xEF\xBB\xBF{}"s,
                                 "{}\0"s,
                                 "{}\0x"s,
                                 "\"\x01\""s,
                                 "\"\\ud800\""s,
                                 "\"\xFF\""s,
                                 "01"s,
                                 "{\"a\":1}}"s,
                                 "NaN"s,
                                 "\"\\ud83d\\n\""s,
                                 "\"\\udc00\""s,
                                 "\"\\u12\""s,
                                 "\"\\x\""s,
                                 "\"\xED\xA0\x80\""s,
                                 "\"\xC0\xAF\""s,
                                 "\"\xF4\x90\x80\x80\""s,
                                 "\"\xE2\x82\""s,
                                 "\"a"s,
                                 "-"s,
                                 "-01"s,
                                 "1."s,
                                 ".5"s,
                                 "1e"s,
                                 "1e999"s,
                                 "+1"s,
                                 "[1 2]"s,
                                 "[,1]"s,
                                 "{,}"s,
                                 "{\"a\" 1}"s,
                                 "{\"a\":1,}"s,
                                 "{1:2}"s,
                                 "[}"s,
                                 "{]"s,
                                 "]"s,
                                 "truE"s,
                                 "[1]//"s})
    EXPECT_TRUE(parsed(bad).starts_with("error: ")) << bad;
}

TEST(ParseJson, AcceptsTheSameBytesAtEveryPlaceOfAString) {
  for (size_t length = 1; length <= 10; ++length)
    for (size_t place = 0; place < length; ++place)
      for (int byte = 0; byte < 256; ++byte) {
        std::string text(length, 'a');
        text[place] = static_cast<char>(byte);
        const bool is_literal = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
        const std::string json = '"' + text + '"';
        if (is_literal)
          EXPECT_EQ(parsed(json), byte == 0x7F ? to_json_line(text) : json);
        else
          EXPECT_TRUE(parsed(json).starts_with("error: ")) << byte << " at " << place << " of " << length;
      }
}

TEST(ParseJson, BoundsTheNesting) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(parsed(nested(kMaxDepth)), nested(kMaxDepth));
  EXPECT_EQ(parsed(nested(kMaxDepth + 1)), "error: JSON nested deeper than 100");
  EXPECT_TRUE(parsed(std::string(1'000'000, '[')).starts_with("error: "));
}

TEST(ParseJson, CrossesItsBufferAnywhere) {
  std::string json = "[";
  for (int i = 0; i < 30'000; ++i) json += "\"text number " + std::to_string(i) + "\",";
  json += "0]";
  EXPECT_EQ(parsed(json), json);
}

// semantics 5.3, round trip: parse_toml reads the output of to_toml.
TEST(ParseToml, ReadsEveryKindOfValue) {
  Budget budget(1000);
  const auto toml = parse_toml(R"(
b = true
i = -9223372036854775808
f = 0.5
s = "a\u00e9\n"
m = '''x
y'''
d = 1979-05-27T07:32:00Z
t = 07:32:00
l = [1, "two", [3.0, {four = 4}]]
[a.b]
c = 1
[[x]]
n = 1
[[x]]
n = 2
)",
                               budget);
  ASSERT_TRUE(toml) << toml.error().message;
  EXPECT_EQ(to_json_line(*toml),
            R"({"a":{"b":{"c":1}},"b":true,"d":"1979-05-27T07:32:00Z","f":0.5,"i":-9223372036854775808,)"
            R"("l":[1,"two",[3.0,{"four":4}]],"m":"x\ny","s":"aé\n","t":"07:32:00","x":[{"n":1},{"n":2}]})");
}

// toml++ asserts that a key follows a bracket, where it is built with assertions.
TEST(ParseToml, RefusesInputThatTomlPlusPlusAssertsOn) {
  for (const char* text : {"[=]", "[[=]]", "[ = ]", "[\"a\".=]", "[a.\x01]", "a.= 1", "a = {=}", "[#", "[\n]"}) {
    Budget budget(0);
    EXPECT_FALSE(parse_toml(text, budget)) << text;
    EXPECT_EQ(budget.memory_used(), 0u) << text;
  }
}

TEST(ParseToml, ReportsLineOfInvalidToml) {
  for (const char* text :
       {"a = ", "a = 1\na = 2", "[a", "a = \"\xFF\"", "= 1", "a = 1 b = 2", "a = 99999999999999999999"}) {
    Budget budget(0);
    const auto toml = parse_toml(text, budget);
    ASSERT_FALSE(toml) << text;
    EXPECT_EQ(budget.memory_used(), 0u) << text;
    EXPECT_EQ(toml.error().code, Code::corrupt);
    EXPECT_THAT(toml.error().message, testing::StartsWith("line ")) << text;
    for (const char c : toml.error().message) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << text;
  }
}

}  // namespace
}  // namespace weightfs::value_test
