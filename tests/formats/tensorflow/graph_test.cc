#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "tests/builders/tensorflow_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::tensorflow_graph_test {
namespace {

using namespace test::tensorflow;
using test::error_in;
using test::listing;
using test::little;
using test::metadata_of;
using test::text_of;
using test::well;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Result<Model> read_graph(const std::string& bytes) {
  return read_as("tensorflow-graph", {.name = "graph.pb", .bytes = in_memory(bytes)});
}

// The tensor of a constant of this value, or the warning.
std::string outcome_of(const Message& value) {
  const Model model = well(read_graph(graph({constant("w", value)}).build()));
  return model.warnings.empty() ? listing(model).at(0) : model.warnings[0];
}

std::string number(uint64_t value, size_t width, size_t times = 1) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += little(value, width);
  return out;
}

TEST(TensorflowGraph, ConstantsAreTensors) {
  const Model model = well(read_graph(small_graph().build()));
  EXPECT_EQ(model.format, "tensorflow-graph");
  EXPECT_THAT(listing(model),
              ElementsAre("w float32 DT_FLOAT [2x1] aaaabbbb", "fill int32 DT_INT32 [3] " + number(7, 4, 3),
                          "names string DT_STRING [2] a\nbc\n", "f/c uint8 DT_UINT8 [2] \1\2"));
  EXPECT_THAT(*model.per_tensor->strings.at(2).get().value(), ElementsAre("a", "bc"));
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(metadata_of(model, "inputs"), R"([{"name":"x","dtype":"float32","shape":[-1,2]}])");
  EXPECT_EQ(metadata_of(model, "outputs"), R"([{"name":"y"}])");
  EXPECT_EQ(metadata_of(model, "operators"), R"({"Const":4,"MatMul":1,"Placeholder":1})");
  EXPECT_EQ(metadata_of(model, "functions"), "1");
}

TEST(TensorflowGraph, MetaGraphHasSignatures) {
  const Model model = well(read_graph(meta_graph(small_graph()).build()));
  EXPECT_EQ(model.version, "2.18.0");
  EXPECT_THAT(model.tensors, SizeIs(4));
  EXPECT_EQ(metadata_of(model, "tags"), R"(["serve"])");
  EXPECT_EQ(metadata_of(model, "inputs"), R"([{"name":"a","dtype":"float32","shape":[-1,2],"tensor":"x:0"}])");
  EXPECT_THAT(metadata_of(model, "signatures"), HasSubstr(R"("method":"tensorflow/serving/predict")"));
  EXPECT_EQ(metadata_of(model, "assets"), R"(["vocab.txt"])");
}

TEST(TensorflowGraph, DocumentHasEveryNode) {
  const Model model = well(read_graph(small_graph().build()));
  ASSERT_THAT(model.documents, SizeIs(1));
  EXPECT_EQ(text_of(*model.documents[0].source.get().value()),
            R"({"graph_def":{"nodes":[
  {"op":"Placeholder","name":"x","inputs":[],"attributes":{"dtype":"float32","shape":[-1,2]}},
  {"op":"Const","name":"w","inputs":[],"attributes":{"value":{"dtype":"float32","shape":[2,1]}}},
  {"op":"Const","name":"fill","inputs":[],"attributes":{"value":{"dtype":"int32","shape":[3]}}},
  {"op":"Const","name":"names","inputs":[],"attributes":{"value":{"dtype":"string","shape":[2]}}},
  {"op":"MatMul","name":"y","inputs":["x","w:0","^fill"],"attributes":{"transpose_a":false}}]},
"functions":[
  {"name":"f","inputs":["x"],"outputs":["y"],"returns":[["y","c:output:0"]],"nodes":[
    {"op":"Const","name":"c","inputs":[],"attributes":{"value":{"dtype":"uint8","shape":[2]}}}]}]}
)");
}

