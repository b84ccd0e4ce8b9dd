// The listing of Ollama's store: models, and warnings about incomplete ones.
#include "formats/ollama/store.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "formats/ollama/manifest.h"
#include "tests/builders/ollama_builder.h"

namespace weightfs::store_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Lines = std::vector<std::string>;

constexpr const char* kPlace = "registry.ollama.ai/library/tiny/latest";

// Counts how often a file is opened, and has some that cannot be.
class Watched final : public Folder {
 public:
  explicit Watched(Files files) : files_(std::move(files)) {}

  Result<std::vector<std::string>> names() const override { return files_.names(); }
  Result<std::vector<Part>> parts() const override { return files_.parts(); }
  Result<SourcePtr> open(std::string_view name) const override {
    opened.emplace_back(name);
    if (denied) return failure(Code::io, fmt::format("{}: Permission denied", name));
    return files_.open(name);
  }

  bool denied = false;
  mutable Lines opened;

 private:
  MemoryFolder files_;
};

// A hundred small manifests and then a large one, and how many are open.
class Counted final : public Folder {
 public:
  Result<std::vector<std::string>> names() const override { return Lines{}; }
  Result<SourcePtr> open(std::string_view) const override { return failure(Code::not_found, "none"); }
  Result<std::vector<Part>> parts() const override {
    std::vector<Part> parts;
    for (int i = 0; i < 100; ++i) parts.push_back(part(fmt::format("h/n/m/t{}", i), "{\"layers\":[]}"));
    parts.push_back(part("h/n/m/vast", "{\"layers\":[]}" + std::string(64 * 1024, ' ')));
    return parts;
  }

  mutable int open_now = 0;
  mutable int most_open = 0;

 private:
  class Manifest final : public Source {
   public:
    Manifest(std::string text, const Counted& folder) : text_(in_memory(std::move(text))), folder_(folder) {
      folder.most_open = std::max(folder.most_open, ++folder.open_now);
    }
    ~Manifest() override { --folder_.open_now; }
    Manifest(const Manifest&) = delete;
    Manifest& operator=(const Manifest&) = delete;

    uint64_t size() const override { return text_->size(); }
    Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override { return text_->read(offset, out); }

   private:
    SourcePtr text_;
    const Counted& folder_;
  };

  Part part(const std::string& path, const std::string& text) const {
    const Later<SourcePtr> opened(
        [text, this]() -> Result<SourcePtr> { return std::make_shared<Manifest>(text, *this); });
    return {path, Later<SourcePtr>::of(lazy(text.size(), opened))};
  }
};

struct Store {
  explicit Store(const Files& shown, const Files& hidden = {})
      : manifests(shown), blobs(std::make_shared<Watched>(hidden)) {}

  OllamaStoreListing read() const {
    auto shelves = read_ollama_store(manifests, blobs, uncached_blobs());
    EXPECT_TRUE(shelves) << (shelves ? "" : shelves.error().message);
    return shelves.value_or(OllamaStoreListing{});
  }
  Lines warnings() const { return read().warnings; }

  MemoryFolder manifests;
  std::shared_ptr<Watched> blobs;
};

Lines places(const OllamaStoreListing& shelves) {
  Lines lines;
  for (const StoredModel& model : shelves.models) lines.push_back(model.path);
  return lines;
}

// A layer whose blob is not added.
std::string layer(const std::string& bytes, const std::string& size) {
  return fmt::format("{}{}{}{}\"{}}}", R"({"mediaType":")", image("license"), R"(","digest":"sha256:)",
                     sha256(bytes).hex(), size);
}

TEST(OllamaStore, ListsEachManifestAtAValidPath) {
  const std::string manifest = small_ollama().manifest();
  Store store({{"hf.co/someone/model/Q4_K_M", manifest},
               {kPlace, manifest},
               {"localhost:5000/team/tiny/v1", manifest},
               {"registry.ollama.ai/library/tiny/.latest.swp", manifest},
               {"registry.ollama.ai/library/tiny/sub/latest", manifest},
               {"registry.ollama.ai/library/tiny", manifest},
               {".DS_Store", "x"}},
              small_ollama().blobs());
  const OllamaStoreListing shelves = store.read();
  EXPECT_THAT(places(shelves), ElementsAre("hf.co/someone/model/Q4_K_M", "localhost:5000/team/tiny/v1", kPlace));
  EXPECT_THAT(shelves.warnings, IsEmpty());
}

TEST(OllamaStore, ContainersHaveBytesFolderAndBlobs) {
  const OllamaStoreListing shelves = Store({{kPlace, small_ollama().manifest()}}, small_ollama().blobs()).read();
  ASSERT_EQ(shelves.models.size(), 1u);
  const Container& container = shelves.models[0].container;
  EXPECT_EQ(container.name, "latest");
  const auto model = read_as("ollama", container);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors.size(), 5u);
  EXPECT_EQ(model->lacks->files, 0u);
}

