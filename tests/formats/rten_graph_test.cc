#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/rten_reading.h"

namespace weightfs {
namespace {

using namespace test::rten;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// An operator's attributes as graph.json has them.
std::string attributes(uint8_t type, uint8_t tag, Ref attrs) {
  const std::string json =
      graph_of(read_well(version2(model_of(graph({op("o", type, {}, {}, tag, std::move(attrs))})))));
  const size_t begin = json.find("\"attrs\":");
  return begin == std::string::npos ? "none" : json.substr(begin + 8, json.size() - begin - 8 - 4);
}

TEST(RtenGraph, RendersTheGraphANodePerLine) {
  EXPECT_EQ(graph_of(read_well(small_rten())),
            R"({"inputs":[1],"outputs":[1],"captures":null,"nodes":[
  {"id":0,"name":"w","kind":"constant","dtype":"int8","shape":[3],"storage":"inline","offset":1152,"nbytes":3},
  {"id":1,"name":"x","kind":"value","dtype":"float32","shape":["batch",4]},
  {"id":2,"name":"if","kind":"operator","op":"If","inputs":[1,0],"outputs":[1],"attrs":{"then_branch":{"inputs":[],"outputs":[0],"captures":null,"nodes":[
    {"id":0,"name":"w","kind":"constant","dtype":"float32","shape":[2],"storage":"external","offset":1216,"nbytes":8}]},"else_branch":null}},
  {"id":3,"name":"pad","kind":"operator","op":"Pad","inputs":[0],"outputs":[1],"attrs":{"mode":"Reflect"}}]}
)");
}

TEST(RtenGraph, ShowsWhatTheRuntimeWouldRefuseAndSaysSo) {
  const Model model = read_well(version2(model_of(
      graph({op("new", 200, {}, {}), op("ahead", 0, {-1, 2}, {}), op("out", 0, {0}, {9}), node("odd", 7, table({}))},
            {4}, {5}))));
  EXPECT_THAT(model.warnings,
              ElementsAre("input 4: is none of the graph's 4 nodes", "output 5: is none of the graph's 4 nodes",
                          R"(node 0 "new": is an operator unknown(200))",
                          R"(node 1 "ahead": has input 2, which is not before it)",
                          R"(node 2 "out": has output 9, which is none of the graph's 4 nodes)",
                          R"(node 3 "odd": is of kind unknown(7))"));
  EXPECT_EQ(graph_of(model), R"json({"inputs":[4],"outputs":[5],"captures":null,"nodes":[
  {"id":0,"name":"new","kind":"operator","op":"unknown(200)","inputs":[],"outputs":[],"problem":"is an operator unknown(200)"},
  {"id":1,"name":"ahead","kind":"operator","op":"Add","inputs":[-1,2],"outputs":[],"problem":"has input 2, which is not before it"},
  {"id":2,"name":"out","kind":"operator","op":"Add","inputs":[0],"outputs":[9],"problem":"has output 9, which is none of the graph's 4 nodes"},
  {"id":3,"name":"odd","kind":"unknown(7)","problem":"is of kind unknown(7)"}]}
)json");
  EXPECT_EQ(metadata_of(model, "inputs"), "[]");
  EXPECT_EQ(metadata_of(model, "operators"), R"json({"Add":2,"unknown(200)":1})json");
}

TEST(RtenGraph, ShowsShapesAsFarAsTheyAreKnown) {
  const Ref no_shape = node("v", kValue, table({}));
  const Model model = read_well(version2(
      model_of(graph({no_shape, value("s", {}, 0), value("d", {dim("n"), dim(0), dim(3)}, 2), value("t", {}, 9)}))));
  EXPECT_EQ(graph_of(model), R"json({"inputs":[],"outputs":[],"captures":null,"nodes":[
  {"id":0,"name":"v","kind":"value","dtype":null,"shape":null},
  {"id":1,"name":"s","kind":"value","dtype":"int32","shape":[]},
  {"id":2,"name":"d","kind":"value","dtype":"int8","shape":["n",0,3]},
  {"id":3,"name":"t","kind":"value","dtype":"unknown(9)","shape":[]}]}
)json");
}

TEST(RtenGraph, AcceptsAGraphWithoutAnything) {
  const Model model = read_well(version2(model_of(table({}))));
  EXPECT_THAT(model.tensors, IsEmpty());
  EXPECT_EQ(graph_of(model), "{\"inputs\":null,\"outputs\":null,\"captures\":null,\"nodes\":[]}\n");
  EXPECT_EQ(metadata_of(model, "inputs"), "[]");
}

