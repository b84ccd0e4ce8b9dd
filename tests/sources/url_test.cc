// Models at URLs: how many requests and bytes opening them takes.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>

#include "base/text.h"
#include "cache/direct_client.h"
#include "sources/source.h"
#include "tests/builders/gguf_builder.h"
#include "tests/support/http_server.h"
#include "tests/support/may_open.h"
#include "tests/support/temporary.h"

namespace weightfs::test::url_test {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Le;
using testing::SizeIs;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kGiB = 1024 * 1024 * kKiB;

// A file on the server: its first bytes, and zeros up to its size.
struct SparseFile {
  std::string head;
  uint64_t size;
};

class UrlTest : public testing::Test {
 protected:
  void serve(const SeenRequest& request, Wire& wire) {
    const std::string name = request.target.substr(1, request.target.find('?') - 1);
    const auto file = files.find(name);
    if (file == files.end()) return void(wire.send(answer("404 Not Found", "")));
    if (name == failing) return void(wire.send(answer("403 Forbidden", "")));
    const int now = ++active;
    {
      const std::scoped_lock lock(mutex);
      most_active = std::max(most_active, now);
      ++requests[name];
    }
    const auto [begin, end] = *request.range();
    const uint64_t to = std::min(end, file->second.size);
    std::string body(to - begin, '\0');
    if (begin < file->second.head.size()) {
      const std::string_view part = std::string_view(file->second.head).substr(begin, body.size());
      body.replace(0, part.size(), part);
    }
    sent += body.size();
    wire.pause(std::chrono::milliseconds(1));
    wire.send(answer(
        "206 Partial Content", body,
        {"ETag: \"" + name + "\"", fmt::format("Content-Range: bytes {}-{}/{}", begin, to - 1, file->second.size)}));
    --active;
  }

  OpenOptions options() {
    StoreOptions store_options;
    store_options.directory = temporary.path("cache");
    store_options.quota = kGiB;
    store_options.fetching.http = std::make_shared<http::DirectClient>(http::Options{});
    store_options.fetching.options.retries = 0;
    OpenOptions open;
    open.registries.store = blob_store(std::move(store_options));
    open.blobs = open.registries.store;
    if (on_opened) open.on_opened = on_opened;
    return open;
  }
  Result<ModelPtr> open(const std::string& path) {
    const SourceEntry entry = TRY(find_source(server.url("/" + path), options(), TestProcess::may_open()));
    const Opened opened = TRY(std::get<std::function<Result<Opened>()>>(entry.content)());
    return std::get<OpenedModel>(opened).model;
  }
  std::vector<int> request_counts() const {
    std::vector<int> counts;
    for (const auto& [name, count] : requests) counts.push_back(count);
    return counts;
  }
  // A safetensors file of one tensor whose header has at least `header` bytes.
  static SparseFile shard(const std::string& tensor, uint64_t header, uint64_t size) {
    const std::string json =
        fmt::format(R"({{"__metadata__":{{"padding":"{}"}},"{}":{{"dtype":"U8","shape":[{}],"data_offsets":[0,{}]}}}})",
                    std::string(header, 'x'), tensor, size, size);
    std::string head(8, '\0');
    const uint64_t length = json.size();
    std::memcpy(head.data(), &length, sizeof length);
    head += json;
    return {head, head.size() + size};
  }
  uint64_t add_shards(int count, uint64_t header, uint64_t size) {
    std::string map;
    uint64_t headers = 0;
    for (int i = 1; i <= count; ++i) {
      const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i, count);
      map += fmt::format(R"({}"t{}":"{}")", i == 1 ? "" : ",", i, name);
      headers += (files[name] = shard(fmt::format("t{}", i), header, size)).head.size();
    }
    const std::string index = fmt::format(R"({{"metadata":{{}},"weight_map":{{{}}}}})", map);
    files["model.safetensors.index.json"] = {index, index.size()};
    return headers + index.size();
  }

  std::map<std::string, SparseFile> files;
  std::string failing;
  std::function<void(uint64_t, uint64_t)> on_opened;
  std::mutex mutex;  // guards the next two
  std::map<std::string, int> requests;
  int most_active = 0;
  std::atomic<int> active = 0;
  std::atomic<uint64_t> sent = 0;
  TemporaryDirectory temporary;
  HttpServer server{[this](const SeenRequest& request, Wire& wire) { serve(request, wire); }};
};

TEST_F(UrlTest, FourHundredShardsTakeTwoRequestsEachAndEightAtATime) {
  const uint64_t headers = add_shards(400, 40 * kKiB, kGiB);
  const auto model = open("model.safetensors.index.json");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT((*model)->tensors, SizeIs(400));
  EXPECT_THAT((*model)->warnings, SizeIs(0));
  EXPECT_THAT(request_counts(), Each(Le(2)));
  EXPECT_LE(most_active, 8);
  EXPECT_GT(most_active, 1);
  EXPECT_LE(sent, headers * 11 / 10 + 401 * 32 * kKiB);
}

