#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <span>

#include "formats/format.h"
#include "tests/builders/tfjs_builder.h"
#include "tests/support/memory_folder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::tfjs_test {
namespace {

using namespace test::tfjs;
using test::error_in;
using test::Files;
using test::listing;
using test::metadata_of;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

Result<Model> read(const std::string& json, Files beside = {{"w.bin", "0123456789abcdef"}}) {
  return read_as("tfjs", {"model.json", in_memory(json), std::make_shared<test::MemoryFolder>(std::move(beside))});
}

Model read_well(const std::string& json, Files beside = {{"w.bin", "0123456789abcdef"}}) {
  return test::well(read(json, std::move(beside)));
}

Model small() {
  return read_well(small_tfjs(), {{"s1.bin", "012"}, {"below/s2.bin", "34567qrs"}, {"t.bin", small_tfjs_texts()}});
}

TEST(Tfjs, WeightsFollowEachOtherInTheFilesOfTheirGroup) {
  const Model model = small();
  EXPECT_EQ(model.version, "graph-model");
  EXPECT_THAT(listing(model), ElementsAre("a/w float32 float32 [2] 01234567", "q uint8 uint8 [3] qrs",
                                          "text string string [2] " + small_tfjs_texts().substr(0, 11),
                                          "c complex64 complex64 [1] 01234567", "empty int32 int32 [0x3] "));
  EXPECT_THAT(model.warnings, SizeIs(0));
  EXPECT_THAT(model.parts, SizeIs(4));
  EXPECT_THAT(*test::well(model.per_tensor->strings.at(2).get()), ElementsAre("a", "bc"));
}

TEST(Tfjs, WeightInOneFileIsARangeOfIt) {
  const Model model = small();
  EXPECT_EQ(model.tensors[1].source.offset(), 5U);
  EXPECT_EQ(model.tensors[1].source.whole()->size(), 8U);
}

TEST(Tfjs, QuantisationAndSignatureAreMetadata) {
  const Model model = small();
  EXPECT_EQ(metadata_of(model, "quantization"), R"([{"name":"q","dtype":"uint8","min":-1.5,"scale":0.5}])");
  EXPECT_EQ(metadata_of(model, "inputs"), R"([{"name":"x","dtype":"float32","shape":["?","2"]}])");
  EXPECT_EQ(metadata_of(model, "operators"), R"({"MatMul":1,"Placeholder":1})");
  EXPECT_EQ(metadata_of(model, "generatedBy"), R"("2.15.0")");
}

TEST(Tfjs, OnlyKeysOfTheQuantisationAreShown) {
  const std::string quantised =
      R"(,"quantization":{"more":[1],"name":"x","scale":1,"min":0,"original_dtype":"float32","dtype":"uint8"})";
  const Model model = read_well(model_json(group(R"("w.bin")", weight("q", "float32", "3", quantised))));
  EXPECT_EQ(metadata_of(model, "quantization"),
            R"([{"name":"q","dtype":"uint8","original_dtype":"float32","min":0,"scale":1}])");
}

TEST(Tfjs, QuantisationWithoutItsNumbersIsRefused) {
  const auto lines = [](const std::string& quantization) {
    const std::string bad = weight("q", "float32", "3", R"(,"quantization":)" + quantization);
    const Model model = read_well(model_json(group(R"("w.bin")", bad + "," + weight("b", "int32", "1"))));
    std::vector<std::string> shown = listing(model);
    shown.insert(shown.end(), model.warnings.begin(), model.warnings.end());
    return shown;
  };
  const std::string refusal = "tensor \"q\": quantization without dtype, scale or min: refused";
  for (const char* const quantization :
       {R"({"dtype":"uint8","min":0})", R"({"dtype":"uint8","scale":1})", R"({"dtype":"uint8","min":0,"scale":null})"})
    EXPECT_THAT(lines(quantization), ElementsAre("q uint8 uint8 [3] refused", "b int32 int32 [1] 3456", refusal))
        << quantization;
  EXPECT_EQ(lines(R"({"dtype":"uint16","min":0})")[2], refusal);
  EXPECT_THAT(lines(R"({"min":0,"scale":1})"),
              ElementsAre("q unknown float32 [] refused", "b int32 int32 [] refused", refusal,
                          "tensor \"b\": the size of a weight before it is not known: refused"));
  EXPECT_THAT(lines(R"({"dtype":"float16"})"), ElementsAre("q float16 float16 [3] 012345", "b int32 int32 [1] 6789"));
  EXPECT_THAT(lines(R"({"dtype":"uint8","min":-1,"scale":18446744073709551615})"), SizeIs(2));
}

TEST(Tfjs, FactsReplaceKeysOfTheReader) {
  const Model model = read_well(model_json("", R"(,"producer_name":"own","operators":7)"));
  EXPECT_EQ(metadata_of(model, "producer_name"), R"("own")");
  EXPECT_EQ(metadata_of(model, "operators"), "7");
}

TEST(Tfjs, QuantisedWeightsAreNumbersInFloat32) {
  const Model model = small();
  ASSERT_EQ(model.per_tensor->affine_numbers.count(1), 1U);
  const SourcePtr values = affine_values(model.tensors[1], model.per_tensor->affine_numbers.at(1));
  std::array<float, 3> numbers{};
  ASSERT_TRUE(read_exact(*values, 0, std::as_writable_bytes(std::span(numbers))));
  EXPECT_THAT(numbers, ElementsAre('q' * 0.5 - 1.5, 'r' * 0.5 - 1.5, 's' * 0.5 - 1.5));
  std::array<std::byte, 5> part{};
  ASSERT_TRUE(read_exact(*values, 3, part));
  EXPECT_EQ(std::memcmp(part.data(), std::as_bytes(std::span(numbers)).data() + 3, part.size()), 0);
  const SourcePtr rounded = affine_values(model.tensors[1], {0.5, 0, true});
  ASSERT_TRUE(read_exact(*rounded, 0, std::as_writable_bytes(std::span(numbers))));
  EXPECT_THAT(numbers, ElementsAre(57, 57, 58));  // of 56.5, 57 and 57.5
}

TEST(Tfjs, LayersAreCountedByTheirClass) {
  const std::string topology =
      R"({"class_name":"Sequential","config":{"layers":[{"class_name":"Dense","config":{"class_name":"no"}},)"
      R"({"class_name":"Dense"}]}})";
  const Model model = read_well(model_json("", R"(,"modelTopology":)" + topology));
  EXPECT_EQ(metadata_of(model, "operators"), R"({"Dense":2})");
}

TEST(Tfjs, ManifestAloneIsRead) {
  const std::string list = "[" + group(R"("w.bin")", weight("w", "int32", "2")) + "]";
  EXPECT_EQ(matches_tfjs(test::probe_of(list)), Match::maybe);
  EXPECT_THAT(listing(read_well(list)), ElementsAre("w int32 int32 [2] 01234567"));
}

TEST(Tfjs, FileMayBeNamedTwice) {
  const std::string json = model_json(group(R"("w.bin","./w.bin")", weight("w", "bool", "20")));
  const Model model = read_well(json);
  EXPECT_THAT(listing(model), ElementsAre("w bool bool [20] 0123456789abcdef0123"));
  EXPECT_THAT(model.parts, SizeIs(2));
}

TEST(Tfjs, WeightsOfAMissingFileAreRefused) {
  const std::string weights =
      weight("a", "int32", "4") + "," + weight("b", "int32", "1") + "," + weight("c", "bool", "1");
  const Model model = read_well(model_json(group(R"("w.bin","none.bin","w.bin")", weights)));
  EXPECT_THAT(listing(model), ElementsAre("a int32 int32 [4] 0123456789abcdef", "b int32 int32 [1] refused",
                                          "c bool bool [1] refused"));
  EXPECT_THAT(model.warnings, ElementsAre("\"none.bin\": no such file; 2 tensors are refused"));
}

TEST(Tfjs, PathsOutOfTheDirectoryAreRefused) {
  for (const char* const path : {"../w.bin", "/etc/hostname", "a/../../w.bin", ""}) {
    const Model model = read_well(model_json(group(fmt::format("\"{}\"", path), weight("w", "bool", "1"))));
    EXPECT_TRUE(model.tensors[0].source.refused()) << path;
    EXPECT_THAT(model.warnings[0], HasSubstr("1 tensor is refused"));
  }
}

TEST(Tfjs, WeightsBehindOneOfUnknownSizeAreRefused) {
  const auto refusals = [](const std::string& bad) {
    const Model model = read_well(model_json(group(R"("w.bin")", bad + "," + weight("b", "bool", "1"))));
    EXPECT_TRUE(model.tensors[1].source.refused());
    return model.warnings;
  };
  EXPECT_THAT(refusals(weight("a", "int64", "1")),
              ElementsAre("tensor \"a\": dtype \"int64\": refused",
                          "tensor \"b\": the size of a weight before it is not known: refused"));
  EXPECT_THAT(refusals(weight("a", "float16", "1")), Contains(HasSubstr("dtype \"float16\"")));
  EXPECT_THAT(refusals(weight("a", "int32", "1", R"(,"quantization":{"dtype":"float16"})")), SizeIs(2));
  EXPECT_THAT(refusals(weight("a", "bool", "-1")), Contains(HasSubstr("dimension -1")));
  EXPECT_THAT(refusals(weight("a", "bool", "1.5")), Contains(HasSubstr("dimension 1.5")));
  EXPECT_THAT(refusals(weight("a", "bool", "1099511627776,1099511627776")), Contains(HasSubstr("overflows")));
  EXPECT_THAT(refusals(weight("a", "string", "1")), SizeIs(2));
}

TEST(Tfjs, FileThatEndsEarlyIsReported) {
  const std::string weights = weight("a", "bool", "15") + "," + weight("b", "int32", "2");
  const Model model = read_well(model_json(group(R"("w.bin")", weights)));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"b\": 8 bytes at 15, but its group has 16: refused"));
  EXPECT_EQ(model.lacks->short_by, 7U);
}

