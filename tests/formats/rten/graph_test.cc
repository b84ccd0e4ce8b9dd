#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "formats/rten/image.h"
#include "tests/support/rten_reading.h"

namespace weightfs::rten_graph_test {
namespace {

using namespace test::rten;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// An operator's attributes as graph.json has them.
std::string attributes(uint8_t type, uint8_t tag, Ref attrs) {
  const std::string json =
      graph_of(read_well(version2(model_of(graph({op("o", type, {}, {}, tag, std::move(attrs))})))));
  const size_t begin = json.find("\"attrs\":");
  return begin == std::string::npos ? "none" : json.substr(begin + 8, json.size() - begin - 8 - 4);
}

TEST(RtenGraph, OneNodePerLine) {
  EXPECT_EQ(graph_of(read_well(small_rten())),
            R"({"inputs":[1],"outputs":[1],"captures":null,"nodes":[
  {"id":0,"name":"w","kind":"constant","dtype":"int8","shape":[3],"storage":"inline","offset":1152,"nbytes":3},
  {"id":1,"name":"x","kind":"value","dtype":"float32","shape":["batch",4]},
  {"id":2,"name":"if","kind":"operator","op":"If","inputs":[1,0],"outputs":[1],"attrs":{"then_branch":{"inputs":[],"outputs":[0],"captures":null,"nodes":[
    {"id":0,"name":"w","kind":"constant","dtype":"float32","shape":[2],"storage":"external","offset":1216,"nbytes":8}]},"else_branch":null}},
  {"id":3,"name":"pad","kind":"operator","op":"Pad","inputs":[0],"outputs":[1],"attrs":{"mode":"Reflect"}}]}
)");
}

TEST(RtenGraph, InvalidNodesAreShownWithProblem) {
  const Model model = read_well(version2(model_of(
      graph({op("new", 200, {}, {}), op("ahead", 0, {-1, 2}, {}), op("out", 0, {0}, {9}), node("odd", 7, table({}))},
            {4}, {5}))));
  EXPECT_THAT(model.warnings,
              ElementsAre("input 4: is not one of the graph's 4 nodes", "output 5: is not one of the graph's 4 nodes",
                          R"(node 0 "new": is an operator unknown(200))",
                          R"(node 1 "ahead": has input 2, which is not before it)",
                          R"(node 2 "out": has output 9, which is not one of the graph's 4 nodes)",
                          R"(node 3 "odd": is of kind unknown(7))"));
  EXPECT_EQ(graph_of(model), R"json({"inputs":[4],"outputs":[5],"captures":null,"nodes":[
  {"id":0,"name":"new","kind":"operator","op":"unknown(200)","inputs":[],"outputs":[],"problem":"is an operator unknown(200)"},
  {"id":1,"name":"ahead","kind":"operator","op":"Add","inputs":[-1,2],"outputs":[],"problem":"has input 2, which is not before it"},
  {"id":2,"name":"out","kind":"operator","op":"Add","inputs":[0],"outputs":[9],"problem":"has output 9, which is not one of the graph's 4 nodes"},
  {"id":3,"name":"odd","kind":"unknown(7)","problem":"is of kind unknown(7)"}]}
)json");
  EXPECT_EQ(metadata_of(model, "inputs"), "[]");
  EXPECT_EQ(metadata_of(model, "operators"), R"json({"Add":2,"unknown(200)":1})json");
}