TEST_F(UrlTest, ShardsWithShortHeadersTakeOneRequestEach) {
  add_shards(20, 100, kGiB);
  const auto model = open("");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT((*model)->tensors, SizeIs(20));
  EXPECT_THAT(request_counts(), Each(1));
}

// semantics 21.10
TEST_F(UrlTest, FilesOfShardsTakeNoMoreRequestsThanTheirHeaders) {
  add_shards(20, 100, kGiB);
  const auto model = open("");
  ASSERT_TRUE(model) << model.error().message;
  const std::vector<int> before = request_counts();
  EXPECT_THAT(before, SizeIs(21));
  EXPECT_THAT(before, Each(1));
  uint64_t bytes = 0;
  for (const Part& part : (*model)->parts) {
    const auto source = part.source.get();
    ASSERT_TRUE(source) << source.error().message;
    bytes += (*source)->size();
  }
  EXPECT_GE(bytes, 20 * kGiB);
  EXPECT_EQ(request_counts(), before);
}

// semantics 8.6
TEST_F(UrlTest, OpenedShardsAreCounted) {
  add_shards(20, 100, kGiB);
  std::vector<uint64_t> counts;
  on_opened = [&](uint64_t opened, uint64_t total) {
    EXPECT_EQ(total, 20u);
    counts.push_back(opened);
  };
  const auto entry =
      find_source(server.url("/model.safetensors.index.json"), options(), TestProcess::may_open(), Check::existence);
  ASSERT_TRUE(entry) << entry.error().message;
  ASSERT_TRUE(std::get<std::function<Result<Opened>()>>(entry->content)());
  std::vector<uint64_t> expected(21);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(counts, expected);
}

TEST_F(UrlTest, UnavailableShardFailsInsteadOfLeavingOutTensors) {
  add_shards(3, 100, kGiB);
  failing = "model-00002-of-00003.safetensors";
  const auto model = open("model.safetensors.index.json");
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("403 Forbidden"));
}

TEST_F(UrlTest, ServerThatRefusesAShardIsNotAskedForAllOthers) {
  add_shards(200, 100, kGiB);
  failing = "model-00001-of-00200.safetensors";
  EXPECT_FALSE(open("model.safetensors.index.json"));
  EXPECT_LT(request_counts().size(), 50u);
}

TEST_F(UrlTest, HeaderOfALargeGgufTakesAtMostTwiceItself) {
  GgufBuilder builder;
  builder.string("general.architecture", "llama");
  for (int i = 0; i < 400; ++i) builder.string(fmt::format("key.{}", i), std::string(1000, 'x'));
  const std::string head = builder.build();
  files["model.gguf"] = {head, 40 * kGiB};
  const auto model = open("model.gguf");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_LE(sent, 2 * head.size() + 64 * kKiB);
}

TEST_F(UrlTest, ShardsOfAGgufAreFoundByTheirNames) {
  for (uint16_t i = 0; i < 3; ++i) {
    GgufBuilder builder;
    builder.u16("split.no", i).u16("split.count", 3).i32("split.tensors.count", 3);
    const std::string bytes = builder.tensor(fmt::format("t{}", i), {1}, 24, "\x01").build();
    files[fmt::format("m-{:05}-of-00003.gguf", i + 1)] = {bytes, bytes.size()};
  }
  const auto model = open("m-00002-of-00003.gguf");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT((*model)->tensors, SizeIs(3));
  EXPECT_THAT((*model)->warnings, SizeIs(0));
}

TEST_F(UrlTest, NameIsDecodedAndQueryIsNotShown) {
  files["my%20model.safetensors"] = shard("t", 10, 100);
  const auto entry =
      find_source(server.url("/my%20model.safetensors?token=secret"), options(), TestProcess::may_open());
  ASSERT_TRUE(entry) << entry.error().message;
  EXPECT_EQ(entry->path, "my model.safetensors");
  EXPECT_EQ(printable_source(server.url("/a?token=secret")), server.url("/a"));
}

TEST_F(UrlTest, DirectoryWithoutAModelNamesTheFilesThatWereTried) {
  const auto entry = find_source(server.url("/"), options(), TestProcess::may_open());
  ASSERT_FALSE(entry);
  EXPECT_EQ(entry.error().code, Code::not_found);
  EXPECT_THAT(entry.error().message, HasSubstr("name a model file"));
}

}  // namespace
}  // namespace weightfs::test::url_test