TEST(TensorflowGraph, AttributesOfEveryKindAreShown) {
  const Message list = Message()
                           .bytes(2, "s")
                           .bytes(3, "\1\2")
                           .real(4, 0.5F)
                           .bytes(5, "\1")
                           .number(6, kFloat)
                           .message(7, Message().number(3, 1))
                           .message(9, Message().bytes(1, "g"));
  const auto shown = [](const Message& value) {
    const Model model = well(read_graph(graph({node("n", "N", {}, {attribute("a", value)})}).build()));
    const std::string text = text_of(*model.documents[0].source.get().value());
    const size_t at = text.find("\"a\":");
    return text.substr(at + 4, text.find("}}]}") - at - 4);
  };
  EXPECT_EQ(shown(Message().message(1, list)), R"(["s",1,2,0.5,true,"float32",null,{"function":"g"}])");
  EXPECT_EQ(shown(Message().bytes(9, "p")), R"({"attribute":"p"})");
  EXPECT_EQ(shown(Message().message(10, Message().bytes(1, "g"))), R"({"function":"g"})");
  EXPECT_EQ(shown(Message()), "null");
}

TEST(TensorflowGraph, DocumentOfInvalidAttributeHasTheProblem) {
  const Model model =
      well(read_graph(graph({node("n", "N", {}, {attribute("a", Message().raw("\x0A\x7F"))})}).build()));
  EXPECT_THAT(text_of(*model.documents[0].source.get().value()), HasSubstr(R"({"problem":"protobuf: )"));
}

TEST(TensorflowGraph, LastValueFillsTheRest) {
  EXPECT_EQ(outcome_of(tensor(kInt32, {3}).bytes(7, "\1\2")), "w int32 DT_INT32 [3] " + number(1, 4) + number(2, 4, 2));
  EXPECT_EQ(outcome_of(tensor(kInt8, {2}).number(7, ~0ULL)), "w int8 DT_INT8 [2] \xFF\xFF");
  EXPECT_EQ(outcome_of(tensor(kHalf, {2})), "w float16 DT_HALF [2] " + number(0, 2, 2));
  EXPECT_EQ(outcome_of(tensor(kComplex64, {2}).bytes(9, "realimag")), "w complex64 DT_COMPLEX64 [2] realimagrealimag");
  EXPECT_EQ(outcome_of(tensor(kFloat8, {3}).bytes(18, "ab")), "w float8_e5m2 DT_FLOAT8_E5M2 [3] abb");
  EXPECT_EQ(outcome_of(tensor(kBool, {}).number(11, 1)), "w bool DT_BOOL [] \1");
  EXPECT_EQ(outcome_of(tensor(kFloat, {2}).bytes(5, "aaaa").fixed32(5, 0x62626262)), "w float32 DT_FLOAT [2] aaaabbbb");
}

TEST(TensorflowGraph, ValuesThatDoNotFitAreRefused) {
  EXPECT_THAT(outcome_of(tensor(kFloat, {4}).bytes(4, "1234")), HasSubstr("4 bytes of content, 16 needed: refused"));
  EXPECT_THAT(outcome_of(tensor(kFloat, {2}).bytes(5, "123456789012")),
              HasSubstr("3 values, its shape has 2: refused"));
  EXPECT_THAT(outcome_of(tensor(kComplex64, {1}).bytes(9, "1234")), HasSubstr("1 numbers for complex values"));
  EXPECT_THAT(outcome_of(tensor(kFloat, {1}).bytes(5, "123")), HasSubstr("3 bytes of packed numbers"));
  EXPECT_THAT(outcome_of(tensor(kFloat, {-1})), HasSubstr("dimension -1: refused"));
  EXPECT_THAT(outcome_of(tensor(kFloat, {1 << 20, 1 << 10}).real(5, 1)), HasSubstr("that repeat 1 values"));
  EXPECT_THAT(outcome_of(tensor(kFloat, {1LL << 62, 4})), HasSubstr("overflows 64 bits"));
  EXPECT_THAT(outcome_of(tensor(kString, {2}).bytes(8, "a")), HasSubstr("1 strings, 2 needed"));
  EXPECT_THAT(outcome_of(tensor(kResource, {})), HasSubstr("values of type DT_RESOURCE"));
  EXPECT_THAT(outcome_of(tensor(99, {})), HasSubstr("type unknown(99)"));
}

TEST(TensorflowGraph, ConstantWithoutValueIsOmitted) {
  const Model model = well(read_graph(graph({node("w", "Const")}).build()));
  EXPECT_THAT(model.tensors, SizeIs(0));
  EXPECT_THAT(model.warnings, ElementsAre("constant \"w\": no value; omitted"));
  EXPECT_EQ(model.lacks->missing_tensors, 1U);
}

TEST(TensorflowGraph, ConstantsOfOneNameAreAllTensors) {
  const Message one = tensor(kUint8, {1}).bytes(4, "1"), two = tensor(kUint8, {1}).bytes(4, "2");
  EXPECT_THAT(listing(well(read_graph(graph({constant("f/c", one)}, {function("f", {constant("c", two)})}).build()))),
              ElementsAre("f/c uint8 DT_UINT8 [1] 1", "f/c uint8 DT_UINT8 [1] 2"));
}

TEST(TensorflowGraph, ConstantWithALongNameIsOmitted) {
  const Message value = tensor(kUint8, {1}).bytes(4, "1");
  const Model model = well(read_graph(
      graph({node("n", "N")}, {function(std::string(40'000, 'f'), {constant(std::string(40'000, 'c'), value)})})
          .build()));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("its name has 80001 bytes; omitted")));
  EXPECT_EQ(model.lacks->missing_tensors, 1U);
}

