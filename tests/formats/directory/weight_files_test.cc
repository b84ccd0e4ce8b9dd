// Which files of a model have its weights, and how large the model is.
#include "formats/directory/weight_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "formats/one_model.h"
#include "tests/builders/caffe_builder.h"
#include "tests/builders/ncnn_builder.h"
#include "tests/builders/tfjs_builder.h"
#include "tests/support/memory_folder.h"
#include "tests/support/reading.h"

namespace weightfs::weight_files_test {
namespace {

using test::Files;
using test::MemoryFolder;
using test::well;
using testing::ElementsAre;
using testing::IsEmpty;

// A tensor of four bytes in this source.
void add_tensor(Model& model, const SourcePtr& source) {
  Tensor tensor;
  tensor.name = "t";
  tensor.dtype = dtype_named("float32");
  tensor.stored_dtype = tensor.dtype->name;
  tensor.shape = {1};
  tensor.source = *slice(source, 0, 4);
  model.tensors.push_back(tensor);
}

SourcePtr add_part(Model& model, const std::string& path, const std::string& bytes = "01234567",
                   bool is_structure = false) {
  const SourcePtr source = in_memory(bytes);
  model.parts.push_back({.path = path, .source = Later<SourcePtr>::of(source), .is_structure = is_structure});
  return source;
}

TEST(WeightFiles, AreThoseOfTensors) {
  Model model;
  add_part(model, "graph");
  add_tensor(model, add_part(model, "weights"));
  EXPECT_THAT(find_weight_files(model), ElementsAre("weights"));
}

TEST(WeightFiles, OfDecodedTensorsAreAllButTheStructure) {
  Model model;
  add_part(model, "graph", "01234567", true);
  add_part(model, "a");
  add_part(model, "b");
  add_tensor(model, in_memory("decoded"));
  EXPECT_THAT(find_weight_files(model), ElementsAre("a", "b"));
  model.has_members = true;
  EXPECT_THAT(find_weight_files(model), IsEmpty());
}

TEST(WeightFiles, ShardsWithoutReadableTensorsAreSome) {
  Model model;
  add_part(model, "m.json", "{}", true);
  add_tensor(model, add_part(model, "m-00001-of-00002.safetensors"));
  add_part(model, "m-00002-of-00002.safetensors");
  EXPECT_THAT(find_weight_files(model), ElementsAre("m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"));
}

TEST(WeightFiles, WithoutTensorsAreTheFileThatWasOpened) {
  Model model;
  EXPECT_THAT(find_weight_files(model), IsEmpty());
  add_part(model, "m.param", "text", true);
  EXPECT_THAT(find_weight_files(model), ElementsAre("m.param"));
  add_part(model, "m.bin");
  EXPECT_THAT(find_weight_files(model), ElementsAre("m.bin"));
}

TEST(WeightFiles, TextsBesideTheWeightsAreNone) {
  const auto read = [](const char* format, const char* name, const std::string& bytes, Files beside) {
    return find_weight_files(
        well(read_as(format, {name, in_memory(bytes), std::make_shared<MemoryFolder>(std::move(beside))})));
  };
  EXPECT_THAT(read("caffe", "net.caffemodel", test::caffe::small_caffe(), {{"net.prototxt", "name: \"net\""}}),
              ElementsAre("net.caffemodel"));
  EXPECT_THAT(read("ncnn", "m.param", test::ncnn::small_param(), {{"m.bin", test::ncnn::small_bin()}}),
              ElementsAre("m.bin"));
  // A weight that is in two files is joined.
  EXPECT_THAT(read("tfjs", "model.json", test::tfjs::small_tfjs(),
                   {{"s1.bin", "0123"}, {"below/s2.bin", "4567xyz"}, {"t.bin", test::tfjs::small_tfjs_texts()}}),
              ElementsAre("below/s2.bin", "s1.bin", "t.bin"));
}

// The size is the same if the directory, or the only file in it, is named.
TEST(WeightFiles, SizeOfADirectoryIsThatOfItsFile) {
  const Files files{{"net.caffemodel", test::caffe::small_caffe()}, {"net.prototxt", "name: \"net\""}};
  const auto folder = std::make_shared<MemoryFolder>(files);
  const auto read = [&](const std::string& path, const BudgetPtr&) {
    return read_as("caffe", {path, *folder->open(path), folder});
  };
  OneModel found;
  found.weights.push_back({"net.caffemodel", {}, {}});
  const Model directory = well(read_one_model(found, {read, folder, *folder->parts()}));
  EXPECT_THAT(weight_files_of(directory), ElementsAre("net.caffemodel"));
  EXPECT_EQ(weight_file_bytes(directory), files.at("net.caffemodel").size());
  EXPECT_EQ(weight_file_bytes(well(read("net.caffemodel", nullptr))), files.at("net.caffemodel").size());
}

// semantics 1.6
TEST(WeightFiles, FilesOfAFormAreNoAlternatives) {
  const auto folder = std::make_shared<MemoryFolder>(Files{{"other.gguf", "x"}});
  const auto alternatives = [&](bool has_members, bool has_nested) {
    OneModel found;
    found.is_own_form = true;
    found.weights.push_back({"index.json", {}, {}});
    found.chosen.alternatives = {{"other.gguf", 1}, {"shard.h5", 1}};
    const auto read = [&](const std::string&, const BudgetPtr&) -> Result<Model> {
      Model model;
      add_part(model, "index.json", "{}", true);
      add_tensor(model, add_part(model, "shard.h5"));
      if (has_members) add_part(model, "other.gguf");
      model.has_members = has_members;
      if (has_nested) model.nested = [](const ModelPtr&) { return std::vector<Nested>(); };
      return model;
    };
    std::vector<std::string> paths;
    const Model model = well(read_one_model(found, {read, folder, *folder->parts()}));
    for (const ChosenFiles::File& file : model.chosen->alternatives) paths.push_back(file.path);
    return paths;
  };
  EXPECT_THAT(alternatives(false, false), ElementsAre("other.gguf"));
  EXPECT_THAT(alternatives(true, false), ElementsAre("other.gguf"));
  EXPECT_THAT(alternatives(true, true), IsEmpty());  // such a form has them in nested/ itself
}

TEST(WeightFiles, SizeOfAnArchiveIsItsOwn) {
  Model model;
  add_part(model, "member");
  model.has_members = true;
  EXPECT_EQ(weight_file_bytes(model), std::nullopt);
  model.stored_bytes = 5;
  EXPECT_EQ(weight_file_bytes(model), 5u);
}

}  // namespace
}  // namespace weightfs::weight_files_test
