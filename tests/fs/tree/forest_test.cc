// A mount without a kernel: the tree of a model, and all requests.
#include "fs/tree/forest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "base/digest.h"
#include "fs/layout/layout.h"
#include "tests/support/models.h"
#include "tests/support/sanitized.h"

namespace weightfs::forest_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string text(const Source& source) { return read_text(source, 0, source.size()).value(); }

// Every path below `ino`, directories with a `/` at the end, as find(1) would walk them.
std::vector<std::string> walk(Forest& forest, Ino ino) {
  std::vector<std::string> out;
  const auto all = forest.list(ino);
  if (!all) return {"error: " + all.error().message};
  for (uint32_t i = 0; i < all->count; ++i) {
    const Ino child = all->ino + i;
    const std::string path = forest.path(child);
    const auto attributes = forest.attributes(child);
    const bool directory = attributes && attributes->is_directory();
    out.push_back(path + (directory ? "/" : ""));
    if (directory)
      for (auto& below : walk(forest, child)) out.push_back(below);
  }
  return out;
}

class ForestTest : public testing::Test {
 protected:
  static ModelPtr model() {
    auto model = std::make_shared<Model>();
    model->format = "test";
    model->version = "1";
    model->common.set("name", "Tiny");
    model->metadata.set("answer", 42);
    const SourcePtr bytes = in_memory(std::string(100, 'c'));
    model->parts.push_back({"tiny.test", Later<SourcePtr>::of(bytes)});
    model->documents.push_back({"graph.json", Later<SourcePtr>::of(in_memory("{}\n"))});
    Tensor in_file = make_tensor("blk/w", "float32", {2, 2});
    in_file.source = slice(bytes, 10, 16).value();
    model->tensors.push_back(in_file);
    model->tensors.push_back(make_tensor("q", "q4_0", {32}));
    Tensor refused = make_tensor("bad", "uint8", {3});
    refused.source = Slice();
    model->tensors.push_back(refused);
    model->warnings.push_back("tensor \"bad\": lies");
    return model;
  }
  Forest forest{lay_out(model(), "/models/tiny.test", 1'500'000'000), {{"user.weightfs.pid", "7"}}};

  std::string cat(const std::string& path) {
    const auto source = forest.resolve(path).and_then([&](Ino ino) { return forest.open(ino); });
    return source ? text(**source) : "error: " + source.error().message;
  }
};

// semantics 1: the tree is the same for every format.
TEST_F(ForestTest, ShowsCommonTree) {
  EXPECT_THAT(walk(forest, Forest::kRoot),
              ElementsAre("files/", "files/tiny.test", "float32/", "float32/blk/", "float32/blk/w.npy", "float32/q.npy",
                          "graph.json", "metadata.json", "metadata.toml", "npy/", "npy/blk/", "npy/blk/w.npy",
                          "npy/q.npy", "tensors/", "tensors/bad", "tensors/blk/", "tensors/blk/w", "tensors/q",
                          "tensors.json", "views/", "views/warnings.txt", "warnings.txt"));
}

TEST_F(ForestTest, TensorFilesHaveStoredBytes) {
  EXPECT_EQ(cat("tensors/blk/w"), std::string(16, 'c'));
  EXPECT_EQ(cat("tensors/q").size(), 18U);
  EXPECT_EQ(cat("files/tiny.test"), std::string(100, 'c'));
  EXPECT_EQ(cat("npy/blk/w.npy").substr(64 * (cat("npy/blk/w.npy").size() / 64)), std::string(16, 'c'));
}

TEST_F(ForestTest, InvalidTensorIsRefusedAlone) {
  EXPECT_EQ(cat("tensors/bad"), "error: tensor \"bad\" was refused: see warnings.txt");
  EXPECT_EQ(cat("warnings.txt"), "1 of 3 tensors cannot be read: see warnings.txt\ntensor \"bad\": lies\n");
}

TEST_F(ForestTest, MetadataDescribesModel) {
  EXPECT_EQ(
      cat("metadata.json"),
      "{\n  \"format\": \"test\",\n  \"version\": \"1\",\n  \"source\": \"/models/tiny.test\",\n  \"name\": \"Tiny\",\n"
      "  \"incomplete\": \"1 of 3 tensors cannot be read: see warnings.txt\",\n"
      "  \"summary\": {\n    \"kind\": \"tensors\",\n    \"name\": \"Tiny\",\n    \"parameters\": 36,\n"
      "    \"buffer_elements\": 3,\n    \"weight_bytes\": 34,\n    \"bits_per_weight\": 7.56,\n    \"dtype\": "
      "\"q4_0\",\n"
      "    \"weight_files\": [\n      \"tiny.test\"\n    ],\n"
      "    \"blocks\": [\n"
      "      {\n        \"path\": \"blk\",\n        \"members\": 1,\n        \"tensors\": 1,\n        \"parameters\": "
      "4,\n"
      "        \"bytes\": 16,\n        \"dtypes\": {\n          \"float32\": 16\n        }\n      },\n"
      "      {\n        \"path\": \"q\",\n        \"members\": 1,\n        \"tensors\": 1,\n        \"parameters\": "
      "32,\n"
      "        \"bytes\": 18,\n        \"dtypes\": {\n          \"q4_0\": 18\n        }\n      },\n"
      "      {\n        \"path\": \"bad\",\n        \"members\": 1,\n        \"tensors\": 1,\n        \"parameters\": "
      "0,\n"
      "        \"bytes\": 3,\n        \"dtypes\": {\n          \"uint8\": 3\n        }\n      }\n    ],\n"
      "    \"refused\": {\n      \"tensors\": 1\n    }\n  },\n"
      "  \"tensors\": {\n    \"count\": 3,\n    \"refused\": 1,\n    \"nbytes\": 34,\n    \"dtypes\": {\n"
      "      \"float32\": 1,\n      \"q4_0\": 1,\n      \"uint8\": 1\n    },\n    \"npy_dtypes\": {\n"
      "      \"q4_0\": \"float32\"\n    }\n  },\n"
      "  \"metadata\": {\n    \"answer\": 42\n  }\n}\n");
  EXPECT_THAT(cat("metadata.toml"), HasSubstr("answer = 42"));
}

TEST_F(ForestTest, TensorsJsonHasContainerOrder) {
  EXPECT_EQ(cat("tensors.json"),
            "{\"tensors\": [\n"
            "{\"name\": \"blk/w\", \"path\": \"blk/w\", \"dtype\": \"float32\", \"stored_dtype\": \"STORED\", "
            "\"shape\": [2,2], "
            "\"nbytes\": 16, \"storage\": {\"file\": \"tiny.test\", \"offset\": 10}},\n"
            "{\"name\": \"q\", \"path\": \"q\", \"dtype\": \"q4_0\", \"stored_dtype\": \"STORED\", \"shape\": [32], "
            "\"nbytes\": 18},\n"
            "{\"name\": \"bad\", \"path\": \"bad\", \"dtype\": \"uint8\", \"stored_dtype\": \"STORED\", \"shape\": "
            "[3], \"nbytes\": 0, "
            "\"refused\": true}\n]}\n");
}

TEST_F(ForestTest, InodeNumbersAndParentsAreStable) {
  const Ino tensors = forest.resolve("tensors").value();
  const Ino w = forest.resolve("tensors/blk/w").value();
  EXPECT_EQ(forest.resolve("tensors/./blk//w").value(), w);
  EXPECT_EQ(forest.resolve("tensors").value(), tensors) << "entering a tree does not change its number";
  EXPECT_EQ(forest.parent(forest.parent(w).value()), tensors);
  EXPECT_EQ(forest.parent(tensors), Forest::kRoot);
  EXPECT_EQ(forest.parent(Forest::kRoot), Forest::kRoot);
  EXPECT_EQ(forest.path(w), "tensors/blk/w");
  std::vector<Ino> listed;
  const auto all = forest.list(Forest::kRoot).value();
  for (uint32_t i = 0; i < all.count; ++i) listed.push_back(all.ino + i);
  EXPECT_THAT(listed, testing::Contains(tensors));
}

TEST_F(ForestTest, AttributesRenderOnlyWhatSizesNeed) {
  const auto known = [&](const char* path) { return forest.known_attributes(forest.resolve(path).value()); };
  EXPECT_EQ(known("metadata.json"), std::nullopt);
  EXPECT_EQ(known("tensors/blk/w")->size, 16U);
  EXPECT_EQ(known("npy/blk/w.npy")->size, 128U + 16U);
  EXPECT_EQ(known("files/tiny.test")->size, 100U);
  EXPECT_EQ(known("")->links, 2U + 5U);
  EXPECT_EQ(known("files")->links, 2U) << "of a container with one file";
  EXPECT_EQ(known("tensors/blk/w")->modified, 1'500'000'000);
  EXPECT_EQ(forest.attributes(forest.resolve("metadata.json").value()).value().size, cat("metadata.json").size());
  EXPECT_NE(known("metadata.json"), std::nullopt) << "it has been rendered by now";
  EXPECT_EQ(forest.container_bytes(), 100U);
}

// semantics 16.8
TEST_F(ForestTest, FilesHaveTheVerificationOfTheirBytes) {
  class Remote final : public Source {
   public:
    uint64_t size() const override { return 100; }
    Result<size_t> read(uint64_t, std::span<std::byte>) const override { return failure(Code::io, "not read"); }
    VerifiedBy verification() const override { return VerifiedBy::transport; }
  };
  const SourcePtr bytes = std::make_shared<Remote>();
  const auto its = std::make_shared<Model>();
  its->format = "test";
  its->parts.push_back({"remote.test", Later<SourcePtr>::of(bytes)});
  Tensor tensor = make_tensor("w", "float32", {2, 2});
  tensor.source = slice(bytes, 10, 16).value();
  its->tensors.push_back(tensor);
  Forest remote(lay_out(its, "https://example.com/remote.test", 0));
  const auto xattrs = [](Forest& in, const char* path) { return in.xattrs(in.resolve(path).value()).value(); };
  const Xattr verified("user.weightfs.verified", "transport");
  EXPECT_THAT(xattrs(remote, "files/remote.test"), ElementsAre(verified));
  EXPECT_THAT(xattrs(remote, "tensors/w"), testing::Contains(verified));
  EXPECT_THAT(xattrs(remote, "npy/w.npy"), testing::Contains(verified));
  EXPECT_THAT(xattrs(remote, "metadata.json"), ElementsAre());
  EXPECT_THAT(xattrs(remote, "files"), ElementsAre());
  EXPECT_THAT(xattrs(forest, "files/tiny.test"), ElementsAre());
}

TEST_F(ForestTest, TensorsHaveXattrs) {
  EXPECT_THAT(forest.xattrs(forest.resolve("tensors/blk/w").value()).value(),
              ElementsAre(Xattr("user.weightfs.name", "blk/w"), Xattr("user.weightfs.dtype", "float32"),
                          Xattr("user.weightfs.shape", "[2,2]"), Xattr("user.weightfs.nbytes", "16"),
                          Xattr("user.weightfs.format", "test")));
  EXPECT_THAT(forest.xattrs(Forest::kRoot).value(), ElementsAre(Xattr("user.weightfs.pid", "7")));
  EXPECT_TRUE(forest.xattrs(forest.resolve("metadata.json").value()).value().empty());
}

TEST_F(ForestTest, MissingNamesAreNotFound) {
  EXPECT_EQ(forest.resolve("tensors/nothing").error().code, Code::not_found);
  EXPECT_EQ(forest.resolve("metadata.json/x").error().code, Code::not_found);
  EXPECT_EQ(cat("tensors"), "error: not a file");
}

// A model is read once by concurrent readers; a failure is not cached.
TEST(Forest, DirectoryIsEnteredOnceAndRetriedAfterFailure) {
  std::atomic<int> entered = 0;
  TreeBuilder builder(nullptr);
  builder.add_tree("model", 0, Later<TreePtr>([&]() -> Result<TreePtr> {
                     if (++entered == 1) return failure(Code::io, "disk on fire");
                     TreeBuilder inner(nullptr);
                     inner.add_file("file", Later<SourcePtr>::of(in_memory("x")));
                     return std::move(inner).freeze();
                   }));
  Forest forest(std::move(builder).freeze());
  const Ino model = forest.resolve("model").value();
  EXPECT_EQ(entered, 0) << "looking at it does not read it";
  EXPECT_EQ(forest.list(model).error().message, "disk on fire");
  std::vector<std::thread> threads;
  std::vector<Ino> found(8);
  for (size_t i = 0; i < found.size(); ++i)
    threads.emplace_back([&, i] { found[i] = forest.lookup(model, "file").value(); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(entered, 2);
  for (const Ino ino : found) EXPECT_EQ(ino, found[0]);
}

// semantics 7.5: a listed name exists; the kernel must not cache that it does not.
TEST(Forest, DeletedContainerIsIoErrorNotMissingName) {
  TreeBuilder builder(nullptr);
  builder.add_tree("model", 0, Later<TreePtr>([]() -> Result<TreePtr> { return failure(Code::not_found, "gone"); }));
  builder.add_file("file", Later<SourcePtr>([]() -> Result<SourcePtr> { return failure(Code::not_found, "gone"); }));
  Forest forest(std::move(builder).freeze());
  EXPECT_EQ(forest.list(forest.resolve("model").value()).error().code, Code::absent);
  EXPECT_EQ(forest.resolve("model/tensors").error().code, Code::absent);
  EXPECT_EQ(forest.open(forest.resolve("file").value()).error().code, Code::io);
}

// semantics 7.1: times are the container's, before it is entered and after.
TEST(Forest, ModelInDirectoryHasItsOwnTime) {
  TreeBuilder builder(nullptr);
  builder.add_tree("model", 77,
                   Later<TreePtr>([]() -> Result<TreePtr> { return lay_out(std::make_shared<Model>(), "m", 77); }));
  Forest forest(std::move(builder).freeze());
  EXPECT_EQ(forest.attributes(forest.resolve("model").value()).value().modified, 77);
  EXPECT_EQ(forest.attributes(forest.resolve("model/tensors").value()).value().modified, 77);
}

// A model that is an archive: files, directories and links, and another model among them.
class ArchiveForest : public testing::Test {
 protected:
  static Part file(std::string path, std::string bytes) {
    return {std::move(path), Later<SourcePtr>::of(in_memory(std::move(bytes)))};
  }
  static Part link(std::string path, std::string target) {
    Part part = file(std::move(path), target);
    part.link_target = std::move(target);
    return part;
  }

  ModelPtr model() {
    auto model = std::make_shared<Model>();
    model->format = "zip";
    model->stored_bytes = 7;
    model->parts = {file("d/in.gguf", "bytes"), link("d/link", "in.gguf"), file("100%", "x"), file("taken", "y")};
    model->parts.push_back(
        {"far", Later<SourcePtr>([]() -> Result<SourcePtr> { return failure(Code::unsupported, "behind a link"); })});
    model->directories.edit() = {"empty/inside", "d", "taken", "taken/below"};
    model->nested = [this](const ModelPtr& itself) -> Result<std::vector<Nested>> {
      EXPECT_EQ(itself->format, "zip");
      ++looked;
      return std::vector<Nested>{{0, Later<ModelPtr>([this] { return inner(); })}};
    };
    return model;
  }

  Result<ModelPtr> inner() {
    if (read++ == 0) return failure(Code::corrupt, "torn");
    auto model = std::make_shared<Model>();
    model->format = "gguf";
    model->parts.push_back(file("in.gguf", "bytes"));
    model->tensors.push_back(make_tensor("w", "uint8", {2}));
    return model;
  }

  std::string cat(const std::string& path) {
    const auto source = forest.resolve(path).and_then([&](Ino ino) { return forest.open(ino); });
    return source ? text(**source) : "error: " + source.error().message;
  }

  int looked = 0;  // for containers among the parts
  int read = 0;    // the one that there is
  Forest forest{lay_out(model(), "/models/m.zip", 5)};
};

// semantics 9.1
TEST_F(ArchiveForest, MembersKeepTheirPaths) {
  EXPECT_THAT(walk(forest, forest.resolve("files").value()),
              ElementsAre("files/100%", "files/d/", "files/d/in.gguf", "files/d/link", "files/empty/",
                          "files/empty/inside/", "files/far", "files/taken"));
  EXPECT_EQ(cat("files/d/in.gguf"), "bytes");
  EXPECT_EQ(forest.container_bytes(), 7U);
}

TEST_F(ArchiveForest, SymbolicLinksAreShownNotFollowed) {
  const Ino ino = forest.resolve("files/d/link").value();
  EXPECT_EQ(forest.link(ino), "in.gguf");
  EXPECT_EQ(forest.known_attributes(ino)->kind, NodeKind::link);
  EXPECT_EQ(forest.known_attributes(ino)->size, 7U);
  EXPECT_EQ(forest.open(ino).error().message, "not a file");
  EXPECT_EQ(forest.resolve("files/d/link/x").error().code, Code::not_found);
  EXPECT_FALSE(forest.link(forest.resolve("files/100%").value()));
}

TEST_F(ArchiveForest, UnreadableFileIsListedAndReportsError) {
  const Ino ino = forest.resolve("files/far").value();
  EXPECT_EQ(forest.known_attributes(ino), std::nullopt);
  EXPECT_EQ(forest.attributes(ino).error().message, "behind a link");
  EXPECT_EQ(forest.open(ino).error().code, Code::unsupported);
  EXPECT_EQ(cat("files/100%"), "x");
}

TEST_F(ArchiveForest, NestedModelsAreReadWhenEntered) {
  EXPECT_EQ(forest.list(Forest::kRoot).value().count, 9U);
  EXPECT_EQ(looked, 0) << "looking at the model looks for no other";
  EXPECT_THAT(walk(forest, forest.resolve("nested/d").value()), ElementsAre("nested/d/in.gguf/", "error: torn"));
  EXPECT_EQ(cat("nested/d/in.gguf/tensors/w"), std::string("\0\1", 2)) << "a failure is not kept";
  EXPECT_THAT(walk(forest, forest.resolve("nested").value()),
              ElementsAre("nested/d/", "nested/d/in.gguf/", "nested/d/in.gguf/files/", "nested/d/in.gguf/files/in.gguf",
                          "nested/d/in.gguf/float32/", "nested/d/in.gguf/float32/w.npy",
                          "nested/d/in.gguf/metadata.json", "nested/d/in.gguf/metadata.toml", "nested/d/in.gguf/npy/",
                          "nested/d/in.gguf/npy/w.npy", "nested/d/in.gguf/tensors/", "nested/d/in.gguf/tensors/w",
                          "nested/d/in.gguf/tensors.json", "nested/d/in.gguf/views/",
                          "nested/d/in.gguf/views/model.float32.safetensors", "nested/d/in.gguf/views/model.npz",
                          "nested/d/in.gguf/views/model.safetensors", "nested/d/in.gguf/views/warnings.txt"));
  EXPECT_EQ(looked, 1);
  EXPECT_EQ(read, 2);
}

TEST_F(ArchiveForest, NestedModelHasPathOfItsMember) {
  read = 1;
  const Ino at = forest.resolve("nested/d/in.gguf").value();
  const Ino w = forest.resolve("nested/d/in.gguf/tensors/w").value();
  EXPECT_EQ(forest.path(w), "nested/d/in.gguf/tensors/w");
  EXPECT_EQ(forest.parent(forest.parent(w).value()), at);
  EXPECT_EQ(forest.parent(forest.parent(at).value()), forest.resolve("nested").value());
  EXPECT_EQ(forest.attributes(w).value().modified, 5);
  EXPECT_EQ(forest.model_of(w)->format, "gguf");
  EXPECT_THAT(forest.xattrs(w).value(), testing::Contains(Xattr("user.weightfs.format", "gguf")));
  EXPECT_THAT(cat("nested/d/in.gguf/metadata.json"), HasSubstr("\"source\": \"/models/m.zip/d/in.gguf\""));
}

TEST_F(ForestTest, NonArchiveHasNoNestedDirectory) {
  EXPECT_EQ(forest.resolve("nested").error().code, Code::not_found);
}

// semantics 4.5: strings are unknown before the first read, and may turn out to be invalid.
TEST(Forest, TextsAreRenderedOnFirstUse) {
  using Strings = std::shared_ptr<const std::vector<std::string>>;
  auto model = std::make_shared<Model>();
  Tensor tensor = make_tensor("s", "uint8", {2});
  tensor.dtype = dtype_named("string");
  tensor.shape = {1};
  model->tensors.push_back(tensor);
  int made = 0;
  model->per_tensor.edit().strings.emplace(0, Later<Strings>([&made]() -> Result<Strings> {
                                             if (made++ == 0) return failure(Code::corrupt, "no array `data`");
                                             return std::make_shared<const std::vector<std::string>>(1, "ab");
                                           }));
  Forest forest(lay_out(model, "m", 0));
  const Ino view = forest.resolve("npy/s.npy").value();
  EXPECT_EQ(forest.known_attributes(view), std::nullopt);
  EXPECT_EQ(made, 0);
  EXPECT_EQ(forest.attributes(view).error().message, "no array `data`");
  EXPECT_EQ(forest.attributes(view).value().size, 128U + 8U);
  EXPECT_EQ(text(*forest.open(view).value()).substr(128), std::string("a\0\0\0b\0\0\0", 8));
  EXPECT_EQ(made, 2);
}

TEST(Forest, KnownDigestIsInXattrs) {
  auto model = std::make_shared<Model>();
  for (const char* name : {"a", "b"}) model->tensors.push_back(make_tensor(name, "uint8", {1}));
  model->per_tensor.edit().digests.emplace(1, sha256("x"));
  Forest forest(lay_out(model, "m", 0));
  EXPECT_THAT(forest.xattrs(forest.resolve("tensors/b").value()).value(),
              testing::Contains(Xattr("user.weightfs.sha256", sha256("x").hex())));
  EXPECT_THAT(forest.xattrs(forest.resolve("npy/a.npy").value()).value(), testing::SizeIs(5));
}

// Lines are rendered when read, from any offset.
TEST(TensorsJson, ReadsAreEqualAtAnyOffset) {
  auto model = std::make_shared<Model>();
  for (int i = 0; i < 1000; ++i) model->tensors.push_back(make_tensor("t" + std::to_string(i), "uint8", {1}));
  Forest forest(lay_out(model, "m", 0));
  const auto source = forest.open(forest.resolve("tensors.json").value()).value();
  const std::string whole = text(*source);
  EXPECT_TRUE(whole.ends_with("]}\n"));
  for (size_t offset = 0; offset < whole.size(); offset += 997) {
    std::string part(5000, '?');
    part.resize(source->read(offset, std::as_writable_bytes(std::span(part))).value());
    EXPECT_EQ(part, whole.substr(offset, 5000));
  }
}

// semantics 2.3: the storage file of a tensor is a path below files/, independent of the container's name.
TEST(TensorsJson, StorageNamesPathBelowFiles) {
  auto model = std::make_shared<Model>();
  const SourcePtr bytes = in_memory("abcd");
  model->parts.push_back({"50%\n.bin", Later<SourcePtr>::of(bytes)});
  model->tensors.push_back(make_tensor("t", "uint8", {4}));
  model->tensors.set_source(0, slice(bytes, 0, 4).value());
  Forest forest(lay_out(model, "m", 0));
  EXPECT_THAT(text(*forest.open(forest.resolve("tensors.json").value()).value()),
              HasSubstr("{\"file\": \"50%%0A.bin\", "));
  EXPECT_EQ(text(*forest.open(forest.resolve("files/50%%0A.bin").value()).value()), "abcd");
}

TEST(TensorsJson, ModelWithoutTensorsHasEmptyList) {
  Forest forest(lay_out(std::make_shared<Model>(), "m", 0));
  EXPECT_EQ(text(*forest.open(forest.resolve("tensors.json").value()).value()), "{\"tensors\": []}\n");
}

// semantics 9.7
TEST(Forest, NewDirectoriesAreRefusedWithoutMemory) {
  if (test::sanitized()) GTEST_SKIP() << "the sanitizer's allocator does not say how much is in use";
  TreeBuilder builder(nullptr);
  const auto empty = [] { return Later<TreePtr>([]() -> Result<TreePtr> { return TreeBuilder(nullptr).freeze(); }); };
  builder.add_tree("entered", 0, empty());
  builder.add_tree("new", 0, empty());
  Forest forest(std::move(builder).freeze());
  const Ino entered = forest.resolve("entered").value();
  const Ino fresh = forest.resolve("new").value();
  ASSERT_TRUE(forest.list(entered));
  // Never touched, so that it takes addresses and no memory.
  const auto all = static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* const volatile much = std::malloc(all / 4 + (size_t{1} << 30));
  ASSERT_NE(much, nullptr);
  EXPECT_TRUE(forest.list(entered));
  EXPECT_EQ(forest.list(fresh).error().code, Code::resource);
  std::free(much);
  EXPECT_TRUE(forest.list(fresh));
}

}  // namespace
}  // namespace weightfs::forest_test
