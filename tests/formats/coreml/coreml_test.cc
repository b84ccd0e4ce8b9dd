#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/completeness.h"
#include "formats/format.h"
#include "formats/summary/summary.h"
#include "tests/builders/coreml_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::coreml_test {
namespace {

using namespace test::coreml;
using test::Files;
using test::listing;
using test::well;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Result<Model> read_package(Files files, const std::string& manifest = kManifest) {
  return read_as("coreml",
                 {"Manifest.json", in_memory(manifest), std::make_shared<test::MemoryFolder>(std::move(files))});
}

Model read_well(const Message& model, const std::string& weights = small_weights()) {
  return well(read_package(
      {{"Data/com.apple.CoreML/model.mlmodel", model.build()}, {"Data/com.apple.CoreML/weights/weight.bin", weights}}));
}

// The one tensor of a program with this value, or the warning.
std::string outcome(const Message& value) {
  const Model read = read_well(model(function("main", {constant("w", value)})));
  return read.warnings.empty() ? listing(read).at(0) : read.warnings[0];
}

TEST(CoreMl, PackageIsReadAsModel) {
  const auto read = read_package(small_package());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->format, "coreml");
  EXPECT_EQ(read->version, "specification 8");
  EXPECT_THAT(
      listing(*read),
      ElementsAre("w float16 FLOAT16 [2x2] abcdefgh", "tied float16 FLOAT16 [4] abcdefgh", "p.lut uint8 UINT8 [3] xyz",
                  std::string("here int32 INT32 [2] \1\0\0\0\2\0\0\0", 29), "bad float16 FLOAT16 [4] refused"));
  EXPECT_THAT(read->warnings, ElementsAre(HasSubstr("tensor \"bad\": no record at 128")));
  EXPECT_EQ(to_json_line(read->common), R"({"description":"a model","license":"MIT"})");
  ASSERT_THAT(read->parts, SizeIs(3));
  EXPECT_EQ(read->parts[1].path, "Data/com.apple.CoreML/model.mlmodel");
  EXPECT_EQ(read->parts[2].path, "Data/com.apple.CoreML/weights/weight.bin");
}

TEST(CoreMl, ModelAloneFindsItsWeightsBesideIt) {
  const auto read =
      read_as("coreml", {"m.mlmodel", in_memory(small_coreml()),
                         std::make_shared<test::MemoryFolder>(Files{{"weights/weight.bin", small_weights()}})});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(listing(*read)[0], "w float16 FLOAT16 [2x2] abcdefgh");
}

TEST(CoreMl, IsDetectedByManifestOrFields) {
  const auto match = [](const std::string& bytes, const char* name) {
    return matches_coreml(test::probe_of(bytes, name));
  };
  EXPECT_EQ(match(kManifest, "Manifest.json"), Match::yes);
  EXPECT_EQ(match(kManifest, "other.json"), Match::no);
  EXPECT_EQ(match("{\"a\": 1}", "Manifest.json"), Match::no);
  EXPECT_EQ(match(small_coreml(), "m"), Match::maybe);
  EXPECT_EQ(match("", "m.mlmodel"), Match::no);
  EXPECT_EQ(match(Message().number(1, 8).message(7, Message()).build(), "m"), Match::no);  // ONNX
  EXPECT_EQ(match(Message().message(502, Message()).build(), "m"), Match::no);             // no version
}

TEST(CoreMl, DirectoryWithManifestIsOneModel) {
  const auto entry = [](const std::string& manifest) {
    return model_entry_file({"Data", "Manifest.json"}, test::MemoryFolder({{"Manifest.json", manifest}})).value();
  };
  EXPECT_EQ(entry(kManifest), "Manifest.json");
  EXPECT_EQ(entry("{}"), std::nullopt);
}

TEST(CoreMl, SpecialFileRefusesOnlyItsTensors) {
  const std::string weights = "Data/com.apple.CoreML/weights/weight.bin";
  const auto folder = std::make_shared<test::MemoryFolder>(small_package(), weights);
  const Model model = well(read_as("coreml", {"Manifest.json", in_memory(kManifest), folder}));
  EXPECT_THAT(listing(model), testing::Contains(std::string("here int32 INT32 [2] \1\0\0\0\2\0\0\0", 29)));
  EXPECT_THAT(model.warnings, testing::Contains("tensor \"w\": not a regular file: refused"));
}