TEST(RtenGraph, ShowsKnownDimensions) {
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

TEST(RtenGraph, EmptyGraphIsAccepted) {
  const Model model = read_well(version2(model_of(table({}))));
  EXPECT_THAT(model.tensors, IsEmpty());
  EXPECT_EQ(graph_of(model), "{\"inputs\":null,\"outputs\":null,\"captures\":null,\"nodes\":[]}\n");
  EXPECT_EQ(metadata_of(model, "inputs"), "[]");
}

// The verifier checks the offset of a union's value for any tag, so it must be present; its target is arbitrary.
TEST(RtenGraph, NodeOfNewerSchemaIsShownAtAnyOffset) {
  for (uint32_t before = 0; before < rten::kPage / sizeof(uint32_t); before += 2)
    ASSERT_EQ(error_of(version1(model_of(graph({open_tmpfile(7, table({}))}, std::vector<uint32_t>(before, 0))))),
              "no error")
        << before;
}

// The format's table, number 0 first.
constexpr std::string_view kOperators = R"(
Add ArgMin ArgMax AveragePool BatchNormalization Cast Clip Concat ConstantOfShape Conv ConvTranspose Cos
CumSum Div Equal Erf Expand Flatten Gather Gemm GlobalAveragePool Greater GRU Identity LeakyRelu Less
LessOrEqual Log LogSoftmax LSTM MatMul MaxPool Mod Mul Pad Pow Range ReduceMean ReduceL2 Relu Reshape Resize
Shape Sigmoid Sin Slice Split Sqrt Squeeze Softmax Sub Tanh Transpose Unsqueeze Where ReduceProd ReduceSum
ReduceMin ReduceMax NonZero ScatterElements Tile Not Abs Max Mean Min Sum OneHot Round Floor Ceil Reciprocal
TopK Neg Exp GreaterOrEqual Size Tan Acos Asin Atan InstanceNormalization HardSigmoid HardSwish And Or Xor
Trilu ScatterND NonMaxSuppression Sign GatherElements LayerNormalization ReduceSumSquare RandomUniform Elu
RandomUniformLike RandomNormal RandomNormalLike Softplus GatherND Gelu Einsum If DequantizeLinear
QuantizeLinear DynamicQuantizeLinear MatMulInteger DepthToSpace ConvInteger CastLike Dropout EyeLike IsNaN
IsInf Loop SequenceEmpty SequenceAt SequenceInsert ConcatFromSequence SplitToSequence SequenceLength
SequenceConstruct SequenceErase GridSample PRelu STFT GlobalMaxPool ReduceL1 Acosh Asinh Atanh Cosh Sinh
Multinomial ReverseSequence DFT Scatter Upsample RotaryEmbedding Attention LpNormalization ReduceLogSum
ReduceLogSumExp
)";

TEST(RtenGraph, OperatorNumbersMatchSchema) {
  std::istringstream names{std::string(kOperators)};
  std::vector<Ref> nodes;
  std::string expected;
  for (std::string name; names >> name; expected += name + " ")
    nodes.push_back(op("o", static_cast<uint8_t>(nodes.size()), {}, {}));
  ASSERT_THAT(nodes, SizeIs(145));
  const std::string json = graph_of(read_well(version2(model_of(graph(nodes)))));
  std::string found;
  for (size_t at = json.find("\"op\":\""); at != std::string::npos; at = json.find("\"op\":\"", at + 6))
    found += json.substr(at + 6, json.find('"', at + 6) - at - 6) + " ";
  EXPECT_EQ(found, expected);
}

// The format's table: an empty table of each tag, but that kernel_size is required. The tag 6 is in a test of its own.
constexpr std::string_view kAttributes = R"(
1 {"axis":0,"keep_dims":false}
2 {"kernel_size":[3],"auto_pad":"Same","pads":null,"strides":null,"count_include_pad":false,"ceil_mode":false}
3 {"epsilon":0.0}
4 {"to":"Int32"}
5 {"axis":0}
7 {"auto_pad":"Same","pads":null,"groups":0,"strides":null,"dilations":null}
8 {"strides":null,"auto_pad":"NotSet","pads":null,"groups":1,"output_padding":null,"dilations":null}
9 {"axis":0}
10 {"axis":0}
11 {"alpha":0.0,"beta":0.0,"transpose_a":false,"transpose_b":false}
12 {"direction":"Forward","hidden_size":0,"linear_before_reset":false}
13 {"alpha":0.0}
14 {"direction":"Forward","hidden_size":0}
15 {"kernel_size":[3],"auto_pad":"Same","pads":null,"strides":null,"ceil_mode":false}
16 {"axes":null,"keep_dims":false,"noop_with_empty_axes":false}
17 {"allow_zero":false}
18 {"mode":"Nearest","coord_mode":"HalfPixel","nearest_mode":"Floor"}
19 {"axis":0,"num_outputs":null}
20 {"axis":0}
21 {"perm":null}
22 {"fmod":false}
23 {"axis":0,"reduction":"None"}
24 {"axis":0}
25 {"axis":0,"largest":false,"sorted":false}
26 {"alpha":0.0,"beta":0.0}
27 {"upper":false}
28 {"reduction":"None"}
29 {"box_order":"TopLeftBottomRight"}
30 {"axis":0,"epsilon":0.0}
31 {"shape":null,"high":0.0,"low":0.0,"seed":null}
32 {"alpha":0.0}
33 {"high":0.0,"low":0.0,"seed":null}
34 {"mean":0.0,"scale":0.0,"seed":null,"shape":null}
35 {"mean":0.0,"scale":0.0,"seed":null}
36 {"batch_dims":0}
37 {"approximate":"None"}
38 {"equation":null}
39 {"then_branch":null,"else_branch":null}
40 {"mode":"Constant"}
41 {"axis":0}
42 {"axis":0,"output_dtype":null}
43 {"mode":"DCR","block_size":0}
44 {}
45 {"start":null,"end":null}
46 {"seed":null}
47 {"dtype":null,"k":0}
48 {}
49 {"body":null}
50 {"dtype":null}
51 {"axis":0,"new_axis":false}
52 {"axis":0,"keep_dims":true}
53 {"align_corners":false}
54 {"onesided":true}
55 {"sample_size":0,"seed":null}
56 {"batch_axis":1,"time_axis":0}
57 {"inverse":false,"onesided":false}
58 {"mode":"Nearest"}
59 {"interleaved":false,"num_heads":0,"rotary_embedding_dim":0}
60 {"is_causal":false,"q_num_heads":null,"kv_num_heads":null,"scale":null,"softcap":0.0}
61 {"exclusive":false,"reverse":false}
62 {"axis":-1,"p":2}
)";