TEST(OllamaStore, InvalidManifestIsSkippedWithReason) {
  const std::string long_one(ollama::kMaxManifestSize + 1, ' ');
  const OllamaStoreListing shelves =
      Store({{"h/n/empty/t", ""}, {"h/n/long/t", long_one}, {"h/n/odd/t", "{\"layers\":7}"}}).read();
  EXPECT_THAT(shelves.models, IsEmpty());
  ASSERT_EQ(shelves.warnings.size(), 3u);
  EXPECT_THAT(shelves.warnings[0], HasSubstr("h/n/empty/t: "));
  EXPECT_EQ(shelves.warnings[1], "h/n/long/t: a manifest of 4.0 MiB");
  EXPECT_EQ(shelves.warnings[2], "h/n/odd/t: layers: a list expected, not a number");
}

TEST(OllamaStore, WarnsAboutMissingAndWronglySizedBlobs) {
  OllamaBuilder b;
  b.listed(layer("gone", "")).listed(layer("long", ",\"size\":3")).listed(layer("fine", ",\"size\":4"));
  const Store store({{kPlace, b.manifest()}},
                    {{"sha256-" + sha256("long").hex(), "long"}, {"sha256-" + sha256("fine").hex(), "fine"}});
  EXPECT_THAT(store.warnings(),
              ElementsAre(fmt::format("{}: blob sha256:{} is not in the store; blob sha256:{} has 4 bytes, not 3",
                                      kPlace, sha256("gone").hex(), sha256("long").hex())));
}

TEST(OllamaStore, ListsThreeWrongBlobsAndCountsTheRest) {
  OllamaBuilder b;
  for (const char* bytes : {"a", "b", "c", "d", "e"}) b.listed(layer(bytes, ""));
  const Lines lines = Store({{kPlace, b.manifest()}}).warnings();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr(sha256("c").hex() + " is not in the store; and 2 more"));
}

TEST(OllamaStore, FindsBlobsByFormerNames) {
  OllamaBuilder b;
  const Store store({{kPlace, b.listed(layer("old", ",\"size\":3")).manifest()}},
                    {{"sha256:" + sha256("old").hex(), "old"}});
  EXPECT_THAT(store.warnings(), IsEmpty());
}

TEST(OllamaStore, UnreadableBlobIsNotReportedAsMissing) {
  OllamaBuilder b;
  const Store store({{kPlace, b.listed(layer("x", "")).manifest()}});
  store.blobs->denied = true;
  EXPECT_THAT(store.warnings(),
              ElementsAre(fmt::format("{}: sha256-{}: Permission denied", kPlace, sha256("x").hex())));
}

TEST(OllamaStore, ChecksEachBlobOnce) {
  OllamaBuilder b;
  for (int i = 0; i < 1000; ++i) b.listed(layer("x", ",\"size\":1"));
  const Store store({{"h/n/a/t", b.manifest()}, {"h/n/b/t", b.manifest()}}, {{"sha256-" + sha256("x").hex(), "x"}});
  EXPECT_EQ(store.read().models.size(), 2u);
  EXPECT_THAT(store.blobs->opened, ElementsAre("sha256-" + sha256("x").hex()));
}

// A process may have 1,024 files open, and a store more models.
TEST(OllamaStore, KeepsOnlyLargeManifestsOpen) {
  const Counted many;
  const auto shelves = read_ollama_store(many, std::make_shared<Counted>(), uncached_blobs());
  ASSERT_TRUE(shelves) << shelves.error().message;
  EXPECT_EQ(shelves->models.size(), 101u);
  EXPECT_EQ(many.open_now, 1);
  EXPECT_EQ(many.most_open, 1) << "while they were read";
}

// A link to a manifest, or a directory, is none: only regular files count.
TEST(OllamaStore, SkipsLinks) {
  class Linked final : public Folder {
   public:
    Result<std::vector<std::string>> names() const override { return Lines{}; }
    Result<SourcePtr> open(std::string_view) const override { return failure(Code::not_found, "none"); }
    Result<std::vector<Part>> parts() const override {
      Part link{kPlace, Later<SourcePtr>::of(in_memory(small_ollama().manifest()))};
      link.link_target = "../tiny/latest";
      return std::vector<Part>{link};
    }
  };
  const auto shelves = read_ollama_store(Linked(), std::make_shared<Linked>(), uncached_blobs());
  ASSERT_TRUE(shelves);
  EXPECT_THAT(shelves->models, IsEmpty());
  EXPECT_THAT(shelves->warnings, IsEmpty());
}

TEST(OllamaStore, ManifestPathHasFourValidParts) {
  for (const char* path : {kPlace, "h/n/m/t", "localhost:11434/n/m.1/t-2", "_/_/_/_"})
    EXPECT_TRUE(is_manifest_path(path)) << path;
  for (const char* path : {"", "h/n/m", "h/n/m/t/more", "h//m/t", "../n/m/t", "h/n/m/..", "h/n/m/.t", "h/n.n/m/t",
                           "/n/m/t", "h/n/m/", "h/n/m/t\n", "h/n/m/a b"})
    EXPECT_FALSE(is_manifest_path(path)) << path;
}

}  // namespace
}  // namespace weightfs::store_test