TEST(CoreMl, PackageWithoutModelIsRefused) {
  const auto error = [](const std::string& manifest) { return read_package({}, manifest).error().message; };
  EXPECT_EQ(error("{}"), "coreml: the manifest names no model");
  EXPECT_EQ(error(R"({"rootModelIdentifier":"A","itemInfoEntries":{"A":{"path":"../../x"}}})"),
            "coreml: path \"../../x\" leads out of the model's directory");
  EXPECT_EQ(error(R"({"rootModelIdentifier":"A","itemInfoEntries":{"A":{"path":"x"}}})"), "coreml: no such file");
}

TEST(CoreMl, RecordsThatDoNotMatchAreRefused) {
  EXPECT_THAT(outcome(blob(kFloat16, {4}, 1'000'000)), HasSubstr("a record at 1000000 of the"));
  EXPECT_THAT(outcome(blob(kFloat16, {4}, ~0ULL)), HasSubstr("a record at"));
  EXPECT_THAT(outcome(blob(kFloat16, {5}, 64)), HasSubstr("a record of 8 bytes, 10 needed: refused"));
  EXPECT_THAT(outcome(blob(kFloat32, {2}, 64)), HasSubstr("a record of type 1, 2 expected: refused"));
  EXPECT_THAT(outcome(blob(kFloat16, {1ULL << 63, 4}, 64)), HasSubstr("overflows 64 bits"));
  EXPECT_THAT(outcome(blob(kFloat16, {4}, 64, "weights/weight.bin")), HasSubstr("is not below @model_path/"));
  EXPECT_THAT(outcome(blob(kFloat16, {4}, 64, "@model_path/../../../etc/passwd")), HasSubstr("leads out of"));
  EXPECT_THAT(outcome(blob(kFloat16, {4}, 64, "@model_path/none")), HasSubstr("no such file"));
}

TEST(CoreMl, DataOfARecordIsInsideItsFile) {
  std::string weights = small_weights();
  weights.replace(64 + 16, 8, test::little(~0ULL - 4));
  const Model read = read_well(model(function("main", {constant("w", blob(kFloat16, {4}, 64))})), weights);
  EXPECT_TRUE(read.tensors.at(0).source.refused());
  weights = test::little(1, 4) + test::little(1, 4) + weights.substr(8);
  EXPECT_THAT(read_well(model(function("main", {constant("w", blob(kFloat16, {4}, 64))})), weights).warnings,
              ElementsAre(HasSubstr("version 1 of its weight file, 2 expected")));
}

TEST(CoreMl, ImmediateValuesAreDecoded) {
  EXPECT_EQ(outcome(immediate(kFloat32, {1}, 1, "abcd")), "w float32 FLOAT32 [1] abcd");
  EXPECT_EQ(outcome(immediate(kUint8, {2}, 2, "ab")), "w uint8 UINT8 [2] ab");
  EXPECT_EQ(outcome(immediate(1, {1}, 3, "\1")), "w bool BOOL [1] \1");
  EXPECT_EQ(outcome(immediate(kFloat16, {1}, 7, "ab")), "w float16 FLOAT16 [1] ab");
  EXPECT_EQ(outcome(immediate(kUint4, {3}, 7, "ab")), "w uint4 UINT4 [3] ab");
  EXPECT_THAT(outcome(immediate(kFloat16, {1}, 1, "abcd")), HasSubstr("its values have another type"));
  EXPECT_THAT(outcome(immediate(kFloat16, {1}, 7, "abc")), HasSubstr("3 bytes, 2 needed"));
  EXPECT_THAT(outcome(value(kFloat16, {1})), HasSubstr("no values, 2 bytes needed"));
}

