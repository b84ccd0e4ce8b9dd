// The output of `weightfs export` as a model again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"
#include "tests/support/small_models.h"

namespace weightfs::exported_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::IsEmpty;

Model read_directory(Files files) {
  const std::string index = files.at("tensors.json");
  return well(read_model({"tensors.json", in_memory(index), std::make_shared<MemoryFolder>(std::move(files))}));
}

std::string index_of(const std::string& entries) { return "{\"tensors\": [\n" + entries + "\n]}\n"; }

std::string entry(const std::string& name, const std::string& path, uint64_t nbytes) {
  return fmt::format(
      R"({{"name": "{}", "path": "{}", "dtype": "uint8", "stored_dtype": "U8", "shape": [{}], "nbytes": {}}})", name,
      path, nbytes, nbytes);
}

TEST(Export, IsOneModelInATarAndInADirectory) {
  const Files files = small_export_files();
  for (const Container& container :
       {Container{"m.tar", in_memory(tar_of(files))},
        Container{"tensors.json", in_memory(files.at("tensors.json")), std::make_shared<MemoryFolder>(files)}}) {
    const Model model = well(read_model(container));
    EXPECT_EQ(model.format, "weightfs-export");
    EXPECT_THAT(listing(model), ElementsAre("a/w float32 F32 [2] wwwwwwww", "s uint8 U8 [] s"));
    EXPECT_EQ(to_json_line(model.common), R"({"name":"Tiny"})");
    EXPECT_EQ(to_json_line(model.metadata),
              R"({"general.name":"Tiny","weightfs-export":{"format":"gguf","version":"3","source":"/m.gguf"}})");
    EXPECT_THAT(model.warnings, IsEmpty());
  }
}

TEST(Export, TensorInNpyFileHasItsNameOfTheIndex) {
  const Model model =
      read_directory({{"tensors.json", index_of(entry("a b", "a%20b", 4))}, {"a%20b.npy", small_npy()}});
  ASSERT_EQ(model.tensors.size(), 1U);
  EXPECT_EQ(model.tensors[0].name, "a b");
  EXPECT_FALSE(model.tensors[0].source.refused());
}

TEST(Export, ScopeIsTheRestOfThePath) {
  const Model model = read_directory({{"tensors.json", index_of(entry("w", "then/w", 1))}, {"tensors/then/w", "w"}});
  EXPECT_EQ(model.tensors[0].scope, "then");
}

TEST(Export, MissingAndCutTensorsAreRefused) {
  const Model model = read_directory(
      {{"tensors.json", index_of(entry("w", "w", 4) + ",\n" + entry("gone", "gone", 4))}, {"tensors/w", "www"}});
  EXPECT_TRUE(model.tensors[0].source.refused());
  EXPECT_TRUE(model.tensors[1].source.refused());
  EXPECT_THAT(model.warnings,
              ElementsAre("tensor \"w\": 3 bytes, 4 expected: refused", "tensor \"gone\": its file is missing"));
}

TEST(Export, PathCannotLeaveTheExport) {
  const Model model = read_directory({{"tensors.json", index_of(entry("w", "../tensors.json", 1))}});
  EXPECT_TRUE(model.tensors[0].source.refused());
}

TEST(Export, SizeThatDiffersFromTheShapeIsShownAsBytes) {
  const std::string lie =
      R"({"name": "w", "path": "w", "dtype": "float32", "stored_dtype": "F32", "shape": [1000000], "nbytes": 1})";
  const Model model = read_directory({{"tensors.json", index_of(lie)}, {"tensors/w", "w"}});
  EXPECT_EQ(model.tensors[0].dtype, &kUnknownDType);
  EXPECT_EQ(model.tensors[0].nbytes(), 1U);
}

TEST(Export, TensorsOfABigEndianGgufAreBigEndian) {
  Files files = small_export_files();
  files["metadata.json"] = R"({"format": "gguf", "metadata": {"gguf": {"byte_order": "big"}}})";
  const Model model = read_directory(files);
  EXPECT_EQ(model.tensors[0].dtype, big_endian(dtype_named("float32")));
  EXPECT_EQ(model.tensors[1].dtype, dtype_named("uint8"));
}

TEST(Export, Mxfp4WithoutAStoredNameHasTheOrderOfOllama) {
  for (const bool is_named : {true, false}) {
    const std::string index = fmt::format(
        R"({{"name": "w", "path": "w", "dtype": "mxfp4", "stored_dtype": "{}", "shape": [32], "nbytes": 17}})",
        is_named ? "MXFP4" : "");
    const Model model = read_directory({{"tensors.json", index_of(index)}, {"tensors/w", std::string(17, 'w')}});
    EXPECT_EQ(model.tensors[0].dtype, is_named ? dtype_named("mxfp4") : mxfp4_of_pairs());
  }
}

TEST(Export, InvalidIndexIsRefused) {
  for (const char* const entries : {R"({"name": "w", "shape": [1]})", R"({"name": "w", "shape": [-1], "nbytes": 1})",
                                    R"({"name": "w", "shape": [1], "nbytes": -1})", R"({"name": "w")"}) {
    const Files files{{"tensors.json", index_of(entries)}};
    const auto model =
        read_model({"tensors.json", in_memory(index_of(entries)), std::make_shared<MemoryFolder>(files)});
    ASSERT_FALSE(model) << entries;
    EXPECT_EQ(model.error().code, Code::corrupt);
  }
}

}  // namespace
}  // namespace weightfs::exported_test