// More packed varints than are counted when a model is listed.
TEST(TensorflowGraph, ValueThatIsRepeatedIsReadBehindManyVarints) {
  const Message many = tensor(kInt32, {1 << 20}).bytes(7, std::string(1 << 20, '\1'));
  const Message filled = tensor(kInt32, {3}).bytes(7, "\7");
  const Model model = well(read_graph(graph({constant("many", many), constant("w", filled)}).build()));
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(text_of(model.tensors[1].source), number(7, 4, 3));
}

TEST(TensorflowGraph, OtherMessagesAreRefused) {
  const auto error = [](const Message& message) { return error_in(read_graph(message.build())); };
  EXPECT_EQ(error(Message()), "tensorflow-graph: not a graph");
  EXPECT_EQ(error(Message().message(1, Message().bytes(1, "cat").number(2, 1))),
            "tensorflow-graph: not a graph");                                                               // labels
  EXPECT_EQ(error(Message().number(1, 1).number(2, 1).bytes(9, "1234")), "tensorflow-graph: not a graph");  // ONNX
  EXPECT_EQ(error(graph({node("n", "N")}).message(7, Message())), "tensorflow-graph: not a graph");
  EXPECT_EQ(error(graph({node("n", "N"), node("", "N")})), "tensorflow-graph: node 1 has no name or no operator");
  EXPECT_THAT(error(Message().raw("\x0A\x7F")), HasSubstr("tensorflow-graph: "));
}

TEST(TensorflowGraph, CutFilesAreCorruptWhateverTheirName) {
  const std::string first = graph({node("placeholder", "Placeholder")}).build();
  const std::string whole = graph({node("placeholder", "Placeholder"), node("product", "MatMul")}).build();
  for (size_t size = 28; size < whole.size(); ++size) {
    if (size == first.size()) continue;  // a graph of one node
    const auto model = read_model({"m.pb", in_memory(whole.substr(0, size))});
    ASSERT_FALSE(model) << size;
    EXPECT_EQ(model.error().code, Code::corrupt) << size << ": " << model.error().message;
  }
}

TEST(TensorflowGraph, IsSureByItsOperators) {
  const auto match = [](const Message& message) {
    return matches_tensorflow_graph(test::probe_of(message.build(), "m"));
  };
  const auto info = [](const char* name) {
    const Message operators = Message().message(1, Message().bytes(1, name));
    return Message().message(1, Message().message(2, operators)).message(2, graph({}));
  };
  EXPECT_EQ(match(graph({node("n", "MatMul")})), Match::yes);
  EXPECT_EQ(match(graph({node("n", "1")})), Match::maybe);
  EXPECT_EQ(match(graph({node("", "MatMul")})), Match::maybe);
  EXPECT_EQ(match(info("MatMul")), Match::yes);
  EXPECT_EQ(match(info("\n")), Match::maybe);
}

TEST(TensorflowGraph, IsDetectedByTheBeginning) {
  const auto match = [](const std::string& bytes, const char* name = "m.pb") {
    return matches_tensorflow_graph(test::probe_of(bytes, name));
  };
  EXPECT_EQ(match(small_graph().build()), Match::yes);
  EXPECT_EQ(match(meta_graph(small_graph()).build(), "m.meta"), Match::maybe);
  EXPECT_EQ(match(saved_model({meta_graph(small_graph())}), "saved_model.pb"), Match::no);
  EXPECT_EQ(match("node {"), Match::no);
  EXPECT_EQ(match("\x0A\x7F"), Match::no);
  EXPECT_EQ(match(""), Match::no);
}

}  // namespace
}  // namespace weightfs::tensorflow_graph_test