TEST(Tfjs, MalformedManifestsAreRefused) {
  EXPECT_EQ(error_in(read(R"({"format":"layers-model"})")), "tfjs: JSON without a \"weightsManifest\"");
  EXPECT_EQ(error_in(read(R"({"weightsManifest":{}})")), "tfjs: \"weightsManifest\" is not a list");
  EXPECT_EQ(error_in(read(R"({"weightsManifest":[7]})")), "tfjs: group 0: an object expected");
  EXPECT_EQ(error_in(read(model_json(group("1", "")))), "tfjs: group 0: a path that is not a text");
  EXPECT_EQ(error_in(read(R"({"weightsManifest":[{"paths":[],"weights":null}]})")),
            "tfjs: group 0: a list expected at \"weights\"");
  EXPECT_EQ(error_in(read(model_json(group("", "{}")))), "tfjs: group 0: weight 0: a text expected at \"name\"");
  EXPECT_THAT(error_in(read(R"({"weightsManifest":[)")), HasSubstr("tfjs: "));
  EXPECT_EQ(error_in(read("7")), "tfjs: no JSON object");
}

TEST(Tfjs, IsDetectedByItsManifest) {
  const auto match = [](const std::string& text) { return matches_tfjs(test::probe_of(text)); };
  EXPECT_EQ(match(small_tfjs()), Match::yes);
  EXPECT_EQ(match(R"({"modelTopology":{})"), Match::maybe);
  EXPECT_EQ(match(R"({"modelTopology":{)"), Match::yes);
  EXPECT_EQ(match(R"({"format": "layers-model"})"), Match::yes);
  EXPECT_EQ(match(R"({"format":"cart")"), Match::no);
  EXPECT_EQ(match(R"({"model":"yolo"})"), Match::no);
  EXPECT_EQ(match("[1]"), Match::no);
  const std::string long_topology = R"({"modelTopology":")" + std::string(10'000, 'x') + R"(","weightsManifest":[]})";
  EXPECT_EQ(match(long_topology), Match::yes);
}

TEST(Tfjs, DirectoryWithAModelJsonIsAModel) {
  const auto entry = [](const std::string& json) {
    return model_entry_file({"model.json", "w.bin"}, test::MemoryFolder({{"model.json", json}})).value();
  };
  EXPECT_EQ(entry(small_tfjs()), "model.json");
  EXPECT_EQ(entry(R"({"model":"yolo"})"), std::nullopt);
}

TEST(Tfjs, CutDocumentsAreCorrupt) {
  const std::string whole = R"({"format":"layers-model","generatedBy":"keras","modelTopology":{"a":[{"b":1}]},)"
                            R"("weightsManifest":[{"paths":["w.bin"],"weights":[]}]})";
  EXPECT_EQ(matches_tfjs(test::probe_of(whole)), Match::yes);
  for (size_t size = whole.find("\"generatedBy"); size < whole.size(); ++size) {
    const auto model = read_model({"m.json", in_memory(whole.substr(0, size))});
    ASSERT_FALSE(model) << size;
    EXPECT_EQ(model.error().code, Code::corrupt) << size << ": " << model.error().message;
  }
}

}  // namespace
}  // namespace weightfs::tfjs_test