TEST(RtenGraph, AttributeNumbersMatchSchemaAndDefaultsAreShown) {
  std::string found = "\n";
  for (int tag = 1; tag <= 62; ++tag) {
    const bool has_kernel = tag == 2 || tag == 15;
    const Ref attrs = has_kernel ? table({{0, list<uint32_t>({3})}}) : table({});
    if (tag != 6) found += fmt::format("{} {}\n", tag, attributes(0, static_cast<uint8_t>(tag), attrs));
  }
  EXPECT_EQ(found, kAttributes);
}
TEST(RtenGraph, ShowsAttributesByTheirType) {
  EXPECT_EQ(attributes(0, 0, nullptr), "none");
  EXPECT_EQ(attributes(7, 5, table({{0, scalar(int32_t{-2})}})), R"({"axis":-2})");
  EXPECT_EQ(attributes(52, 21, table({{0, list<uint32_t>({1, 0})}})), R"({"perm":[1,0]})");
  EXPECT_EQ(attributes(103, 38, table({{0, text("ij->ji")}})), R"({"equation":"ij->ji"})");
  EXPECT_EQ(attributes(5, 4, table({{0, scalar(uint8_t{1})}})), R"({"to":"Float"})");
  EXPECT_EQ(attributes(5, 4, table({{0, scalar(uint8_t{77})}})), R"json({"to":"unknown(77)"})json");
}

TEST(RtenGraph, DistinguishesAbsentAttributeFromDefault) {
  EXPECT_EQ(attributes(42, 45, table({})), R"({"start":null,"end":null})");
  EXPECT_EQ(attributes(42, 45, table({{1, scalar(int32_t{0})}})), R"({"start":null,"end":0})");
  EXPECT_EQ(attributes(113, 47, table({})), R"({"dtype":null,"k":0})");
  EXPECT_EQ(attributes(113, 47, table({{0, scalar(uint8_t{0})}})), R"({"dtype":"Int32","k":0})");
}

TEST(RtenGraph, WritesShortestFloats) {
  const auto epsilon = [](float number) { return attributes(4, 3, table({{0, scalar(number)}})); };
  EXPECT_EQ(epsilon(1e-5f), R"({"epsilon":1e-05})");
  EXPECT_EQ(epsilon(0.1f), R"({"epsilon":0.1})");
  EXPECT_EQ(epsilon(std::numeric_limits<float>::quiet_NaN()), R"({"epsilon":"NaN"})");
  EXPECT_EQ(epsilon(-std::numeric_limits<float>::infinity()), R"({"epsilon":"-Infinity"})");
}

TEST(RtenGraph, UnionIsShownWithNameOfMember) {
  const auto fill = [](uint8_t tag, Slot number) {
    return attributes(8, 6, table({{0, scalar(tag)}, {1, table({{0, std::move(number)}})}}));
  };
  EXPECT_EQ(fill(1, scalar(int32_t{7})), R"({"value":{"IntScalar":{"value":7}}})");
  EXPECT_EQ(fill(2, scalar(2.5f)), R"({"value":{"FloatScalar":{"value":2.5}}})");
  EXPECT_EQ(fill(9, scalar(2.5f)), R"json({"value":"unknown(9)"})json");
}

TEST(RtenGraph, AttributesOfNewerSchemaAreNamedByTag) {
  EXPECT_EQ(attributes(150, 63, table({{0, scalar(int32_t{1})}})), R"({"unknown_attrs":63})");
  const Model model = read_well(version2(model_of(graph({op("o", 9, {}, {}, 99, table({}))}))));
  EXPECT_THAT(model.warnings, ElementsAre(R"json(node 0 "o": has attributes of kind unknown(99))json"));
  EXPECT_THAT(graph_of(model), HasSubstr(R"json("problem":"has attributes of kind unknown(99)","attrs")json"));
}

TEST(RtenGraph, AttributesOfWrongOperatorAreShown) {
  const Model model = read_well(version2(model_of(graph({op("conv", 9, {}, {}, 12, table({}))}))));
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_THAT(graph_of(model), HasSubstr(R"("attrs":{"direction":"Forward")"));
}

}  // namespace
}  // namespace weightfs::rten_graph_test
