#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/counted_source.h"
#include "tests/support/onnx_reading.h"
#include "tests/support/probe.h"
#include "tests/support/small_models.h"

namespace weightfs::onnx_test {
namespace {

using namespace test::onnx;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Match match(const std::string& bytes, std::string_view name = "m") { return matches_onnx(test::probe_of(bytes, name)); }

TEST(Onnx, IsDetectedByTheFieldsOfAModel) {
  EXPECT_EQ(match(small_onnx()), Match::maybe);
  EXPECT_EQ(match(Message().message(7, graph({})).number(1, 8).build()), Match::maybe);
  EXPECT_EQ(match(Message().number(1, 8).bytes(2, "producer").message(7, graph({})).build()), Match::maybe);
  EXPECT_EQ(match(""), Match::no);
  EXPECT_EQ(match("{\"a\": 1}"), Match::no);
  EXPECT_EQ(match(std::string(1000, '\0')), Match::no);
  EXPECT_EQ(match(std::string(1000, '\xFF')), Match::no);
  EXPECT_EQ(match(Message().number(1, 8).bytes(2, "p").build()), Match::no);          // no graph
  EXPECT_EQ(match(Message().bytes(1, "block").build()), Match::no);                   // not the ir_version
  EXPECT_EQ(match(Message().number(1, 8).bytes(502, "program").build()), Match::no);  // Core ML
  EXPECT_EQ(match("\x08\x08\x12\x7F"
                  "short"),
            Match::no);  // a length beyond the end
}

TEST(Onnx, FileOfThatNameMayHaveFieldsOfALaterVersion) {
  const std::string later = Message().number(99, 1).message(7, graph({})).build();
  EXPECT_EQ(match(later), Match::no);
  EXPECT_EQ(match(later, "m.onnx"), Match::maybe);
  EXPECT_THAT(read_well(later).tensors, IsEmpty());
}

TEST(Onnx, GraphBeyondTheHeadIsFoundByParsing) {
  const std::string late = Message().number(1, 8).bytes(6, std::string(5'000, 'd')).message(7, graph({})).build();
  EXPECT_EQ(match(late), Match::maybe);
  const auto model = read_model({"m", in_memory(late), nullptr});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->format, "onnx");
}

TEST(Onnx, NoOtherFormatIsDetectedAsOnnx) {
  for (const test::SmallModel& small : test::small_models()) {
    if (small.format == "onnx") continue;
    const auto folder = std::make_shared<test::MemoryFolder>(small.beside);
    EXPECT_FALSE(read_as("onnx", {small.file_name, in_memory(small.bytes), folder})) << small.title;
    EXPECT_EQ(match(small.bytes), Match::no) << small.title;
  }
}

TEST(Onnx, SmallModelHasAllTensors) {
  const Model read = read_well(small_onnx(), {{"m.data", small_onnx_data()}});
  EXPECT_THAT(lines_of(read),
              ElementsAre(":w float32 [2x2] 30313233343536373839616263646566", ":typed int8 [3] 01ff03",
                          ":i64 int64 [2] 01000000000000000200000000000000", ":text string [2] 610a620a0a",
                          ":four int4 [3] 2103", ":far float32 [2] 3132333435363738", ":short float32 [2] refused",
                          ":sparse float32 [1] 31323334", ":sparse.indices int64 [1] 0200000000000000",
                          "if/then_branch:w uint8 [1] 78", ":one float32 [] 31323334",
                          ":ints int64 [2] 01000000000000000200000000000000", "functions/d.F:k float32 [] 00000040"));
  EXPECT_THAT(read.warnings, SizeIs(1));
  EXPECT_THAT(read.parts, SizeIs(2));
}

TEST(Onnx, ShowsMetadata) {
  Message file = model(graph({}).message(11, value("x", kFloat, {0, 2})).message(12, value("y", kInt64, {})));
  file.bytes(2, "pytorch").bytes(3, "2.5").bytes(4, "ai.example").number(5, ~0ULL).bytes(6, "a model");
  file.message(8, Message().bytes(1, "com.microsoft").number(2, 1));
  file.message(14, entry("author", "first")).message(14, entry("author", "last")).message(14, entry("names", "{}"));
  const Model read = read_well(file.build());
  EXPECT_EQ(read.format, "onnx");
  EXPECT_EQ(read.version, "IR 8");
  EXPECT_EQ(to_json_line(read.common), R"({"author":"last","description":"a model"})");
  EXPECT_EQ(to_json_line(read.metadata),
            R"({"ir_version":8,"producer_name":"pytorch","producer_version":"2.5","domain":"ai.example",)"
            R"("model_version":-1,"doc_string":"a model","opset_import":{"ai.onnx":17,"com.microsoft":1},)"
            R"("metadata_props":{"author":"last","names":"{}"},)"
            R"("inputs":[{"name":"x","dtype":"float32","shape":["N",2]}],)"
            R"("outputs":[{"name":"y","dtype":"int64","shape":[]}],"graphs":1,"nodes":0,"operators":{}})");
}

// Before IR version 4 the initializers are among the inputs.
TEST(Onnx, InputsWithInitializerAreNotListed) {
  Message main = graph({raw("w", kUint8, {1}, "x")});
  main.message(11, value("w", kUint8, {1})).message(11, value("x", kFloat, {}));
  EXPECT_EQ(metadata_of(read_well(model(main).build()), "inputs"), R"([{"name":"x","dtype":"float32","shape":[]}])");
}

TEST(Onnx, InputsOfOtherTypesHaveTheirKind) {
  Message main = graph({});
  for (const uint32_t kind : {4U, 5U, 9U})
    main.message(11, Message().bytes(1, "x").message(2, Message().message(kind, Message())));
  EXPECT_EQ(metadata_of(read_well(model(main).build()), "inputs"),
            R"([{"name":"x","type":"sequence"},{"name":"x","type":"map"},{"name":"x","type":"optional"}])");
}

TEST(Onnx, ManyInputsAreOnlyInTheGraph) {
  Message main = graph({});
  for (int i = 0; i < 1'100; ++i) main.message(11, value("x", kFloat, {}));
  EXPECT_EQ(metadata_of(read_well(model(main).build()), "inputs"), "\"1100 values: see graph.json\"");
}

TEST(Onnx, MalformedFilesAreRefused) {
  EXPECT_EQ(error_of(""), "onnx: no graph");
  EXPECT_EQ(error_of(Message().number(1, 8).build()), "onnx: no graph");
  EXPECT_THAT(error_of(small_onnx().substr(0, small_onnx().size() / 2)), HasSubstr("onnx: protobuf: a field of "));
  EXPECT_THAT(error_of(small_onnx() + '\0'), HasSubstr("field number 0"));
  // A length inside of an initializer that leads out of it.
  const Message lies = Message().number(2, kUint8).raw("\x4A\x7Fx");
  EXPECT_THAT(error_of(model(graph({lies})).build()), HasSubstr("a field of 127 bytes, 1 left"));
}

TEST(Onnx, ValuesAreNotReadToListTensors) {
  const uint64_t values = 5'000'000'000;
  const std::string header = tensor("w", kUint8, {values}).build() + "\x4A" + test::varint(values);
  std::string file = "\x2A" + test::varint(header.size() + values) + header;
  file = Message().number(1, 8).build() + "\x3A" + test::varint(file.size() + values) + file;
  const auto source = std::make_shared<test::CountedSource>(file, file.size() + values);
  const auto read = read_as("onnx", {"m.onnx", source, nullptr});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->tensors[0].nbytes(), values);
  EXPECT_LE(source->bytes_read, 8'192U);
}

}  // namespace
}  // namespace weightfs::onnx_test
