// The endpoints of a directory of models, and of the files of a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/cancel.h"
#include "fs/layout/layout.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/serve/api/client.h"
#include "tests/support/surroundings.h"

namespace weightfs::directory_api_test {
namespace {

using namespace test;
using api_client::Client;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Time kTime = 1'700'000'000'000'000'000;

TreePtr model_tree(const std::string& name, const std::string& bytes) {
  return lay_out(std::make_shared<Model>(read_model({name, in_memory(bytes)}).value()), name, kTime);
}

std::string small_model() { return SafetensorsBuilder().tensor("w", "F32", "2,4", std::string(32, 'w')).build(); }

// A model, one that cannot be read, one that ends early, directories that are only names, and a directory on disk.
TreePtr directory() {
  TreeBuilder more(nullptr);
  more.add_tree("inner.safetensors", kTime, Later<TreePtr>::of(model_tree("inner.safetensors", small_model())));
  TreeBuilder root(nullptr);
  root.add_file("README.md", Later<SourcePtr>::of(in_memory("# Models")));
  root.add_tree("a.safetensors", kTime, Later<TreePtr>::of(model_tree("a.safetensors", small_model())));
  root.add_tree("broken.gguf", kTime, Later<TreePtr>([]() -> Result<TreePtr> {
                  return failure(Code::corrupt, "broken.gguf: 3 bytes left, 24 needed");
                }));
  const std::string cut = small_model().substr(0, small_model().size() - 8);
  root.add_tree("cut.safetensors", kTime, Later<TreePtr>::of(model_tree("cut.safetensors", cut)));
  root.add_tree("library/llama/8b", kTime, Later<TreePtr>::of(model_tree("8b", small_model())));
  root.add_tree("more", kTime, Later<TreePtr>::of(std::move(more).freeze()));
  return std::move(root).freeze();
}

class DirectoryApi : public testing::Test {
 protected:
  std::vector<std::string> entries(const std::string& query, const char* key = "path") {
    return client_.names("models?" + query, "entries", key);
  }

