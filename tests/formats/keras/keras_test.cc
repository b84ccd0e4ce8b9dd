#include <gmock/gmock.h>

#include "tests/builders/zip_builder.h"
#include "tests/support/hdf5_reading.h"
#include "tests/support/memory_folder.h"
#include "tests/support/reading.h"
#include "tests/support/small_models.h"

namespace weightfs::test::keras_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Model read_well(const Container& container) { return well(read_model(container)); }

Model read_zip_of(const ZipBuilder& zip) { return read_well({"m.keras", in_memory(zip.build()), nullptr}); }

TEST(Keras, TensorsAreThoseOfTheWeights) {
  const Model model = read_well({"m.keras", in_memory(small_keras()), nullptr});
  EXPECT_EQ(model.format, "keras");
  EXPECT_EQ(model.version, "3.11.0");
  EXPECT_EQ(*model.common.find_as<std::string>("name"), "tiny");
  EXPECT_THAT(listing(model), ElementsAre("vars/0 bfloat16 H5T_OPAQUE of 2 bytes [1] hh",
                                          "vars/1 float32 H5T_IEEE_F32LE [4] 0123456701234567",
                                          "alias bfloat16 H5T_OPAQUE of 2 bytes [1] hh"));
}

TEST(Keras, LambdaLayersAreNamed) {
  const Model model = read_well({"m.keras", in_memory(small_keras()), nullptr});
  EXPECT_THAT(metadata_of(model, "keras"), HasSubstr(R"("lambda_layers":["code"])"));
  EXPECT_THAT(model.warnings, ElementsAre("config.json: Lambda layer \"code\" has Python code, which is not run"));
}

TEST(Keras, ModesOfQuantisationAreNamed) {
  ZipBuilder zip;
  zip.stored("config.json", R"({"config": {"layers": [
      {"config": {"dtype": {"class_name": "QuantizedDTypePolicy", "config": {"mode": "int8", "source_name": "float32"}}}},
      {"config": {"dtype": "int4_from_float32"}}, {"config": {"dtype": "float32", "mode": "bilinear"}}]}})");
  zip.stored("model.weights.h5", small_new_hdf5());
  EXPECT_THAT(metadata_of(read_zip_of(zip), "keras"), HasSubstr(R"("quantization":["int4","int8"])"));
}

TEST(Keras, StoredWeightsAreRangesOfTheZip) {
  const SourcePtr zip = in_memory(small_keras());
  const Model model = read_well({"m.keras", zip, nullptr});
  const Slice half = model.tensors.at(0).source;
  const auto member = std::dynamic_pointer_cast<const Slice>(half.whole());
  ASSERT_NE(member, nullptr);
  EXPECT_EQ(member->whole(), zip);
  EXPECT_EQ(read_text(*zip, member->offset() + half.offset(), 2).value(), "hh");
}

TEST(Keras, DeflatedWeightsAreDecoded) {
  ZipBuilder zip;
  zip.stored("config.json", "{}");
  zip.deflated("model.weights.h5", small_new_hdf5());
  EXPECT_EQ(read_zip_of(zip).tensors.size(), 3U);
}

TEST(Keras, DamagedWeightsAreAWarning) {
  ZipBuilder zip;
  zip.stored("config.json", "{}");
  zip.stored("model.weights.h5", small_new_hdf5().substr(0, 100));
  const Model model = read_zip_of(zip);
  EXPECT_THAT(model.tensors, IsEmpty());
  EXPECT_THAT(model.warnings, testing::Contains(HasSubstr("model.weights.h5: hdf5: the file ends 1,632 bytes early")));
}

TEST(Keras, ArraysOfPickledObjectsAreNotRead) {
  ZipBuilder zip;
  zip.stored("config.json", "{\"class_name\": \"Sequential\"}");
  zip.stored("model.weights.npz", "PK");
  EXPECT_THAT(read_zip_of(zip).warnings, testing::Contains(HasSubstr("pickled objects, which are not read")));
}

TEST(Keras, NeitherConfigurationNorWeightsIsRefused) {
  ZipBuilder zip;
  zip.stored("config.json", "{");
  zip.stored("model.weights.npz", "PK");
  const auto model = read_model({"m.keras", in_memory(zip.build()), nullptr});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message, "m.keras: keras: neither a configuration nor weights");
}

TEST(Keras, LambdaLayerOfAnH5FileIsNamed) {
  Hdf5Builder b;
  const Model model = read_h5_well(b.build(b.group({}, {Hdf5Builder::text_attribute("model_config", kKerasConfig)})));
  EXPECT_THAT(model.warnings, ElementsAre("model_config: Lambda layer \"code\" has Python code, which is not run"));
  EXPECT_THAT(metadata_of(model, "hdf5"), HasSubstr(R"("lambda_layers":["code"])"));
}

Container sharded(std::string index, Files files) {
  return {"m.weights.json", in_memory(std::move(index)), std::make_shared<MemoryFolder>(std::move(files))};
}

std::string shard_with(const std::string& name) {
  Hdf5Builder b;
  return b.build(b.group({{name, b.dataset(Hdf5Type::integer(1), {1}, b.contiguous(name))}}));
}

TEST(KerasSharded, TensorsOfAllFilesAreShownOnce) {
  const Model model =
      read_well(sharded(R"({"metadata":{"total_size":2},"weight_map":{"x":["b.h5","a.h5"],"y":"a.h5"}})",
                        {{"a.h5", shard_with("a")}, {"b.h5", shard_with("b")}}));
  EXPECT_EQ(model.format, "keras-sharded");
  EXPECT_THAT(listing(model), ElementsAre("b int8 H5T_STD_I8LE [1] b", "a int8 H5T_STD_I8LE [1] a"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(KerasSharded, MissingAndDamagedFilesAreWarnings) {
  const Model model = read_well(sharded(R"({"weight_map":{"x":["a.h5","b.h5","../c.h5"],"y":"d.h5"}})",
                                        {{"a.h5", shard_with("a")}, {"d.h5", "no HDF5"}}));
  EXPECT_THAT(listing(model), ElementsAre("a int8 H5T_STD_I8LE [1] a"));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("\"d.h5\": hdf5: no signature"),
                                          HasSubstr("2 of 4 shards are missing: b.h5 and 1 more"),
                                          HasSubstr("shard \"../c.h5\": missing")));
}

TEST(KerasSharded, DirectoryIsNamedByItsIndex) {
  const MemoryFolder folder(Files{{"m.weights.json", "{}"}, {"m_00000.weights.h5", ""}});
  EXPECT_EQ(model_entry_file(folder.names().value(), folder).value(), "m.weights.json");
}

}  // namespace
}  // namespace weightfs::test::keras_test
