#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/completeness.h"
#include "formats/format.h"
#include "tests/builders/pt2_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"

namespace weightfs::pt2_test {
namespace {

using namespace test::pt2;
using test::listing;
using test::metadata_of;
using test::ZipBuilder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Result<Model> read(std::string bytes) { return read_model({"m.pt2", in_memory(std::move(bytes))}); }

Model read_well(std::string bytes) { return test::well(read(std::move(bytes))); }

std::string fact(const Model& model, std::string_view key) {
  return test::json_at(std::get<Map>(*model.metadata.find("pt2")), key);
}

// The line of the first tensor, and the warnings. The storage "s" has 8 bytes.
std::vector<std::string> lines_of(std::string_view weights, std::string_view byteorder = "little") {
  ZipBuilder zip = archive(weights, byteorder);
  zip.stored("m/data/weights/s", "01234567");
  zip.stored("m/data/secret", "secret");
  const Model model = read_well(zip.build());
  std::vector<std::string> lines = listing(model);
  lines.insert(lines.end(), model.warnings.begin(), model.warnings.end());
  return lines;
}

TEST(Pt2, WeightsAreRangesOfTheirStorages) {
  const Model model = read_well(small_pt2());
  EXPECT_EQ(model.format, "pt2");
  EXPECT_EQ(model.version, "0");
  EXPECT_THAT(listing(model), ElementsAre("fc.w float32 float32 [2x1] wwwwWWWW", "fc.t uint8 uint8 [2x2] 1324",
                                          "half float16 float16 [2] wwWW", "c int64 int64 [] 12345678"));
  EXPECT_EQ(model.tensors[0].source.whole(), model.tensors[2].source.whole());
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_THAT(model.parts, SizeIs(10));
}

TEST(Pt2, ProgramIsMetadata) {
  const Model model = read_well(small_pt2());
  EXPECT_EQ(metadata_of(model, "torch_version"), R"("2.9.0")");
  EXPECT_EQ(metadata_of(model, "opset_version"), R"({"aten":10})");
  EXPECT_EQ(metadata_of(model, "inputs"), R"([{"name":"x"}])");
  EXPECT_EQ(metadata_of(model, "outputs"), R"([{"name":"mm"}])");
  EXPECT_EQ(metadata_of(model, "operators"), R"({"aten.add":1,"aten.mm":2})");
  EXPECT_EQ(fact(model, "root"), R"("m")");
  EXPECT_EQ(fact(model, "byte_order"), R"("little")");
}

TEST(Pt2, RepeatedNamesAreRefused) {
  ZipBuilder zip = archive(payload("w", "s", meta(1, "4", "1")), "little");
  zip.stored("m/data/weights/s", "abcd");
  zip.stored("m/data/weights/S", "efgh");
  EXPECT_THAT(read(zip.build()).error().message, HasSubstr("PyTorch reads any one of them"));
}

TEST(Pt2, ProgramThatIsInvalidLeavesTheWeights) {
  ZipBuilder zip;
  zip.stored("m/archive_format", "pt2\n");
  zip.stored("m/models/model.json", R"({"graph_module":[]})");
  zip.stored("m/data/weights/model_weights_config.json", config(payload("w", "s", meta(1, "4", "1"))));
  zip.stored("m/data/weights/s", "abcd");
  const Model model = read_well(zip.build());
  EXPECT_THAT(listing(model), ElementsAre("w uint8 uint8 [4] abcd"));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("the program is not described")));
}

TEST(Pt2, WeightsWithoutTheirConfigAreMissing) {
  const auto sentence = [](const std::string& file) {
    ZipBuilder zip;
    zip.stored("m/archive_format", "pt2");
    zip.stored("m/models/model.json", kProgram);
    zip.stored("m/data/weights/" + file, "abcd");
    return to_sentence(completeness_of(read_well(zip.build())));
  };
  EXPECT_EQ(
      sentence("weight_0"),
      "1 file cannot be read: m/data/weights/NAME_weights_config.json: missing, and with it the names of 1 files of "
      "weights");
  EXPECT_EQ(sentence("other"), "");
  EXPECT_TRUE(completeness_of(read_well(small_pt2())).is_complete());
}

TEST(Pt2, OldFormHasFilesOfTorchSave) {
  const Model model = read_well(small_old_pt2());
  EXPECT_EQ(model.version, "8.1");
  EXPECT_THAT(listing(model), ElementsAre("fc.w float32 float32 [2] wwwwWWWW", "c uint8 uint8 [4] cccc"));
  EXPECT_EQ(metadata_of(model, "torch_version"), R"("2.9.0")");
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Pt2, SeveralModelsAreScopes) {
  ZipBuilder zip;
  zip.stored("m/archive_format", "pt2");
  for (const std::string name : {"a", "b"}) {
    zip.stored("m/models/" + name + ".json", kProgram);
    zip.stored("m/data/weights/" + name + "_weights_config.json", config(payload("w", name, meta(1, "1", "1"))));
    zip.stored("m/data/weights/" + name, name);
  }
  const Model model = read_well(zip.build());
  ASSERT_THAT(listing(model), ElementsAre("w uint8 uint8 [1] a", "w uint8 uint8 [1] b"));
  EXPECT_EQ(model.tensors[0].scope, "a");
  EXPECT_EQ(model.tensors[1].scope, "b");
  EXPECT_EQ(fact(model, "models"), R"(["a","b"])");
}

