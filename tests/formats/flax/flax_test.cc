#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/values/json.h"
#include "formats/format.h"
#include "tests/builders/flax_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::flax_test {
namespace {

using namespace test;
using namespace test::msgpack;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Result<Model> read(std::string bytes) { return read_as("flax", Container{"m.msgpack", in_memory(std::move(bytes))}); }

Model read_well(std::string bytes) { return well(read(std::move(bytes))); }

std::string error_of(std::string bytes) { return error_in(read(std::move(bytes))); }

const std::string kGood = array({1}, "int8", "g");

// The warnings about a value `w` beside a good array, which is shown.
std::vector<std::string> warnings_of(const std::string& w) {
  const Model model = read_well(map({{"w", w}, {"good", kGood}}));
  EXPECT_EQ(listing(model).back(), "good int8 int8 [1] g");
  EXPECT_TRUE(model.tensors.front().source.refused());
  return model.warnings;
}

TEST(Flax, NamesAreKeysJoinedBySlashes) {
  const Model model = read_well(small_flax());
  EXPECT_EQ(model.format, "flax");
  EXPECT_THAT(listing(model), ElementsAre("params/w float32 float32 [2x2] wwwwwwwwwwwwwwww",
                                          "params/c int8 int8 [2x2] abcd", "s float16 float16 [] ss"));
  EXPECT_EQ(to_json_line(model.metadata), R"({"values":{"step":7}})");
  EXPECT_THAT(model.warnings, ElementsAre("1 other values are not shown"));
}

TEST(Flax, ArraysAreRangesOfFile) {
  const std::string bytes = small_flax();
  const Model model = read_well(bytes);
  EXPECT_EQ(model.tensors[0].source.offset(), bytes.find("wwww"));
  EXPECT_EQ(model.tensors[0].source.whole(), *model.parts[0].source.get());
}

TEST(Flax, ReadsTypesOfMlDtypes) {
  const Model model = read_well(map({{"a", array({1}, "bfloat16", "aa")},
                                     {"b", array({1}, "float8_e4m3fn", "b")},
                                     {"c", array({3}, "int4", "ccc")},
                                     {"d", array({2}, "bool", "dd")}}));
  EXPECT_THAT(listing(model), ElementsAre("a bfloat16 bfloat16 [1] aa", "b float8_e4m3fn float8_e4m3fn [1] b",
                                          "c int4 int4 [3] ccc", "d bool bool [2] dd"));
}

TEST(Flax, UnknownTypesAreShownAsBytes) {
  const Model model = read_well(map({{"w", array({1}, "str96", "123456789012")}, {"q", array({32}, "q4_0", "x")}}));
  EXPECT_THAT(listing(model), ElementsAre("w unknown str96 [1] 123456789012", "q unknown q4_0 [32] x"));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"w\": dtype \"str96\" is unknown; shown as bytes",
                                          "tensor \"q\": dtype \"q4_0\" is unknown; shown as bytes"));
}

TEST(Flax, ScalarsAreMetadata) {
  const Model model =
      read_well(map({{"a", map({{"f", "\xCB" + big(0x3FE0000000000000, 8)}, {"t", "\xC3"}, {"n", "\xC0"}})},
                     {"i", integer(-5)},
                     {"s", text("text")},
                     {"i", integer(6)},
                     {"long", text(std::string(5000, 'x'))},
                     {"good", kGood}}));
  EXPECT_EQ(to_json_line(model.metadata), R"({"values":{"a/f":0.5,"a/t":true,"a/n":null,"i":6,"s":"text"}})");
  EXPECT_THAT(model.warnings, ElementsAre("1 other values are not shown"));
}

TEST(Flax, InvalidArraysAreRefusedAlone) {
  EXPECT_THAT(warnings_of(array({1000}, "float32", "1234")),
              ElementsAre("tensor \"w\": 4 bytes, but its shape and dtype float32 need 4000: refused"));
  EXPECT_THAT(warnings_of(array({1ULL << 32, 1ULL << 32}, "int8", "1")),
              ElementsAre(HasSubstr("its shape and dtype int8 overflow 64 bits: refused")));
  EXPECT_THAT(warnings_of(array({1}, "object", "\x80\x04.")),
              ElementsAre("tensor \"w\": pickled objects, which are never opened: refused"));
  EXPECT_THAT(warnings_of(extension(1, list({list({integer(-1)}), text("int8"), binary("x")}))),
              ElementsAre("tensor \"w\": a dimension of size -1: refused"));
  EXPECT_THAT(warnings_of(extension(1, list({list({text("1")}), text("int8"), binary("x")}))),
              ElementsAre("tensor \"w\": a dimension is not an integer: refused"));
  for (const std::string& payload : {std::string(), list({}), size(3), list({size(1), size(2), size(3)})})
    EXPECT_EQ(warnings_of(extension(1, payload)).size(), 1U);
  EXPECT_THAT(warnings_of(extension(1, list({list({}), size(1), binary("x")}))),
              ElementsAre("tensor \"w\": no name of a dtype: refused"));
  EXPECT_THAT(warnings_of(extension(1, list({list({}), text("int8"), size(1)}))),
              ElementsAre("tensor \"w\": no bytes: refused"));
}

