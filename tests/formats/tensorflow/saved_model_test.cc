#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/completeness.h"
#include "formats/format.h"
#include "tests/builders/tar_builder.h"
#include "tests/builders/tensorflow_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::tensorflow_saved_model_test {
namespace {

using namespace test::tensorflow;
using test::Files;
using test::listing;
using test::metadata_of;
using test::well;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Result<Model> read_directory(const std::string& saved_model, Files files) {
  files["saved_model.pb"] = saved_model;
  return read_as("tensorflow-savedmodel",
                 {"saved_model.pb", in_memory(saved_model), std::make_shared<test::MemoryFolder>(std::move(files))});
}

Result<Model> read_tar(const std::string& saved_model, Files files) {
  files["saved_model.pb"] = saved_model;
  test::tars::TarBuilder tar;
  for (const auto& [path, bytes] : files) tar.file("./" + path, bytes);
  return read_model({.name = "hub.tar", .bytes = in_memory(tar.build())});
}

TEST(SavedModel, VariablesAreTensors) {
  const Model model = well(read_directory(saved_model({meta_graph(small_graph())}), small_variables()));
  EXPECT_EQ(model.format, "tensorflow-savedmodel");
  EXPECT_EQ(model.version, "2.18.0");
  EXPECT_THAT(listing(model),
              ElementsAre(HasSubstr("emb"), HasSubstr("late"), HasSubstr("names"), HasSubstr("w float32")));
  EXPECT_EQ(metadata_of(model, "inputs"), R"([{"name":"a","dtype":"float32","shape":[-1,2],"tensor":"x:0"}])");
  EXPECT_EQ(metadata_of(model, "outputs"), R"([{"name":"b","dtype":"float32","shape":[-1,1],"tensor":"y:0"}])");
  EXPECT_EQ(metadata_of(model, "checkpoint"), R"({"num_shards":1,"endianness":"little","producer":1})");
  EXPECT_THAT(metadata_of(model, "meta_graphs"), HasSubstr(R"("tags":["serve"])"));
  EXPECT_THAT(model.parts, SizeIs(4));
  EXPECT_FALSE(model.nested);
}

TEST(SavedModel, ConstantsAreTensorsWithoutVariables) {
  const Model model = well(read_directory(saved_model({meta_graph(small_graph())}), {{"assets/vocab.txt", ""}}));
  EXPECT_THAT(listing(model), SizeIs(4));
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(SavedModel, VariablesWithoutAnIndexAreMissing) {
  const auto missing = [](const Message& graph, Files files) {
    const Model model = well(read_directory(saved_model({meta_graph(graph)}), std::move(files)));
    return model.lacks->files;
  };
  const Message variable = graph({node("v", "VarHandleOp")});
  Files files = small_variables();
  EXPECT_EQ(missing(variable, files), 0U);
  EXPECT_EQ(missing(variable, {{"assets/vocab.txt", ""}}), 1U);
  files.erase("variables/variables.index");
  EXPECT_EQ(missing(small_graph(), {{"assets/vocab.txt", ""}}), 0U);
  Model with_data = well(read_tar(saved_model({meta_graph(small_graph())}), files));
  EXPECT_THAT(with_data.warnings, ElementsAre("variables/variables.index: missing, and with it the variables"));
  EXPECT_EQ(completeness_of(with_data).reason->code, Code::not_found);
}

TEST(SavedModel, MissingAssetsMakeTheModelIncomplete) {
  const std::string saved = saved_model({meta_graph(small_graph()), meta_graph(small_graph(), "gpu")});
  Files files = small_variables();
  EXPECT_EQ(well(read_directory(saved, files)).lacks->files, 0U);
  EXPECT_EQ(well(read_tar(saved, files)).lacks->files, 0U);
  files.erase("assets/vocab.txt");
  for (const auto& model : {read_directory(saved, files), read_tar(saved, files)}) {
    ASSERT_TRUE(model);
    EXPECT_EQ(model->lacks->files, 1U);
    EXPECT_THAT(model->warnings, Contains("assets/vocab.txt: missing"));
    EXPECT_EQ(model->lacks->by_code.at(static_cast<size_t>(Code::not_found)).count, 1U);
  }
}

TEST(SavedModel, LargeConstantsAreTensorsBesideVariables) {
  const Message large = constant("large", tensor(kUint8, {4096}).bytes(4, std::string(4096, 'l')));
  const Model model = well(read_directory(saved_model({meta_graph(graph({large}))}), small_variables()));
  EXPECT_EQ(model.tensors.back().name, "large");
}

TEST(SavedModel, NamesOfAnEarlierGraphAreTakenOnce) {
  const Model model =
      well(read_directory(saved_model({meta_graph(small_graph()), meta_graph(small_graph(), "gpu")}), {}));
  EXPECT_THAT(model.tensors, SizeIs(4));
  ASSERT_THAT(model.documents, SizeIs(2));
  EXPECT_EQ(model.documents[1].path, "graph.1.json");
}

TEST(SavedModel, InvalidVariablesAreMissing) {
  Files files = small_variables();
  files["variables/variables.index"] = "x";
  const Model model = well(read_directory(saved_model({meta_graph(small_graph())}), files));
  EXPECT_THAT(model.warnings,
              ElementsAre("variables/variables.index: no footer of a table; the variables are missing"));
  EXPECT_EQ(model.lacks->files, 1U);
}

TEST(SavedModel, WithoutGraphIsRefused) {
  EXPECT_EQ(test::error_in(read_directory(saved_model({}), {})), "tensorflow-savedmodel: no graph");
}

TEST(SavedModel, TarIsReadAsModel) {
  const Model model = well(read_tar(saved_model({meta_graph(small_graph())}), small_variables()));
  EXPECT_EQ(model.format, "tensorflow-savedmodel");
  EXPECT_THAT(model.tensors, SizeIs(4));
}

TEST(SavedModel, IsDetectedByItsName) {
  const std::string bytes = saved_model({meta_graph(small_graph())});
  const auto format_of = [&](const char* name) {
    const auto model = read_model({name, in_memory(bytes), std::make_shared<test::MemoryFolder>(Files{{name, bytes}})});
    return model ? model->format : "none";
  };
  EXPECT_EQ(format_of("saved_model.pb"), "tensorflow-savedmodel");
  EXPECT_EQ(format_of("other.pb"), "none");
}

TEST(SavedModel, DirectoryWithItIsOneModel) {
  const test::MemoryFolder folder(Files{{"saved_model.pb", "x"}});
  EXPECT_EQ(model_entry_file({"assets", "saved_model.pb", "variables"}, folder).value(), "saved_model.pb");
}

}  // namespace
}  // namespace weightfs::tensorflow_saved_model_test
