#include "formats/onnx/graph_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/values/json.h"
#include "tests/support/onnx_reading.h"

namespace weightfs::graph_json_test {
namespace {

using namespace test::onnx;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

std::string document(const Model& model) {
  const auto text = model.documents.at(0).source.get();
  return text ? test::text_of(**text) : text.error().message;
}

std::string graph_json_of(const Message& graph) { return document(read_well(model(graph).build())); }

TEST(OnnxGraphJson, HasOneNodePerLine) {
  Message main = graph({});
  main.message(11, value("x", kFloat, {0, 2})).message(12, value("y", kFloat, {}));
  main.message(1, node("Add", {"x", ""}, {"y"}, {}, "add")).message(1, node("Gelu", {}, {}).bytes(7, "com"));
  const Model read = read_well(model(main).build());
  ASSERT_THAT(read.documents, SizeIs(1));
  EXPECT_EQ(read.documents[0].path, "graph.json");
  EXPECT_EQ(document(read),
            "{\"graph\":{\"name\":\"g\",\"inputs\":[\n"
            "  {\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[\"N\",2]}],\"outputs\":[\n"
            "  {\"name\":\"y\",\"dtype\":\"float32\",\"shape\":[]}],\"nodes\":[\n"
            "  {\"op_type\":\"Add\",\"name\":\"add\",\"inputs\":[\"x\",\"\"],\"outputs\":[\"y\"]},\n"
            "  {\"op_type\":\"Gelu\",\"name\":\"\",\"domain\":\"com\",\"inputs\":[],\"outputs\":[]}]}}\n");
}

TEST(OnnxGraphJson, AttributesHaveTheirValues) {
  const auto shown = [](const Message& attribute) {
    const std::string text = graph_json_of(graph({}).message(1, node("Op", {}, {}, {attribute})));
    const size_t begin = text.find("{\"a\":") + 5;
    return text.substr(begin, text.find("}}]}}") - begin);
  };
  EXPECT_EQ(shown(attribute("a").real(2, 0.1F)), "0.1");
  EXPECT_EQ(shown(attribute("a").fixed32(2, 0x7FC00000)), "\"NaN\"");
  EXPECT_EQ(shown(attribute("a").number(3, ~0ULL)), "-1");
  EXPECT_EQ(shown(attribute("a").number(3, 1).number(3, 2)), "2");
  EXPECT_EQ(shown(attribute("a").bytes(4, "s\n\xFF")), "\"s\\n\uFFFD\"");
  EXPECT_EQ(shown(attribute("a").bytes(8, "\1\2").number(8, 3)), "[1,2,3]");
  EXPECT_EQ(shown(attribute("a").real(7, 1).real(7, 2)), "[1.0,2.0]");
  EXPECT_EQ(shown(attribute("a").bytes(9, "s").bytes(9, "t")), "[\"s\",\"t\"]");
  EXPECT_EQ(shown(attribute("a")), "[]");
  EXPECT_EQ(shown(attribute("a").message(5, tensor("t", kFloat, {2, 3}))),
            R"({"tensor":"t","dtype":"float32","shape":[2,3]})");
  EXPECT_EQ(shown(attribute("a").message(10, tensor("t", 99, {}))),
            "[{\"tensor\":\"t\",\"dtype\":\"unknown(99)\",\"shape\":[]}]");
  EXPECT_EQ(shown(attribute("a").message(22, Message())), "\"sparse tensor\"");
  EXPECT_EQ(shown(attribute("a").bytes(21, "alpha")), R"({"attribute":"alpha"})");
}

TEST(OnnxGraphJson, SubgraphsAreRenderedInPlace) {
  const Message body = graph({}).message(1, node("Identity", {"i"}, {"o"}));
  const std::string text =
      graph_json_of(graph({})
                        .message(1, node("Loop", {}, {}, {attribute("body").message(6, body)}))
                        .message(1, node("Case", {}, {}, {attribute("all").message(11, body).message(11, body)})));
  EXPECT_THAT(text, HasSubstr("\"body\":{\"name\":\"g\",\"inputs\":[],\"outputs\":[],\"nodes\":[\n"
                              "    {\"op_type\":\"Identity\",\"name\":\"\",\"inputs\":[\"i\"],\"outputs\":[\"o\"]}]}"));
  EXPECT_THAT(text, HasSubstr("\"all\":[{\"name\":\"g\""));
}

TEST(OnnxGraphJson, HasTypesOfValuesBetweenNodes) {
  const std::string text = graph_json_of(graph({}).message(13, value("h", kFloat, {0, 2})));
  EXPECT_THAT(text, HasSubstr("\"values\":[\n  {\"name\":\"h\",\"dtype\":\"float32\",\"shape\":[\"N\",2]}],\"nodes\""));
}

TEST(OnnxGraphJson, DamagedTypeOfAValueMakesTheFileDamaged) {
  const Message cut = graph({}).message(13, Message().bytes(1, "h").bytes(2, std::string("\x0A\x05\x08", 3)));
  EXPECT_FALSE(read(model(cut).build()));
}

TEST(OnnxGraphJson, HasFunctionsAndQuantization) {
  const Message annotated = graph({}).message(
      14, Message().bytes(1, "w").message(2, entry("SCALE_TENSOR", "s")).message(2, entry("SCALE_TENSOR", "t")));
  const Message function =
      Message().bytes(1, "F").bytes(4, "x").bytes(5, "y").bytes(10, "d").message(7, node("Add", {}, {}));
  const std::string text = document(read_well(model(annotated).message(25, function).build()));
  EXPECT_THAT(text,
              HasSubstr("{\"tensor_name\":\"w\",\"parameters\":[[\"SCALE_TENSOR\",\"s\"],[\"SCALE_TENSOR\",\"t\"]]}"));
  EXPECT_THAT(text,
              HasSubstr("\"functions\":[\n  {\"name\":\"F\",\"domain\":\"d\",\"inputs\":[\"x\"],\"outputs\":[\"y\"],"));
}

TEST(OnnxGraphJson, IsJson) {
  const std::string text = document(read_well(small_onnx(), {{"m.data", small_onnx_data()}}));
  Budget budget(0);
  EXPECT_TRUE(parse_json(*in_memory(text), 0, text.size(), budget, 10'000)) << text;
}

// Names of 10 inputs become six times as long, which exceeds what is left.
TEST(OnnxGraphJson, IsRefusedBeyondTheBudget) {
  Message inputs;
  for (int i = 0; i < 10; ++i) inputs.bytes(1, std::string(65'000, '\1'));
  const std::string file = model(graph({}).message(1, inputs)).build();
  const Container container{.name = "m.onnx", .bytes = in_memory(file), .budget = std::make_shared<Budget>(0)};
  const auto read = read_as("onnx", container);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_TRUE(container.budget->charge(Cost::kept, 62'000'000));
  EXPECT_THAT(document(*read), StartsWith("too many bytes of rendered text"));
  container.budget->release(Cost::kept, 62'000'000);
  EXPECT_THAT(document(*read), StartsWith("{\"graph\""));
}

}  // namespace
}  // namespace weightfs::graph_json_test