TEST(RtenGraph, NumbersOperatorsAndAttributesAsTheFormatDoes) {
  const std::map<uint8_t, std::string> names{{0, "Add"},
                                             {1, "ArgMin"},
                                             {34, "Pad"},
                                             {69, "Round"},
                                             {99, "RandomNormalLike"},
                                             {104, "If"},
                                             {116, "Loop"},
                                             {128, "GlobalMaxPool"},
                                             {144, "ReduceLogSumExp"},
                                             {145, "unknown(145)"},
                                             {255, "unknown(255)"}};
  std::vector<Ref> nodes;
  for (const auto& [number, name] : names) nodes.push_back(op("o", number, {}, {}));
  const std::string json = graph_of(read_well(version2(model_of(graph(nodes)))));
  for (const auto& [number, name] : names) EXPECT_THAT(json, HasSubstr("\"op\":\"" + name + "\""));
}

TEST(RtenGraph, ShowsAttributesWithTheirDefaults) {
  EXPECT_EQ(attributes(0, 0, nullptr), "none");
  EXPECT_EQ(attributes(7, 5, table({})), R"({"axis":0})");
  EXPECT_EQ(attributes(7, 5, table({{0, scalar(int32_t{-2})}})), R"({"axis":-2})");
  EXPECT_EQ(attributes(115, 48, table({})), "{}");
  EXPECT_EQ(attributes(10, 8, table({})),
            R"({"strides":null,"auto_pad":"NotSet","pads":null,"groups":1,"output_padding":null,"dilations":null})");
  EXPECT_EQ(attributes(142, 62, table({})), R"({"axis":-1,"p":2})");
  EXPECT_EQ(attributes(127, 54, table({})), R"({"onesided":true})");
  EXPECT_EQ(attributes(52, 21, table({{0, list<uint32_t>({1, 0})}})), R"({"perm":[1,0]})");
  EXPECT_EQ(attributes(103, 38, table({{0, text("ij->ji")}})), R"({"equation":"ij->ji"})");
  EXPECT_EQ(attributes(5, 4, table({{0, scalar(uint8_t{1})}})), R"({"to":"Float"})");
  EXPECT_EQ(attributes(5, 4, table({{0, scalar(uint8_t{77})}})), R"json({"to":"unknown(77)"})json");
}

TEST(RtenGraph, TellsAnAbsentAttributeFromADefault) {
  EXPECT_EQ(attributes(42, 45, table({})), R"({"start":null,"end":null})");
  EXPECT_EQ(attributes(42, 45, table({{1, scalar(int32_t{0})}})), R"({"start":null,"end":0})");
  EXPECT_EQ(attributes(113, 47, table({})), R"({"dtype":null,"k":0})");
  EXPECT_EQ(attributes(113, 47, table({{0, scalar(uint8_t{0})}})), R"({"dtype":"Int32","k":0})");
}

TEST(RtenGraph, WritesFloatsAsAPersonWould) {
  const auto epsilon = [](float number) { return attributes(4, 3, table({{0, scalar(number)}})); };
  EXPECT_EQ(epsilon(1e-5f), R"({"epsilon":1e-05})");
  EXPECT_EQ(epsilon(0.1f), R"({"epsilon":0.1})");
  EXPECT_EQ(epsilon(std::numeric_limits<float>::quiet_NaN()), R"({"epsilon":"NaN"})");
  EXPECT_EQ(epsilon(-std::numeric_limits<float>::infinity()), R"({"epsilon":"-Infinity"})");
}

TEST(RtenGraph, ShowsAUnionWithItsMembersName) {
  const auto fill = [](uint8_t tag, Slot number) {
    return attributes(8, 6, table({{0, scalar(tag)}, {1, table({{0, std::move(number)}})}}));
  };
  EXPECT_EQ(fill(1, scalar(int32_t{7})), R"({"value":{"IntScalar":{"value":7}}})");
  EXPECT_EQ(fill(2, scalar(2.5f)), R"({"value":{"FloatScalar":{"value":2.5}}})");
  EXPECT_EQ(fill(9, scalar(2.5f)), R"json({"value":"unknown(9)"})json");
}

TEST(RtenGraph, NamesAttributesOfALaterSchemaByTheirTag) {
  EXPECT_EQ(attributes(150, 63, table({{0, scalar(int32_t{1})}})), R"({"unknown_attrs":63})");
}

}  // namespace
}  // namespace weightfs
