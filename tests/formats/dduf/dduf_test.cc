#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file_source.h"
#include "base/files/leaf.h"
#include "base/values/json.h"
#include "formats/completeness.h"
#include "formats/format.h"
#include "tests/builders/dduf_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"
#include "tests/support/temporary.h"

namespace weightfs::dduf_test {
namespace {

using namespace test;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Model read_well(std::string zip) { return well(read_model(Container{"m.dduf", in_memory(std::move(zip))})); }

Model read_with(Files more) {
  more.merge(dduf_files());
  return read_well(dduf(more));
}

std::string weights(std::string_view name, std::string_view bytes) {
  return SafetensorsBuilder().tensor(name, "U8", std::to_string(bytes.size()), bytes).build();
}

TEST(Dduf, TensorsHaveFolderInFrontOfName) {
  const Model model = read_with({{"unet/config.json", "{}"}, {"unet/a.safetensors", weights("down/w", "abc")}});
  EXPECT_EQ(model.format, "dduf");
  EXPECT_THAT(listing(model), ElementsAre("unet/down/w uint8 U8 [3] abc", "vae/t uint8 U8 [1] x"));
  EXPECT_EQ(to_json_line(model.common), R"({"architecture":"Pipeline"})");
  EXPECT_EQ(to_json_line(*model.metadata.find("vae")), R"(["diffusers","Autoencoder"])");
}

TEST(Dduf, TensorsAreRangesOfFile) {
  TemporaryDirectory directory;
  const std::string zip = dduf(dduf_files());
  const auto model = read_model(Container{"m.dduf", open_file(directory.write("m.dduf", zip)).value()});
  ASSERT_TRUE(model) << model.error().message;
  const Slice source = model->tensors.at(0).source;
  EXPECT_EQ(source.whole(), *model->parts.at(2).source.get());
  ASSERT_TRUE(extent_of(source));
  EXPECT_EQ(zip[static_cast<size_t>(extent_of(source)->offset)], 'x');
}

TEST(Dduf, ShardsAreReadWithoutTheirIndex) {
  const Model model =
      read_with({{"vae/m-00001-of-00002.safetensors", weights("a", "1")},
                 {"vae/m-00002-of-00002.safetensors", weights("b", "2")},
                 {"vae/m.safetensors.index.json", R"({"weight_map": {"a": "m-00001-of-00002.safetensors"}})"}});
  EXPECT_THAT(listing(model), ElementsAre("vae/a uint8 U8 [1] 1", "vae/b uint8 U8 [1] 2", "vae/t uint8 U8 [1] x"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Dduf, MissingShardsAndFoldersMakeItIncomplete) {
  const Model shards =
      read_with({{"vae/m-00001-of-00002.safetensors", weights("a", "1")},
                 {"vae/m.safetensors.index.json",
                  R"({"weight_map": {"a": "m-00001-of-00002.safetensors", "b": "m-00002-of-00002.safetensors"}})"}});
  EXPECT_EQ(to_sentence(completeness_of(shards)),
            "1 of 3 tensors cannot be read: 1 of 2 shards is missing: vae/m-00002-of-00002.safetensors");
  const auto pipeline = [](const char* component) {
    return to_sentence(completeness_of(read_with(
        {{"model_index.json", fmt::format(R"({{"_class_name": "P", "vae": ["d", "V"], "unet": {}}})", component)}})));
  };
  EXPECT_EQ(pipeline(R"(["d", "U"])"),
            "1 file cannot be read: dduf: \"unet\": a folder that is in model_index.json is missing");
  EXPECT_EQ(pipeline("[null, null]"), "");
  EXPECT_EQ(pipeline(R"(["transformers", "CLIPTokenizer"])"), "") << "it has no weights";
}

TEST(Dduf, BrokenRulesAreWarnings) {
  EXPECT_THAT(read_with({{"vae/model.bin", "x"}}).warnings,
              ElementsAre("dduf: \"vae/model.bin\": the suffix is none of .json, .model, .safetensors and .txt"));
  EXPECT_THAT(read_with({{"a/b/c.json", "{}"}}).warnings,
              ElementsAre("dduf: \"a/b/c.json\": more than one directory deep"));
  EXPECT_THAT(read_with({{"a\\b.json", "{}"}}).warnings,
              ElementsAre("dduf: \"a\\x5cb.json\": a name with a backslash"));
  EXPECT_THAT(read_with({{"extra/config.json", "{}"}}).warnings,
              ElementsAre("dduf: \"extra\": a folder that is not in model_index.json"));
  Files files = dduf_files();
  files.erase("vae/config.json");
  EXPECT_THAT(read_well(dduf(files)).warnings, ElementsAre("dduf: \"vae\": a folder without config.json or its like"));
}

TEST(Dduf, InvalidIndexIsWarning) {
  EXPECT_THAT(read_with({{"model_index.json", "[]"}}).warnings, Contains("model_index.json: not a JSON object"));
  const Model model = read_with({{"model_index.json", "{"}});
  EXPECT_THAT(model.warnings, Contains(HasSubstr("model_index.json: ")));
  EXPECT_EQ(model.tensors.size(), 1U);
}

TEST(Dduf, CompressedMembersAreReadWithWarning) {
  ZipBuilder b;
  for (const auto& [path, bytes] : dduf_files()) b.deflated(path, bytes);
  const Model model = read_well(b.build());
  EXPECT_THAT(listing(model), ElementsAre("vae/t uint8 U8 [1] x"));
  EXPECT_THAT(model.warnings,
              ElementsAre("dduf: \"model_index.json\": compressed", "dduf: \"vae/config.json\": compressed",
                          "dduf: \"vae/m.safetensors\": compressed"));
}

TEST(Dduf, InvalidWeightsAreOmittedAlone) {
  const Model model = read_with({{"vae/bad.safetensors", "not weights"}});
  EXPECT_THAT(listing(model), ElementsAre("vae/t uint8 U8 [1] x"));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("\"vae/bad.safetensors\": safetensors: ")));
  EXPECT_THAT(model.warnings.front(), HasSubstr("its tensors are missing"));
}

TEST(Dduf, ZipWithoutIndexIsZip) {
  Files files = dduf_files();
  files.erase("model_index.json");
  EXPECT_EQ(read_well(dduf(files)).format, "zip");
}

}  // namespace
}  // namespace weightfs::dduf_test