TEST(Pt2, NumbersOfBigEndianMachinesAreSwapped) {
  EXPECT_THAT(lines_of(payload("w", "s", meta(3, "2", "1")), "big"), ElementsAre("w int16 int16 [2] 1032"));
  EXPECT_THAT(lines_of(payload("w", "s", meta(1, "2", "1")), "middle"),
              ElementsAre("w uint8 uint8 [2] 01", HasSubstr("little-endian is assumed")));
}

TEST(Pt2, PickledWeightsAreFilesOfTorchSave) {
  test::PytorchBuilder saved;
  const auto stored = test::storage("Byte", saved.bytes("abcd"), 4);
  ZipBuilder zip = archive(payload("w", "weight_0", meta(1, "4", "1"), true) + "," +
                           payload("bad", "weight_1", meta(1, "4", "1"), true) + "," +
                           payload("number", "weight_2", meta(1, "4", "1"), true));
  zip.stored("m/data/weights/weight_0", saved.members_of(test::tensor_v2(stored, {{4}, {1}}).pickle()).build());
  zip.stored("m/data/weights/weight_1", "no zip");
  zip.deflated("m/data/weights/weight_2",
               test::PytorchBuilder().members_of(test::PickleBuilder().integer(1).pickle()).build());
  const Model model = read_well(zip.build());
  EXPECT_THAT(listing(model),
              ElementsAre("w uint8 uint8 [4] abcd", "bad uint8 uint8 [4] refused", "number uint8 uint8 [4] refused"));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("tensor \"bad\": zip"), HasSubstr("its member has no tensor")));
}

TEST(Pt2, WeightsThatAreDescribedWronglyAreRefused) {
  const auto with = [](std::string_view entry) { return lines_of(entry); };
  EXPECT_THAT(with(payload("w", "s", meta(7, "3", "1"))),
              ElementsAre("w float32 float32 [3] refused", HasSubstr("outside of the storage")));
  EXPECT_THAT(with(payload("w", "none", meta(7, "1", "1"))),
              ElementsAre("w float32 float32 [1] refused", HasSubstr("storage \"none\" is not in the archive")));
  EXPECT_THAT(with(payload("w", "../secret", meta(1, "1", "1"))),
              ElementsAre("w uint8 uint8 [1] refused", HasSubstr("is not in the archive")));
  EXPECT_THAT(with(payload("w", "s", meta(99, "1", "1"))),
              ElementsAre("w unknown unknown [1] refused", HasSubstr("its dtype is unknown")));
  EXPECT_THAT(with(payload("w", "s", meta(1, "1", "1", "0", 2))),
              ElementsAre("w uint8 uint8 [1] refused", HasSubstr("layout is not strided")));
  EXPECT_THAT(with(payload("w", "s", meta(1, "1", "1", "-1"))),
              ElementsAre("w uint8 uint8 [1] refused", HasSubstr("storage_offset")));
  EXPECT_THAT(with(payload("w", "s", meta(1, "-1", "1"))),
              ElementsAre("w unknown unknown [] refused", HasSubstr("sizes are not numbers")));
  EXPECT_THAT(with(payload("w", "s", meta(1, "2,2", "1"))),
              ElementsAre("w uint8 uint8 [2x2] refused", HasSubstr("2 dimensions, 1 strides")));
  EXPECT_THAT(with(payload("w", "s", meta(1, "4294967296,4294967296", "0,0"))),
              ElementsAre("w uint8 uint8 [4294967296x4294967296] refused", HasSubstr("overflows")));
  EXPECT_THAT(with(payload("w", "s", meta(1, "1099511627776", "0"))),
              ElementsAre("w uint8 uint8 [1099511627776] refused", HasSubstr("repeat a storage")));
  EXPECT_THAT(with(payload("w", "s", "{}")), ElementsAre("w unknown unknown [] refused", HasSubstr("no sizes")));
}

TEST(Pt2, ConfigurationsThatAreInvalidAreMissing) {
  EXPECT_THAT(lines_of(R"("w":7)"), ElementsAre(HasSubstr("\"w\": not an object")));
  EXPECT_THAT(lines_of(R"("w":{)"), ElementsAre(HasSubstr("weights_config.json")));
  EXPECT_THAT(lines_of(R"("w":{"path_name":"custom_obj_0","tensor_meta":null})"),
              ElementsAre("m/data/weights/: 1 objects that are not tensors are not shown"));
}

TEST(Pt2, OtherArchivesAreNot) {
  ZipBuilder zip;
  zip.stored("m/archive_format", "other");
  zip.stored("m/data/weights/x", "x");
  EXPECT_EQ(read_well(zip.build()).format, "zip");
  ZipBuilder deep;
  deep.stored("a/b/archive_format", "pt2");
  EXPECT_EQ(read_well(deep.build()).format, "zip");
}

TEST(Pt2, NativeCodeIsOnlyAFile) { EXPECT_FALSE(read_well(small_pt2()).nested); }

}  // namespace
}  // namespace weightfs::pt2_test