TEST(CoreMl, TextsAreNotTensors) {
  const Message text = immediate(2, {}, 4, "relu");
  EXPECT_THAT(read_well(model(function("main", {constant("s", text)}))).tensors, IsEmpty());
}

TEST(CoreMl, FunctionsBlocksAndPipelinesAreRead) {
  const Message weight = constant("w", immediate(kUint8, {1}, 2, "x"));
  const Message nested = operation("cond", "c", {}).message(4, Message().message(3, weight));
  Message input = operation("add", "sum", {});
  input.message(2, entry("y", Message().message(1, Message().message(2, immediate(kUint8, {1}, 2, "y")))));
  const Model read = read_well(model(function("prefill", {nested, input})));
  EXPECT_THAT(listing(read), ElementsAre("w uint8 UINT8 [1] x", "sum.y uint8 UINT8 [1] y"));
  EXPECT_EQ(read.tensors[0].scope, "prefill");
  EXPECT_EQ(to_json_line(*read.metadata.find("operations")), R"({"add":1,"cond":1,"const":1})");
  const Message inner = model(function("main", {weight}));
  const Model pipeline = read_well(Message().number(1, 8).message(202, Message().message(1, inner).message(1, inner)));
  ASSERT_THAT(pipeline.tensors, SizeIs(2));
  EXPECT_EQ(pipeline.tensors[1].scope, "1");
}

TEST(CoreMl, OtherKindsHaveMetadataAndAWarning) {
  const Model read = read_well(Message().number(1, 4).message(400, Message()));
  EXPECT_THAT(read.tensors, IsEmpty());
  EXPECT_THAT(read.warnings, ElementsAre("glmClassifier: the numbers of this kind of model are not shown"));
  EXPECT_TRUE(completeness_of(read).is_complete());
  EXPECT_EQ(summary::summarise(read).summary.parameters, std::nullopt);
  EXPECT_EQ(to_json_line(read.metadata), R"({"specification_version":4,"kind":"glmClassifier"})");
}

// The models with weights are read, the others are named: a pipeline lacks nothing.
TEST(CoreMl, PipelinesNameTheirModelsOfOtherKinds) {
  const Message network = model(function("main", {constant("w", immediate(kUint8, {1}, 2, "x"))}));
  const auto step = [](uint32_t kind) { return Message().number(1, 4).message(kind, Message()); };
  const auto read = [&](const std::vector<Message>& steps) {
    Message pipeline;
    for (const Message& one : steps) pipeline.message(1, one);
    return read_well(Message().number(1, 8).message(200, Message().message(1, pipeline)));
  };
  const Model mixed = read({step(609), step(609), step(604), step(604), network, step(302)});
  ASSERT_THAT(mixed.tensors, SizeIs(1));
  EXPECT_EQ(mixed.tensors[0].scope, "4");
  EXPECT_THAT(mixed.warnings,
              ElementsAre("2 models of the kind scaler: the numbers of this kind of model are not shown",
                          "treeEnsembleRegressor: the numbers of this kind of model are not shown"));
  EXPECT_EQ(
      to_json_line(*mixed.metadata.find("models")),
      R"(["arrayFeatureExtractor","arrayFeatureExtractor","scaler","scaler","mlProgram","treeEnsembleRegressor"])");
  EXPECT_TRUE(completeness_of(mixed).is_complete());
  const Model whole = read({step(609), network});
  EXPECT_THAT(whole.warnings, IsEmpty());
  EXPECT_EQ(summary::summarise(whole).summary.parameters, 1u);
}

TEST(CoreMl, BlocksAreReadUpTo100Messages) {
  Message block = Message().message(3, constant("w", immediate(kUint8, {1}, 2, "x")));
  for (int i = 0; i < 60; ++i) block = Message().message(3, operation("cond", "c", {}).message(4, block));
  const Message code = entry("main", Message().message(3, entry("CoreML7", block)));
  const auto read = read_package({{"Data/com.apple.CoreML/model.mlmodel", model(code).build()}});
  EXPECT_EQ(read.error().message, "coreml: protobuf: messages nested more than 100 deep");
}

}  // namespace
}  // namespace weightfs::coreml_test
