// Manifests that name the same blobs repeatedly: each blob is located, examined and read once.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "formats/flat_formats.h"
#include "formats/ollama/store.h"
#include "tests/builders/ollama_builder.h"

namespace weightfs::ollama_budget_test {
namespace {

using namespace test;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// A directory that counts the bytes read. Files of equal content are one file if `linked`.
class CountingFolder final : public Folder {
 public:
  explicit CountingFolder(Files files, bool linked = false) : files_(std::move(files)), linked_(linked) {}

  Result<std::vector<std::string>> names() const override { return std::vector<std::string>(); }
  Result<std::vector<Part>> parts() const override { return std::vector<Part>(); }
  Result<SourcePtr> open(std::string_view name) const override {
    const auto file = files_.find(name);
    if (file == files_.end()) return failure(Code::not_found, "no such file");
    return std::make_shared<File>(*this, linked_ ? "inode 7" : fmt::format("file {}", name), in_memory(file->second));
  }

  mutable std::atomic<uint64_t> bytes_read = 0;

 private:
  class File final : public Source {
   public:
    File(const CountingFolder& folder, std::string identity, SourcePtr bytes)
        : folder_(folder), identity_(std::move(identity)), bytes_(std::move(bytes)) {}
    uint64_t size() const override { return bytes_->size(); }
    std::string identity() const override { return identity_; }
    Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
      const size_t got = TRY(bytes_->read(offset, out));
      folder_.bytes_read += got;
      return got;
    }

   private:
    const CountingFolder& folder_;
    std::string identity_;
    SourcePtr bytes_;
  };

  Files files_;
  bool linked_;
};

std::string tensor_file() { return SafetensorsBuilder().tensor("w", "U8", "1", "x").build(); }

std::string layers(size_t count, std::string_view type, const std::string& blob, bool sizes_differ = false) {
  std::string out = "{\"layers\":[";
  for (size_t i = 0; i < count; ++i)
    out +=
        fmt::format("{}{}{}{}{}{}{}}}", i == 0 ? "" : ",", R"({"mediaType":")", image(type), R"(","digest":"sha256:)",
                    sha256(blob).hex(), R"(","size":)", blob.size() + (sizes_differ ? i : 0));
  return out + "]}";
}

Container container(const std::string& manifest, const std::shared_ptr<const Folder>& folder) {
  return {"latest", in_memory(manifest), folder};
}

TEST(OllamaBudget, BlobOfManyLayersIsReadOnce) {
  for (const char* const type : {"tensor", "model", "projector", "license", "other"}) {
    SCOPED_TRACE(type);
    const std::string blob = std::string_view(type) == "tensor" ? tensor_file() : small_gguf();
    const auto folder = std::make_shared<const CountingFolder>(Files{{"sha256-" + sha256(blob).hex(), blob}});
    const Container c = container(layers(5'000, type, blob), folder);
    auto read = read_as("ollama", c);
    ASSERT_TRUE(read) << read.error().message;
    const auto model = std::make_shared<const Model>(*std::move(read));
    EXPECT_THAT(model->parts, SizeIs(5'001));
    EXPECT_THAT(model->tensors, SizeIs(std::string_view(type) == "tensor" ? 5'000 : model->tensors.size()));
    for (const Nested& nested : model->nested ? *model->nested(model) : std::vector<Nested>())
      EXPECT_TRUE(nested.model.get());
    EXPECT_LT(folder->bytes_read, 20 * 4096u + 20 * blob.size());
    EXPECT_LE(c.budget->time_used(), c.budget->time_limit());
    EXPECT_LE(c.budget->memory_used(), c.budget->memory_limit());
  }
}

TEST(OllamaBudget, UnreadableTensorBlobOfManyLayersIsReadOnce) {
  std::string blob = tensor_file();
  blob[9] = '?';  // after the brace of the header
  const auto folder = std::make_shared<const CountingFolder>(Files{{"sha256-" + sha256(blob).hex(), blob}});
  const auto model = read_as("ollama", container(layers(5'000, "tensor", blob), folder));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(model->tensors, SizeIs(0));
  EXPECT_THAT(model->parts, SizeIs(5'001));
  EXPECT_LT(folder->bytes_read, 20 * 4096u);
}

TEST(OllamaBudget, ConflictingSizesOfOneBlobAreWarnings) {
  const auto folder = std::make_shared<const CountingFolder>(Files{{"sha256-" + sha256("l").hex(), "l"}});
  const auto model = read_as("ollama", container(layers(3, "license", "l", true), folder));
  ASSERT_TRUE(model);
  EXPECT_THAT(model->parts, SizeIs(4));
  EXPECT_THAT(model->warnings, ElementsAre("layer license: size 2, but another layer states 1 for the same blob",
                                           "layer license: size 3, but another layer states 1 for the same blob"));
}

// Hard links under other digests.
TEST(OllamaBudget, LinkedModelIsReadOnce) {
  Files files;
  std::string manifest = "{\"layers\":[";
  for (int i = 0; i < 300; ++i) {
    const std::string hex = sha256(std::to_string(i)).hex();
    files["sha256-" + hex] = small_gguf();
    manifest += fmt::format("{}{}{}{}{}\"}}", i == 0 ? "" : ",", R"({"mediaType":")", image("model"),
                            R"(","digest":"sha256:)", hex);
  }
  const auto folder = std::make_shared<const CountingFolder>(files, true);
  const auto model = read_as("ollama", container(manifest + "]}", folder));
  ASSERT_TRUE(model);
  EXPECT_EQ(model->tensors.size(), read_gguf({"m", in_memory(small_gguf())})->tensors.size());
  EXPECT_THAT(model->warnings, testing::Contains(HasSubstr("same file as an earlier layer")));
}

// The size of a blob that has to be fetched is a claim.
TEST(OllamaBudget, BlobToBeFetchedAddsLittle) {
  std::string manifest = layers(1, "model", "far");
  manifest.replace(manifest.find("\"size\":3"), 8, "\"size\":9000000000000000000");
  const Container c{"latest", in_memory(manifest)};
  ASSERT_TRUE(read_as("ollama", c));
  EXPECT_EQ(c.budget->memory_limit(), Budget::kBaseMemory + 10 * (manifest.size() + (256u << 20)));
}

TEST(OllamaBudget, MemoryOfManifestsInStoreIsBounded) {
  class Store final : public Folder {
   public:
    Result<std::vector<std::string>> names() const override { return std::vector<std::string>(); }
    Result<SourcePtr> open(std::string_view) const override { return failure(Code::not_found, "no such file"); }
    Result<std::vector<Part>> parts() const override {
      std::vector<Part> parts;
      const auto bytes = in_memory("{\"layers\":[]}" + std::string(60'000, ' '));
      for (int i = 0; i < 3'000; ++i) parts.push_back({fmt::format("h/library/m/t{}", i), Later<SourcePtr>::of(bytes)});
      return parts;
    }
  };
  const auto store = read_ollama_store(Store(), std::make_shared<Store>(), uncached_blobs());
  ASSERT_TRUE(store);
  EXPECT_LE(store->models.size(), (64u << 20) / 60'000 + 300);
  EXPECT_THAT(store->warnings.front(), HasSubstr("the manifests of the store are longer than 64.0 MiB"));
}

}  // namespace
}  // namespace weightfs::ollama_budget_test