  Client client_{directory(), "models"};
};

TEST_F(DirectoryApi, EntriesAreThoseOfTheDirectory) {
  EXPECT_THAT(entries(""),
              ElementsAre("README.md", "a.safetensors", "broken.gguf", "cut.safetensors", "library", "more"));
  EXPECT_THAT(entries("", "kind"), ElementsAre("file", "model", "model", "model", "directory", "directory"));
  EXPECT_THAT(entries("dir=more"), ElementsAre("more/inner.safetensors"));
}

TEST_F(DirectoryApi, ModelsBelowNamesAreListedWithTheirPaths) {
  EXPECT_THAT(entries("below=1"),
              ElementsAre("a.safetensors", "broken.gguf", "cut.safetensors", "library/llama/8b", "more"));
  EXPECT_THAT(entries("below=1", "kind"), ElementsAre("model", "model", "model", "model", "directory"));
  EXPECT_EQ(*client_.json("models?below=1").find_as<int64_t>("files"), 1);
  EXPECT_THAT(entries("below=1&dir=library"), ElementsAre("library/llama/8b"));
  EXPECT_THAT(entries("below=1&dir=library", "name"), ElementsAre("llama/8b"));
}

TEST_F(DirectoryApi, SearchFindsNames) {
  EXPECT_THAT(entries("below=1&q=LLAMA+8b"), ElementsAre("library/llama/8b"));
  EXPECT_THAT(entries("below=1&q=nothing"), IsEmpty());
}

TEST_F(DirectoryApi, EntryHasTheRowOfItsModel) {
  const Map row = client_.json("entry?path=a.safetensors");
  EXPECT_EQ(text_in(row, "kind"), "model");
  EXPECT_EQ(text_in(row, "format"), "safetensors");
  EXPECT_EQ(text_in(row, "quantised"), "float32");
  EXPECT_EQ(*row.find_as<int64_t>("parameters"), 8);
  EXPECT_THAT(*row.find_as<List>("alerts"), IsEmpty());
  EXPECT_EQ(text_in(client_.json("entry?path=library/llama/8b"), "kind"), "model");
}

TEST_F(DirectoryApi, EntrySaysWhatIsWrong) {
  const Map broken = client_.json("entry?path=broken.gguf");
  EXPECT_EQ(text_in(broken, "error"), "3 bytes left, 24 needed");
  const Map cut = client_.json("entry?path=cut.safetensors");
  EXPECT_THAT(std::get<std::string>(cut.find_as<List>("alerts")->front()), HasSubstr("DAMAGED: "));
}

TEST_F(DirectoryApi, EntryOfADirectoryHasItsNumber) {
  const Map more = client_.json("entry?path=more");
  EXPECT_EQ(text_in(more, "kind"), "directory");
  EXPECT_EQ(*more.find_as<int64_t>("entries"), 1);
}

TEST_F(DirectoryApi, EntryOfAnotherPathIsRefused) {
  EXPECT_EQ(client_.ask("entry?path=elsewhere").status, 404);
  EXPECT_EQ(client_.ask("entry?path=a.safetensors/tensors").status, 404);
}

TEST(LongDirectory, IsCutAndSearched) {
  TreeBuilder root(nullptr);
  const TreePtr model = model_tree("m.safetensors", small_model());
  for (int i = 0; i < 1200; ++i)
    root.add_tree(root.keep("m" + std::to_string(i) + ".safetensors"), kTime, Later<TreePtr>::of(model));
  Client client(std::move(root).freeze(), "models");
  EXPECT_EQ(client.names("models?below=1", "entries").size(), 1000U);
  EXPECT_TRUE(*client.json("models?below=1").find_as<bool>("truncated"));
  EXPECT_THAT(client.names("models?below=1&q=m1199", "entries"), ElementsAre("m1199.safetensors"));
  EXPECT_FALSE(*client.json("models?below=1&q=m1199").find_as<bool>("truncated"));
}

// Models whose directories take too long are listed as models; their rows then tell what they are.
TEST(SlowDirectory, IsListedBeforeItIsEntered) {
  std::atomic<int> entered = 0;
  TreeBuilder root(nullptr);
  for (const char* const name : {"far", "farther"})
    root.add_tree(name, kTime, Later<TreePtr>([&entered]() -> Result<TreePtr> {
                    ++entered;
                    while (!is_cancelled()) std::this_thread::yield();
                    return cancelled();
                  }));
  Client client(std::move(root).freeze(), "models");
  EXPECT_THAT(client.names("models?below=1", "entries", "kind"), ElementsAre("model", "model"));
  EXPECT_EQ(entered, 2);
}

TEST(RowsOfApi, FourAreReadAtATime) {
  constexpr int kAtOnce = 4;
  std::atomic<int> reading = 0, most = 0;
  const TreePtr model = model_tree("m.safetensors", small_model());
  const auto read = [&]() -> Result<TreePtr> {
    const int now = ++reading;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) continue;
    while (most < kAtOnce) std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();  // for a fifth one, if there was one
    --reading;
    return model;
  };
  TreeBuilder root(nullptr);
  for (int i = 0; i < 2 * kAtOnce; ++i) root.add_tree(root.keep(std::to_string(i)), kTime, Later<TreePtr>(read));
  Client client(std::move(root).freeze(), "models");
  std::vector<std::thread> clients;
  for (int i = 0; i < 2 * kAtOnce; ++i)
    clients.emplace_back([&, i] { EXPECT_EQ(client.ask("entry?path=" + std::to_string(i)).status, 200); });
  for (std::thread& each : clients) each.join();
  EXPECT_EQ(most, kAtOnce);
}

TEST(FilesApi, OwnFilesComeFirstWithTheirDigests) {
  const std::string bytes = small_model();
  auto model = std::make_shared<Model>(read_model({"model.safetensors", in_memory(bytes)}).value());
  for (const char* const name : {"zebra.bin", "config.json", "README.md", "tokenizer_config.json"})
    model->parts.push_back({name, Later<SourcePtr>::of(in_memory("{}")), FileChecksums(Crc32{0x1234})});
  Client client(lay_out(model, "m", kTime));
  const auto paths = client.names("files", "files", "path");
  ASSERT_GE(paths.size(), 8U);
  EXPECT_THAT(std::vector(paths.begin(), paths.begin() + 5),
              ElementsAre("files/README.md", "files/config.json", "files/tokenizer_config.json",
                          "files/model.safetensors", "files/zebra.bin"));
  EXPECT_THAT(paths, testing::Contains("metadata.json"));
  EXPECT_THAT(client.names("files", "files", "role"), testing::Contains("weights"));
  const std::string body = client.body("files?q=readme");
  EXPECT_THAT(body, HasSubstr(R"("digest":"crc32:00001234")"));
  EXPECT_THAT(body, HasSubstr(R"("bytes":2)"));
  EXPECT_THAT(body, HasSubstr(R"("href":"/files/README.md")"));
  EXPECT_THAT(client.names("files?q=zebra", "files", "name"), ElementsAre("zebra.bin"));
  EXPECT_THAT(client.names("files?views=1", "files", "path"), testing::Contains("views/model.npz"));
}

TEST(FilesApi, ManyFilesAreCutAndCounted) {
  auto model = std::make_shared<Model>(read_model({"model.safetensors", in_memory(small_model())}).value());
  for (int i = 0; i < 1500; ++i)
    model->parts.push_back({"f" + std::to_string(i), Later<SourcePtr>::of(in_memory("x")), {}});
  Client client(lay_out(model, "m", kTime));
  EXPECT_EQ(client.names("files", "files").size(), 1000U);
  EXPECT_GE(*client.json("files").find_as<int64_t>("total"), 1501);
  EXPECT_EQ(client.names("files?q=f1499", "files").size(), 1U);
}

}  // namespace
}  // namespace weightfs::directory_api_test
