// Many names of one file, and files whose models are larger than the file: all share the budget of the outermost
// container.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "formats/flat_formats.h"
#include "tests/builders/gguf_builder.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/support/rten_reading.h"

namespace weightfs::shared_shards_test {
namespace {

using namespace test;
using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;

// A source with the identity of a file that counts the bytes read.
class CountedFile final : public Source {
 public:
  CountedFile(std::string identity, std::string bytes)
      : identity_(std::move(identity)), size_(bytes.size()), bytes_(in_memory(std::move(bytes))) {}
  uint64_t size() const override { return size_; }
  std::string identity() const override { return identity_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const auto got = bytes_->read(offset, out);
    bytes_read += got.value_or(0);
    return got;
  }
  mutable std::atomic<uint64_t> bytes_read = 0;

 private:
  std::string identity_;
  uint64_t size_;
  SourcePtr bytes_;
};

// A directory whose names are all hard links or symbolic links to one file.
class LinkedFolder final : public Folder {
 public:
  LinkedFolder(std::vector<std::string> names, SourcePtr file) : names_(std::move(names)), file_(std::move(file)) {}
  Result<std::vector<std::string>> names() const override { return names_; }
  Result<SourcePtr> open(std::string_view) const override { return file_; }
  Result<std::vector<Part>> parts() const override { return std::vector<Part>{}; }
  bool is_storage() const override { return true; }

