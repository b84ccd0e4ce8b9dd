#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "tests/builders/ort_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::ort_test {
namespace {

using namespace test::ort;
using test::error_in;
using test::listing;
using test::metadata_of;
using test::well;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

Result<Model> read(const std::string& bytes) { return read_as("ort", {"m.ort", in_memory(bytes)}); }
std::string error_of(const std::string& bytes) { return error_in(read(bytes)); }

// The only tensor of a graph, and the warnings.
std::string only(const Ref& tensor) {
  const Model model = well(read(file_of(graph({tensor}))));
  return listing(model).at(0) + (model.warnings.empty() ? "" : " | " + model.warnings[0]);
}

TEST(Ort, InitializersAreRangesOfTheFile) {
  const Model model = well(read(small_ort()));
  EXPECT_EQ(model.format, "ort");
  EXPECT_EQ(model.version, "5");
  EXPECT_THAT(listing(model),
              ElementsAre("w float32 FLOAT [1x2] aaaabbbb", "e float32 FLOAT [0x3] ", "t string STRING [2] x\nyz\n",
                          "short float32 FLOAT [3] refused", "w uint8 UINT8 [2] ab"));
  EXPECT_EQ(model.tensors[4].scope, "if/then_branch");
  EXPECT_THAT(model.warnings, ElementsAre(R"(tensor "short": 4 bytes, but its shape and type FLOAT need 12: refused)"));
}

TEST(Ort, TextsAreElements) {
  const Model model = well(read(small_ort()));
  ASSERT_THAT(model.per_tensor->strings, SizeIs(1));
  EXPECT_THAT(*well(model.per_tensor->strings.at(2).get()), ElementsAre("x", "yz"));
}

TEST(Ort, TextsAreChargedWhileTheyAreInMemory) {
  const SourcePtr file = in_memory(file_of(graph({tensor("t", {2}, kString, "", {{5, texts({"x", "yz"})}})})));
  const BudgetPtr budget = budget_of(file);
  const Model model = well(read_as("ort", {.name = "m.ort", .bytes = file, .budget = budget}));
  const uint64_t before = budget->memory_used();
  EXPECT_EQ(test::text_of(model.tensors[0].source), "x\nyz\n");
  EXPECT_EQ(budget->memory_used(), before);
  EXPECT_THAT(*well(model.per_tensor->strings.at(0).get()), SizeIs(2));
  EXPECT_GT(budget->memory_used(), before);
}

TEST(Ort, HeaderIsMetadata) {
  const Model model = well(read(small_ort()));
  EXPECT_EQ(metadata_of(model, "ir_version"), "8");
  EXPECT_EQ(metadata_of(model, "producer_name"), "\"maker\"");
  EXPECT_EQ(metadata_of(model, "opset_import"), R"({"ai.onnx":17})");
  EXPECT_EQ(metadata_of(model, "metadata_props"), R"({"k":"v"})");
  EXPECT_EQ(metadata_of(model, "inputs"), R"([{"name":"in","dtype":"float32","shape":[2,"N"]}])");
  EXPECT_EQ(metadata_of(model, "outputs"), R"([{"name":"out","dtype":"float32","shape":[2,"N"]}])");
  EXPECT_EQ(metadata_of(model, "graphs"), "2");
  EXPECT_EQ(metadata_of(model, "operators"), R"({"Add":1,"If":1})");
  EXPECT_EQ(metadata_of(model, "execution_providers"), R"({"CPUExecutionProvider":2})");
}

// The file has the name of the dimension once.
TEST(Ort, NamesThatManyDimensionsShareAreCharged) {
  const auto input_of = [](const std::vector<Ref>& dimensions) {
    const Ref shape = table({{0, tables(dimensions)}});
    const Ref type = table({{1, scalar(uint8_t{1})}, {2, table({{0, scalar(kFloat)}, {1, shape}})}});
    return table({{0, text("in")}, {2, type}});
  };
  const auto named = [](size_t size) {
    return table({{0, table({{0, scalar(int8_t{2})}, {2, text(std::string(size, 'N'))}})}});
  };
  const auto file = [&](const Ref& dimension, size_t dimensions, size_t inputs) {
    const Ref input = input_of(std::vector<Ref>(dimensions, dimension));
    return file_of(graph({}, {}, {{1, tables({input})}, {5, tables(std::vector<Ref>(inputs, text("in")))}}));
  };
  EXPECT_EQ(error_of(file(named(60'000), 2, 2)), "no error");
  EXPECT_THAT(error_of(file(named(60'000), 1'000, 1)), HasSubstr("the memory limit"));
  EXPECT_THAT(error_of(file(named(2'000), 100, 1'000)), HasSubstr("the memory limit"));
}

TEST(Ort, TensorsInAttributesHaveTheNameOfTheirNode) {
  const Ref value = tensor("", {1}, kUint8, "a");
  const Model model =
      well(read(file_of(graph({}, {node("", "Op",
                                        {attribute("one", 6, value), attribute("many", 11, tables({value})),
                                         attribute("graphs", 12, tables({graph({value})}))})}))));
  EXPECT_THAT(listing(model),
              ElementsAre("Op.one uint8 UINT8 [1] a", "Op.many.0 uint8 UINT8 [1] a", " uint8 UINT8 [1] a"));
  EXPECT_EQ(model.tensors[2].scope, "Op/graphs.0");
}

TEST(Ort, WeightsBehindGatherAreThoseOfTheirScales) {
  const auto use = [](std::string_view type, const std::vector<std::string>& inputs, const std::string& output) {
    return node("", type, {}, {{8, texts(inputs)}, {9, texts({output})}});
  };
  const Model model = well(read(
      file_of(graph({tensor("w", {2}, kUint8, "ab"), tensor("s", {1}, kFloat, "aaaa"), tensor("z", {1}, kUint8, "a")},
                    {use("Gather", {"w", "ids"}, "rows"), use("DequantizeLinear", {"rows", "s", "z"}, "y")}))));
  ASSERT_THAT(model.per_tensor->packed_weights, SizeIs(3));
  EXPECT_EQ(model.per_tensor->packed_weights.at(0).elements, 2u);
  EXPECT_TRUE(model.per_tensor->packed_weights.at(1).is_companion &&
              model.per_tensor->packed_weights.at(2).is_companion);
}

TEST(Ort, SparseInitializersAreValuesAndIndices) {
  const Ref sparse = table({{0, tensor("s", {1}, kUint8, "v")}, {1, tensor("", {1}, kUint8, "i")}});
  const Model model = well(read(file_of(graph({}, {}, {{7, tables({sparse})}}))));
  EXPECT_THAT(listing(model), ElementsAre("s uint8 UINT8 [1] v", "s.indices uint8 UINT8 [1] i"));
}

TEST(Ort, InvalidTensorsAreRefused) {
  EXPECT_THAT(only(tensor("x", {-1}, kUint8, "a")), HasSubstr("refused | tensor \"x\": dimension -1: refused"));
  EXPECT_THAT(only(tensor("x", {INT64_MAX, INT64_MAX}, kUint8, "a")), HasSubstr("overflow 64 bits"));
  EXPECT_THAT(only(tensor("x", {1}, kUint8, "ab")), HasSubstr("2 bytes, but its shape"));
  EXPECT_THAT(only(table({{0, text("x")}, {3, scalar(kUint8)}, {6, scalar(int64_t{8})}})),
              HasSubstr("training checkpoint"));
  EXPECT_THAT(only(tensor("x", {3}, kString, "", {{5, texts({"a"})}})), HasSubstr("1 texts"));
  EXPECT_THAT(only(tensor("x", {1}, 99, "a")), HasSubstr("type unknown(99) is unknown; shown as bytes"));
}

TEST(Ort, InvalidFilesAreRefused) {
  EXPECT_EQ(error_of(session(table({}))), "ort: no graph");
  const std::string whole = small_ort();
  for (const uint32_t root : {0U, 4U, 0x7FFFFFFFU, 0xFFFFFFFFU})
    EXPECT_THAT(error_of(bytes_of(root) + whole.substr(4)), HasSubstr("ort: "));
  EXPECT_THAT(error_of(std::string("\0\0\0\0ORTM", 8)), HasSubstr("ort: "));
  Ref deep = graph({});
  for (int i = 0; i < 102; ++i) deep = graph({}, {node("n", "If", {attribute("g", 7, deep)})});
  EXPECT_EQ(error_of(file_of(deep)), "ort: graphs nested deeper than 100");
}

TEST(Ort, IsDetectedByItsIdentifier) {
  EXPECT_EQ(matches_ort(test::probe_of(small_ort())), Match::yes);
  EXPECT_EQ(matches_ort(test::probe_of("ORTM")), Match::no);
}

}  // namespace
}  // namespace weightfs::ort_test
