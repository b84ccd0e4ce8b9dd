// Which tensors a model has, and their names.
#include "formats/onnx/graph.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/onnx_reading.h"

namespace weightfs::onnx_graph_test {
namespace {

using namespace test::onnx;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::string> lines_of_nodes(const std::vector<Message>& nodes) {
  Message main = graph({});
  for (const Message& each : nodes) main.message(1, each);
  return lines_of(read_well(model(main).build()));
}

Message w(std::string_view data) { return raw("w", kUint8, {1}, data); }

TEST(OnnxGraph, DuplicateNamesAreAllShown) {
  EXPECT_THAT(lines_of(read_well(model(graph({w("a"), w("b")})).build())),
              ElementsAre(":w uint8 [1] 61", ":w uint8 [1] 62"));
}

TEST(OnnxGraph, TwoGraphsAreMerged) {
  const Message both = model(graph({w("a")})).message(7, graph({w("b")}));
  EXPECT_THAT(lines_of(read_well(both.build())), ElementsAre(":w uint8 [1] 61", ":w uint8 [1] 62"));
}

TEST(OnnxGraph, ConstantsAreNamedByTheirOutput) {
  const auto constant = [](const Message& attribute) { return node("Constant", {}, {"c"}, {attribute}); };
  EXPECT_THAT(lines_of_nodes({constant(attribute("value").message(5, w("v")))}), ElementsAre(":c uint8 [1] 76"));
  EXPECT_THAT(lines_of_nodes({constant(attribute("value_float").real(2, 1))}), ElementsAre(":c float32 [] 0000803f"));
  EXPECT_THAT(lines_of_nodes({constant(attribute("value_floats").bytes(7, "abcdefgh"))}),
              ElementsAre(":c float32 [2] 6162636465666768"));
  EXPECT_THAT(lines_of_nodes({constant(attribute("value_int").number(3, ~0ULL))}),
              ElementsAre(":c int64 [] ffffffffffffffff"));
  EXPECT_THAT(lines_of_nodes({constant(attribute("value_ints").number(8, 1).bytes(8, "\2"))}),
              ElementsAre(":c int64 [2] 01000000000000000200000000000000"));
  EXPECT_THAT(lines_of_nodes({constant(attribute("value_ints"))}), ElementsAre(":c int64 [0] "));
  EXPECT_THAT(lines_of_nodes({constant(attribute("value_string").bytes(4, "s"))}), ElementsAre(":c string [] 730a"));
  EXPECT_THAT(lines_of_nodes({constant(attribute("value_strings").bytes(9, "s").bytes(9, "t"))}),
              ElementsAre(":c string [2] 730a740a"));
}

TEST(OnnxGraph, ConstantWithTwoScalarsIsOmitted) {
  Message main = graph({});
  main.message(1, node("Constant", {}, {"c"}, {attribute("value_int").number(3, 1).number(3, 2)}));
  const Model read = read_well(model(main).build());
  EXPECT_THAT(read.tensors, IsEmpty());
  EXPECT_THAT(read.warnings, ElementsAre("constant \"c\": 2 values in value_int; omitted"));
}

TEST(OnnxGraph, TensorsOfOtherAttributesHaveTheirNameOrThatOfTheNode) {
  const Message unnamed = raw("", kUint8, {1}, "x");
  EXPECT_THAT(lines_of_nodes({node("Fill", {}, {"f"}, {attribute("value").message(5, w("v"))})}),
              ElementsAre(":w uint8 [1] 76"));
  EXPECT_THAT(lines_of_nodes({node("Fill", {}, {"f"}, {attribute("value").message(5, unnamed)})}),
              ElementsAre(":f.value uint8 [1] 78"));
  EXPECT_THAT(
      lines_of_nodes({node("Fill", {}, {"f"}, {attribute("all").message(10, unnamed).message(10, unnamed)}, "n")}),
      ElementsAre(":n.all.0 uint8 [1] 78", ":n.all.1 uint8 [1] 78"));
}

TEST(OnnxGraph, SubgraphsAreScopes) {
  const auto branch = [](std::string_view data) { return graph({w(data)}); };
  EXPECT_THAT(
      lines_of_nodes(
          {node("If", {}, {"o"},
                {attribute("then_branch").message(6, branch("t")), attribute("else_branch").message(6, branch("e"))},
                "if"),
           node("Switch", {}, {"s"}, {attribute("cases").message(11, branch("0")).message(11, branch("1"))})}),
      ElementsAre("if/then_branch:w uint8 [1] 74", "if/else_branch:w uint8 [1] 65", "s/cases.0:w uint8 [1] 30",
                  "s/cases.1:w uint8 [1] 31"));
}

TEST(OnnxGraph, SubgraphsInSubgraphsAreRead) {
  const Message inner = graph({w("i")}).message(1, node("Constant", {}, {"c"}, {attribute("value_int").number(3, 1)}));
  const Message outer = graph({}).message(1, node("Loop", {}, {"l"}, {attribute("body").message(6, inner)}));
  EXPECT_THAT(lines_of_nodes({node("Scan", {}, {"s"}, {attribute("body").message(6, outer)})}),
              ElementsAre("s/body/l/body:w uint8 [1] 69", "s/body/l/body:c int64 [] 0100000000000000"));
}

std::string nested(int depth) {
  Message inner = graph({w("i")});
  for (int i = 0; i < depth; ++i)
    inner = graph({}).message(1, node("Loop", {}, {"l"}, {attribute("body").message(6, inner)}));
  return model(inner).build();
}

// A subgraph takes three levels: attribute, graph, node. Its tensor is one more.
TEST(OnnxGraph, SubgraphsAreReadUpTo100Messages) {
  EXPECT_THAT(read_well(nested(32)).tensors, SizeIs(1));
  EXPECT_THAT(error_of(nested(33)), "onnx: protobuf: messages nested more than 100 deep");
  EXPECT_THAT(error_of(nested(2'000)), "onnx: protobuf: messages nested more than 100 deep");
}

TEST(OnnxGraph, FunctionsAndTrainingGraphsAreScopes) {
  const Message function = Message()
                               .bytes(1, "F")
                               .bytes(10, "my.dom")
                               .message(7, node("Constant", {}, {"k"}, {attribute("value").message(5, w("k"))}));
  const Message training = Message().message(1, graph({w("i")})).message(2, graph({w("a")}));
  const Message defaults = Message().bytes(1, "G").message(11, attribute("bias").message(5, raw("", kUint8, {1}, "b")));
  const Message all = model(graph({w("m")})).message(20, training).message(25, function).message(25, defaults);
  EXPECT_THAT(lines_of(read_well(all.build())),
              ElementsAre(":w uint8 [1] 6d", "training_info.0/initialization:w uint8 [1] 69",
                          "training_info.0/algorithm:w uint8 [1] 61", "functions/my.dom.F:k uint8 [1] 6b",
                          "functions/G:G.bias uint8 [1] 62"));
}

TEST(OnnxGraph, SparseTensorIsItsValuesAndIndices) {
  const Message sparse =
      Message().message(1, w("v")).message(2, tensor("", kInt64, {1}).bytes(7, "\2")).number(3, 3).number(3, 4);
  Message main = graph({}).message(15, sparse);
  main.message(1, node("Constant", {}, {"c"}, {attribute("sparse_value").message(22, sparse)}));
  const Model read = read_well(model(main).build());
  EXPECT_THAT(lines_of(read), ElementsAre(":w uint8 [1] 76", ":w.indices int64 [1] 0200000000000000", ":c uint8 [1] 76",
                                          ":c.indices int64 [1] 0200000000000000"));
  EXPECT_EQ(metadata_of(read, "sparse_tensors"), R"([{"name":"w","dims":[3,4]},{"name":"c","dims":[3,4]}])");
}

TEST(OnnxGraph, CountsOperators) {
  Message main = graph({});
  main.message(1, node("Add", {}, {"a"})).message(1, node("Add", {}, {"b"}));
  main.message(1, node("Gelu", {}, {"c"}).bytes(7, "com.microsoft"));
  const Model read = read_well(model(main).build());
  EXPECT_EQ(metadata_of(read, "graphs"), "1");
  EXPECT_EQ(metadata_of(read, "nodes"), "3");
  EXPECT_EQ(metadata_of(read, "operators"), R"({"Add":2,"com.microsoft.Gelu":1})");
}

TEST(OnnxGraph, FurtherOperatorsAreCountedTogether) {
  Message main = graph({});
  for (int i = 0; i < 1'100; ++i) main.message(1, node(fmt::format("Op{}", i), {}, {}));
  EXPECT_THAT(metadata_of(read_well(model(main).build()), "operators"), HasSubstr(R"("others":76)"));
}

TEST(OnnxGraph, EmptyInitializersStayWithinTheBudget) {
  std::string initializers;
  for (int i = 0; i < 90'000; ++i) initializers += std::string("\x2A\0", 2);
  const std::string file = Message().number(1, 8).bytes(7, initializers).build();
  const Container container{"m.onnx", in_memory(file), nullptr};
  const auto read = read_as("onnx", container);
  ASSERT_TRUE(read);
  EXPECT_THAT(read->tensors, SizeIs(90'000));
  EXPECT_THAT(read->warnings, SizeIs(101));
  EXPECT_LT(container.budget->memory_used(), 30'000'000U);
}

TEST(OnnxGraph, LongNameIsRefused) {
  EXPECT_THAT(error_of(model(graph({raw(std::string(65'536, 'n'), kUint8, {1}, "x")})).build()),
              HasSubstr("a text of 65536 bytes"));
}

}  // namespace
}  // namespace weightfs::onnx_graph_test
