// What models state of their files and tensors when they are read from a directory, or joined.
#include "formats/directory/statements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "formats/one_model.h"
#include "formats/verify.h"
#include "tests/builders/pickle_builder.h"
#include "tests/support/memory_folder.h"
#include "tests/support/models.h"
#include "tests/support/reading.h"

namespace weightfs::statements_test {
namespace {

using test::Files;
using test::MemoryFolder;
using test::well;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Sha1 kWrong{};

Part part(const std::string& path, const std::string& bytes) { return {path, Later<SourcePtr>::of(in_memory(bytes))}; }

Model one_tensor(const std::string& name) {
  Model model;
  Tensor tensor;
  tensor.name = name;
  tensor.dtype = dtype_named("int8");
  tensor.stored_dtype = tensor.dtype->name;
  tensor.shape = {4};
  tensor.source = *slice(in_memory("0123"), 0, 4);
  model.tensors.push_back(tensor);
  return model;
}

// A file `m` with its data in `m.data`, of which it states a wrong checksum, and a layer of its store.
Result<Model> read_with_data(const std::string& path, const BudgetPtr&) {
  const std::string name = path.substr(path.rfind('/') + 1);
  Model model = one_tensor("t");
  model.parts.push_back(part(name, "bytes"));
  model.parts.push_back(part(name + ".data", "0123"));
  const auto data = model.parts.back().source;
  model.checks.edit().push_back({name + ".data", data, FileChecksums(kWrong)});
  model.checks.edit().push_back({"layer", data, FileChecksums(kWrong), FileCheck::Of::layer});
  return model;
}

using Reader = std::function<Result<Model>(const std::string& path, const BudgetPtr& budget)>;

Model model_of(std::vector<OneModel::Weights> weights, const Reader& read, const std::string& prefix = "") {
  OneModel found;
  found.weights = std::move(weights);
  return well(read_one_model(found, {read, std::make_shared<MemoryFolder>(Files{}), {}, prefix}));
}

std::vector<std::string> subjects_of(const Model& model) {
  std::vector<std::string> all;
  for (const FileCheck& check : *model.checks) all.push_back(check.subject);
  return all;
}

// semantics 8.5: the file is counted once, and named by its path.
TEST(Statements, ChecksAreOfThePathsBelowTheDirectory) {
  const Model model = model_of({{"onnx/m", {}, {}}}, read_with_data, "repository/");
  EXPECT_THAT(subjects_of(model), ElementsAre("repository/onnx/m.data", "layer"));
  const Verification found = verify(model, {});
  EXPECT_EQ(found.unchecked, 1u);
  EXPECT_THAT(found.wrong, ElementsAre(HasSubstr("\"repository/onnx/m.data\": SHA-1 is "), HasSubstr("\"layer\"")));
}

TEST(Statements, ChecksOfJoinedFilesAreKept) {
  const Model model = model_of({{"a/m", {}, "a/"}, {"b/m", {}, "b/"}}, read_with_data);
  EXPECT_THAT(subjects_of(model), ElementsAre("a/m.data", "layer", "b/m.data", "layer"));
}

TEST(Statements, NumbersOfTensorsAreThoseOfTheJoinedModel) {
  const auto read = [](const std::string& path, const BudgetPtr&) -> Result<Model> {
    Model model = one_tensor(path);
    model.parts.push_back(part(path, "bytes"));
    model.per_tensor.edit().affine_numbers.emplace(0, AffineNumbers{.scale = 2});
    model.per_tensor.edit().packed_weights.emplace(0, PackedWeight{.elements = 8, .bits = 4, .method = ""});
    model.checks.edit().push_back({path, model.parts.front().source, CheckedTensors{{0}}});
    RangeChecksums sums;
    sums.ranges = {{.size = 4, .tensor = 0}, {.size = 4}};
    model.checks.edit().push_back({path, model.parts.front().source, std::move(sums)});
    return model;
  };
  const Model model = model_of({{"a", {}, "a/"}, {"b", {}, "b/"}}, read);
  EXPECT_EQ(model.per_tensor->affine_numbers.at(1).scale, 2);
  EXPECT_EQ(model.per_tensor->packed_weights.at(1).elements, 8u);
  ASSERT_EQ(model.checks->size(), 4u);
  EXPECT_THAT(std::get<CheckedTensors>((*model.checks)[2].expected).tensors, ElementsAre(1));
  const auto& ranges = std::get<RangeChecksums>((*model.checks)[3].expected).ranges;
  EXPECT_EQ(ranges[0].tensor, 1u);
  EXPECT_EQ(ranges[1].tensor, RangeChecksum::kNoTensor);
}

// A checkpoint of PyTorch is a zip, which has a CRC-32 of each storage.
std::string changed_checkpoint() {
  std::string bytes = test::small_checkpoint().zip();
  bytes[bytes.find("wwwwWWWW")] = 'v';
  return bytes;
}

Verification verified_index(const std::string& shard) {
  const std::string index = R"({"weight_map": {"w": "m-00001-of-00001.bin"}})";
  return verify(
      well(read_as("safetensors-index", {"pytorch_model.bin.index.json", in_memory(index),
                                         std::make_shared<MemoryFolder>(Files{{"m-00001-of-00001.bin", shard}})})),
      {});
}

TEST(Statements, MembersOfIndexedCheckpointsAreVerified) {
  const Verification right = verified_index(test::small_checkpoint().zip());
  EXPECT_GT(right.checked, 0u);
  EXPECT_THAT(right.wrong, IsEmpty());
  EXPECT_THAT(verified_index(changed_checkpoint()).wrong,
              ElementsAre(HasSubstr("\"m-00001-of-00001.bin/archive/data/0\": CRC-32 is ")));
}

TEST(Statements, MembersOfShardsWithoutAnIndexAreVerifiedBesideAlternatives) {
  const auto read = [](const std::string& path, const BudgetPtr&) {
    return read_as("zip", {path, in_memory(changed_checkpoint())});
  };
  OneModel found;
  found.weights = {{"m-1-of-1.bin", {"m-1-of-1.bin"}, {}}};
  found.chosen.alternatives = {{"other.gguf", 1}};
  const auto folder = std::make_shared<MemoryFolder>(Files{{"other.gguf", "x"}});
  const Model model = well(read_one_model(found, {read, folder, *folder->parts()}));
  ASSERT_TRUE(model.nested);
  EXPECT_THAT(verify(model, {}).wrong, ElementsAre(HasSubstr("\"m-1-of-1.bin/archive/data/0\": CRC-32 is ")));
}

}  // namespace
}  // namespace weightfs::statements_test
