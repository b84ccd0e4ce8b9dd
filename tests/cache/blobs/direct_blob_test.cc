// Reads of verified local blobs that take no lock (Source::verified_file()).
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "cache/direct_client.h"
#include "tests/cache/store_fixture.h"
#include "tests/support/http_server.h"
#include "tests/support/lock_count.h"

namespace weightfs::direct_blob_test {
namespace {

using test::describe;
using test::read;
using test::some_bytes;

constexpr size_t kLarge = 5'000'000;

class DirectBlobTest : public test::StoreDirectory {
 protected:
  DirectBlobTest() {
    for (const char* name : {"HOME", "OLLAMA_MODELS", "CARTON_CACHE_DIR", "HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"})
      ::setenv(name, temporary.path("missing").c_str(), 1);
    bytes = some_bytes(kLarge);
  }

  SourcePtr downloadable_blob() {
    http::Options client;
    client.allow_private_urls = true;
    StoreOptions options{directory, 100 << 20};
    options.fetching = {std::make_shared<http::DirectClient>(client),
                        {.retries = 1, .first_delay = std::chrono::milliseconds(1)}};
    return resolved(blob_store(std::move(options)), {server.url("/b")});
  }
  SourcePtr resolved(const BlobStorePtr& from, std::vector<std::string> urls) {
    stores.push_back(from);
    return from->resolve({"layer", sha256(bytes), bytes.size(), std::move(urls)}).value().verified;
  }

  std::vector<BlobStorePtr> stores;  // as long as their blobs are read
  std::atomic<int> requests = 0;
  HttpServer server{[this](const SeenRequest& request, Wire& wire) {
    ++requests;
    serve_file(request, wire, bytes);
  }};
};

// The locks that a read of a few bytes takes.
uint64_t locks_of_read(const Source& source) {
  std::array<std::byte, 1000> out;
  EXPECT_EQ(source.read(100, out).value_or(0), out.size());  // the first read compares the block
  const uint64_t before = test::locks_taken();
  EXPECT_EQ(source.read(100, out).value_or(0), out.size());
  return test::locks_taken() - before;
}

TEST_F(DirectBlobTest, BlobThatIsNotLocalHasNone) { EXPECT_EQ(downloadable_blob()->verified_file(), nullptr); }

// docs/design/reading.md
TEST_F(DirectBlobTest, WarmReadsTakeNoLock) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer has its own locks";
#endif
  const SourcePtr blob = downloadable_blob();
  read(*blob);
  EXPECT_GT(locks_of_read(*blob), 0u) << "locks are not counted";
  const SourcePtr direct = blob->verified_file();
  ASSERT_NE(direct, nullptr);
  EXPECT_EQ(locks_of_read(*direct), 0u);
  EXPECT_EQ(read(*direct), describe(bytes));

  const SourcePtr npy = concat({in_memory("head"), std::make_shared<Slice>(slice(blob, 4, 5000).value())});
  const SourcePtr direct_npy = npy->verified_file();
  ASSERT_NE(direct_npy, nullptr);
  EXPECT_EQ(locks_of_read(*direct_npy), 0u);
  EXPECT_EQ(read(*direct_npy), describe("head" + bytes.substr(4, 5000)));
}

TEST_F(DirectBlobTest, DecodedMemberHasOneOnceItIsCached) {
  const auto cache = store();
  const SourcePtr blob = cache->blob(test::producer_of(member, "zip 1"));
  EXPECT_EQ(blob->verified_file(), nullptr);
  SourcePtr direct;
  const auto has_direct = [&] {
    read(*blob);
    direct = blob->verified_file();
    return direct != nullptr;
  };
  ASSERT_TRUE(test::eventually(has_direct)) << "it is published after the last read";
  EXPECT_EQ(read(*direct), describe(member->bytes));
}

TEST_F(DirectBlobTest, ExternalFileIsReadWhereItIs) {
  const std::string file = temporary.path("blobs/" + sha256(bytes).hex());
  std::filesystem::create_directories(temporary.path("blobs"));
  std::ofstream(file, std::ios::binary) << bytes;
  StoreOptions options{directory, 100 << 20};
  options.blob_directories = {temporary.path("blobs")};
  const SourcePtr blob = resolved(blob_store(std::move(options)), {});
  read(*blob);
  const SourcePtr direct = blob->verified_file();
  ASSERT_NE(direct, nullptr);
  EXPECT_EQ(read(*direct), describe(bytes));
}

TEST_F(DirectBlobTest, EvictedBlobStaysReadable) {
  const SourcePtr blob = downloadable_blob();
  read(*blob);
  const SourcePtr direct = blob->verified_file();
  ASSERT_NE(direct, nullptr);
  std::filesystem::remove_all(directory);
  EXPECT_EQ(read(*direct), describe(bytes));
}

TEST_F(DirectBlobTest, BlobThatIsFoundDamagedIsDownloadedAgain) {
  read(*downloadable_blob());
  const SourcePtr blob = downloadable_blob();  // of another store, which has compared nothing yet
  std::array<std::byte, 1000> out;
  ASSERT_TRUE(blob->read(0, out));
  const SourcePtr direct = blob->verified_file();
  ASSERT_NE(direct, nullptr);
  {
    std::fstream file(directory + "/" + test::blob_path(bytes), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(kLarge - 1);
    file.put(static_cast<char>(bytes.back() ^ 1));
    ASSERT_TRUE(file.flush());
  }
  const int before = requests;
  EXPECT_EQ(read(*direct), describe(bytes));
  EXPECT_GT(requests, before) << "it was not downloaded again";
}

}  // namespace
}  // namespace weightfs::direct_blob_test