// The bytes of an array never reach out of its extension.
TEST(Flax, ArrayEndsWithItsExtension) {
  const std::string inner = list({list({size(9)}), text("int8"), "\xC4\x09"});
  EXPECT_THAT(warnings_of(extension(1, inner)), ElementsAre("tensor \"w\": its extension ends early: refused"));
}

TEST(Flax, ChunksAreJoinedByIndex) {
  const std::string swapped = map({{"__msgpack_chunked_array__", "\xC3"},
                                   {"chunks", map({{"1", array({2}, "int8", "cd")}, {"0", array({2}, "int8", "ab")}})},
                                   {"shape", map({{"1", size(4)}, {"0", size(1)}})}});
  EXPECT_THAT(listing(read_well(map({{"w", swapped}}))), ElementsAre("w int8 int8 [1x4] abcd"));
}

TEST(Flax, InvalidChunksAreRefusedAlone) {
  const auto chunks = [](const Entries& entries, const std::string& shape) {
    return map({{"__msgpack_chunked_array__", "\xC3"}, {"shape", shape}, {"chunks", map(entries)}});
  };
  const std::string two = map({{"0", size(2)}});
  const std::string one = array({1}, "int8", "a");
  EXPECT_THAT(warnings_of(chunks({{"0", one}, {"5", one}}, two)),
              ElementsAre("tensor \"w\": the index \"5\" among 2: refused"));
  EXPECT_THAT(warnings_of(chunks({{"0", one}, {"0", one}}, two)),
              ElementsAre("tensor \"w\": the index \"0\" among 2: refused"));
  EXPECT_THAT(warnings_of(chunks({{"00", one}, {"1", one}}, two)), ElementsAre(HasSubstr("the index \"00\" among 2")));
  EXPECT_THAT(warnings_of(chunks({{"0", one}, {"1", size(1)}}, two)),
              ElementsAre("tensor \"w\": a chunk is not an array: refused"));
  EXPECT_THAT(warnings_of(chunks({{"0", one}, {"1", array({1}, "uint8", "b")}}, two)),
              ElementsAre("tensor \"w\": chunks of several dtypes: refused"));
  EXPECT_THAT(warnings_of(chunks({{"0", one}}, two)),
              ElementsAre("tensor \"w\": 1 bytes, but its shape and dtype int8 need 2: refused"));
  EXPECT_THAT(warnings_of(chunks({}, two)), ElementsAre("tensor \"w\": 1 dimensions and 0 chunks: refused"));
  EXPECT_THAT(warnings_of(chunks({{"0", one}}, map({{"0", text("1")}}))),
              ElementsAre("tensor \"w\": a dimension is not a size: refused"));
}

TEST(Flax, RefusesOtherMessagePack) {
  EXPECT_EQ(error_of(map({{"hello", list({size(1), size(2)})}})), "flax: no array of Flax");
  EXPECT_EQ(error_of(list({kGood})), "flax: not a map");
  EXPECT_THAT(error_of("\x81" + size(1) + kGood), HasSubstr("flax: a key before byte 2 is not a text"));
}

TEST(Flax, BoundsDepth) {
  const auto nested = [](int maps) {
    std::string bytes = kGood;
    for (int i = 0; i < maps; ++i) bytes = map({{"a", bytes}});
    return bytes;
  };
  EXPECT_EQ(read_well(nested(kMaxDepth)).tensors.at(0).name.size(), 2U * kMaxDepth - 1);
  EXPECT_EQ(error_of(nested(kMaxDepth + 1)), "flax: nested deeper than 100 maps");
  std::string lists = size(1);
  for (int i = 0; i < 2 * kMaxDepth; ++i) lists = list({lists});
  EXPECT_EQ(error_of(map({{"a", lists}, {"good", kGood}})), "flax: nested deeper than 100 values");
}

TEST(Flax, BoundsPathsAndDimensions) {
  const std::string key(40'000, 'k');
  EXPECT_EQ(error_of(map({{key, map({{key, kGood}})}})), "flax: a path of 80001 bytes, at most 65535");
  const std::vector<uint64_t> most(kMaxDimensions + 1, 1);
  EXPECT_THAT(warnings_of(array(most, "int8", "x")),
              ElementsAre("tensor \"w\": 1025 dimensions, at most 1024: refused"));
}

TEST(Flax, BytesAfterTheMapAreIgnored) {
  EXPECT_THAT(read_well(map({{"good", kGood}}) + "more").warnings, ElementsAre("4 bytes after the map"));
}

TEST(Flax, IsDetectedByMapWithTextKey) {
  EXPECT_EQ(matches_flax(probe_of(small_flax())), Match::maybe);
  EXPECT_EQ(matches_flax(probe_of("\xDF" + big(1, 4) + text("a"))), Match::maybe);
  EXPECT_EQ(matches_flax(probe_of("\x81\x01")), Match::no);
  EXPECT_EQ(matches_flax(probe_of("\x80")), Match::no);
  EXPECT_EQ(matches_flax(probe_of("text")), Match::no);
}

}  // namespace
}  // namespace weightfs::flax_test