 private:
  std::vector<std::string> names_;
  SourcePtr file_;
};

std::string shard_of(int tensors) {
  SafetensorsBuilder builder;
  for (int i = 0; i < tensors; ++i) builder.tensor(fmt::format("tensor.{}", i), "U8", "1", "x");
  return builder.build();
}

std::string index_of(int shards) {
  std::string lines;
  for (int i = 0; i < shards; ++i)
    lines += fmt::format("{}\"tensor.{}\":\"shard-{}.safetensors\"", i == 0 ? "" : ",", i, 10'000 + i);
  return fmt::format("{{\"weight_map\":{{{}}}}}", lines);
}

TEST(SafetensorsIndex, ShardWithManyNamesIsReadOnce) {
  const auto file = std::make_shared<CountedFile>("file 1", shard_of(2000));
  const std::string index = index_of(9'999);
  const Container container{"model.safetensors.index.json", in_memory(index),
                            std::make_shared<LinkedFolder>(std::vector<std::string>{}, file)};
  const auto model = read_as("safetensors-index", container);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(model->tensors, SizeIs(2000));
  EXPECT_TRUE(
      std::all_of(model->tensors.begin(), model->tensors.end(), [](const TensorView& t) { return t.scope.empty(); }));
  EXPECT_LT(file->bytes_read, 2 * file->size());
  EXPECT_THAT(model->warnings,
              Contains("shard \"shard-10001.safetensors\": the same file as \"shard-10000.safetensors\""));
  EXPECT_THAT(model->parts, SizeIs(10'000));  // the index, and the file under each of its names
  EXPECT_LT(container.budget->memory_used(), 5'000'000u);
}

TEST(SafetensorsIndex, ShardsShareOneBudget) {
  // Each of 300 shards is read from members of one archive that share their bytes, at places without identity.
  class Copies final : public Folder {
   public:
    explicit Copies(SourcePtr file) : file_(std::move(file)) {}
    Result<std::vector<std::string>> names() const override { return std::vector<std::string>{}; }
    Result<SourcePtr> open(std::string_view) const override { return file_; }
    Result<std::vector<Part>> parts() const override { return std::vector<Part>{}; }

   private:
    SourcePtr file_;
  };
  const Container container{"model.safetensors.index.json", in_memory(index_of(300)),
                            std::make_shared<Copies>(in_memory(shard_of(2000)))};
  const auto model = read_as("safetensors-index", container);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_LE(container.budget->memory_used(), container.budget->memory_limit());
  EXPECT_LT(model->tensors.size(), 300u * 2000);
  EXPECT_LT(model->parts.size(), 301u);  // shards are omitted where the budget ends
}

TEST(Gguf, ShardWithManyNamesIsReadOnce) {
  GgufBuilder builder;
  builder.u16("split.count", 500).u16("split.no", 0).i32("split.tensors.count", 1000);
  for (int i = 0; i < 1000; ++i) builder.list(fmt::format("t{}", i), {1}, 24, 0);
  const std::string bytes = builder.data("x").build();
  const auto file = std::make_shared<CountedFile>("file 1", bytes);
  std::vector<std::string> names;
  for (int i = 1; i <= 500; ++i) {
    std::string number = std::to_string(i);
    names.push_back(fmt::format("m-{}{}-of-00500.gguf", std::string(5 - number.size(), '0'), number));
  }
  const Container container{"m-00001-of-00500.gguf", file, std::make_shared<LinkedFolder>(names, file)};
  const auto model = read_gguf(container);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(model->tensors, SizeIs(1000));
  EXPECT_THAT(model->parts, SizeIs(500));
  EXPECT_LT(file->bytes_read, 3 * file->size());
}

TEST(Gguf, TensorsBeyondBudgetAreRefused) {
  GgufBuilder builder;
  for (int i = 0; i < 3000; ++i) builder.list(std::string(100, 'n') + std::to_string(i), {1}, 24, 0);
  const Container container{"m.gguf", in_memory(builder.data("x").build())};
  ASSERT_TRUE(container.budget->charge(Cost::kept, container.budget->memory_limit() - 500'000));
  const uint64_t before = container.budget->memory_used();
  const auto model = read_gguf(container);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::unsupported);
  EXPECT_THAT(model.error().message, HasSubstr("the memory limit of"));
  EXPECT_EQ(container.budget->memory_used(), before);
}

TEST(Safetensors, RefusedHeaderReleasesItsCharges) {
  std::string bytes = shard_of(1000);
  bytes[bytes.rfind("data_offsets")] = 'D';
  const Container container{"m.safetensors", in_memory(bytes)};
  EXPECT_FALSE(read_as("safetensors", container));
  EXPECT_EQ(container.budget->memory_used(), 0u);
  EXPECT_GT(container.budget->time_used(), 0u);
}

TEST(Safetensors, MillionTensorsFitTheBudget) {
  // As models name them: some hundred bytes of header for each.
  Budget budget(uint64_t{1'000'000} * 100);
  EXPECT_TRUE(budget.charge(Cost::tensor, 1'000'000));
  EXPECT_TRUE(budget.charge(Cost::kept, uint64_t{1'000'000} * (40 + 16)));
  EXPECT_TRUE(budget.charge(Cost::node, 2 * 1'000'000));
  EXPECT_TRUE(budget.charge(Cost::input, uint64_t{1'000'000} * 100));
}

TEST(Rten, GraphJsonBeyondBudgetIsRefused) {
  using namespace test::rten;
  std::vector<Ref> nodes;
  for (int i = 0; i < 2000; ++i) nodes.push_back(value(fmt::format("value.{}", i), {}, 0));
  const Container container{"m.rten", in_memory(version2(model_of(graph(nodes))))};
  const auto model = read_rten(container);
  ASSERT_TRUE(model) << model.error().message;
  const uint64_t kept = container.budget->memory_used();
  EXPECT_LT(kept, 100'000u);  // the image was given back
  const uint64_t others = container.budget->memory_limit() - kept - 10'000;
  ASSERT_TRUE(container.budget->charge(Cost::kept, others));
  ASSERT_THAT(model->documents, SizeIs(1));
  const auto refused = model->documents[0].source.get();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("the memory limit of"));
  container.budget->release(Cost::kept, others);
  EXPECT_TRUE(model->documents[0].source.get());
}

}  // namespace
}  // namespace weightfs::shared_shards_test
