// Blobs in temporary files, for --no-cache.
#include "cache/store/temp_file_backend.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <thread>

#include "cache/blob_store.h"
#include "tests/cache/store_fixture.h"

namespace weightfs::test::temp_file_backend_test {
namespace {

using namespace store;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TempFileStoreTest : public StoreDirectory {
 protected:
  TempFileStoreTest() { ::setenv("TMPDIR", temporary.path("").c_str(), 1); }
  ~TempFileStoreTest() override { ::unsetenv("TMPDIR"); }

  BlobsPtr blobs_of(std::optional<uint64_t> quota) {
    return blob_store({"", quota, [this](const std::string& line) { log.push_back(line); }});
  }
};

TEST_F(TempFileStoreTest, MaterializesEachBlobOnceWithoutVisibleFile) {
  const BlobsPtr blobs = blobs_of(100 << 20);
  std::vector<TestProducerPtr> making_files;
  std::vector<SourcePtr> sources;
  for (uint32_t i = 0; i < 20; ++i) {
    making_files.push_back(test_producer(some_bytes(70'000 + i * 1001, i)));
    sources.push_back(blobs->blob(producer_of(making_files.back(), fmt::format("zip {}", i))));
  }
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 40; ++i) {
        const size_t one = (i + 5 * t) % 20;
        EXPECT_EQ(read(*sources[one]), describe(making_files[one]->bytes));
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& made : making_files) EXPECT_EQ(made->starts, 1);
  EXPECT_THAT(files_in(temporary.path("")), IsEmpty());
}

TEST_F(TempFileStoreTest, ServesBytesWhileLaterBytesAreProduced) {
  Gate middle;
  member->before = [&](size_t given) {
    if (given == 200'000) middle.wait();
  };
  const BlobsPtr blobs = blobs_of(100 << 20);
  const auto blob = blobs->blob(producer_of(member, "zip 1"));
  EXPECT_EQ(read(*blob, 0, 190'000), describe(bytes.substr(0, 190'000)));  // in whole blocks
  middle.open();
  EXPECT_EQ(read(*blob), describe(bytes));
}

TEST_F(TempFileStoreTest, MismatchedBytesAreNeverServedToTheEnd) {
  BlobProducer wrong = producer_of(member, "zip 1");
  wrong.digest = sha256("others");
  const BlobsPtr blobs = blobs_of(100 << 20);
  const auto blob = blobs->blob(wrong);
  EXPECT_THAT(read(*blob), HasSubstr("expected " + sha256("others").hex()));
  EXPECT_THAT(read(*blob, 0, 1), HasSubstr("expected " + sha256("others").hex()));
}

TEST_F(TempFileStoreTest, StaysWithinQuota) {
  const BlobsPtr blobs = blobs_of(700'000);
  for (uint32_t i = 0; i < 4; ++i) {
    const TestProducerPtr made = test_producer(some_bytes(kMember, i));
    const auto blob = blobs->blob(producer_of(made, fmt::format("zip {}", i)));
    for (int again = 0; again < 2; ++again) EXPECT_EQ(read(*blob), describe(made->bytes));
    EXPECT_EQ(made->starts, i < 2 ? 1 : 2);
  }
  EXPECT_THAT(
      log,
      ElementsAre("cannot cache decoded data: temporary files are limited to 683.6 KiB; each reader decodes it again"));
}

TEST_F(TempFileStoreTest, FailedBlobFreesItsSpace) {
  const BlobsPtr blobs = blobs_of(700'000);
  member->error = Error{Code::corrupt, "wrong checksum"};
  for (const std::string key : {"zip 1", "zip 2", "zip 3", "zip 4", "zip 5"})
    EXPECT_EQ(read(*blobs->blob(producer_of(member, key))), "error: wrong checksum");
  member->error = std::nullopt;
  EXPECT_EQ(read(*blobs->blob(producer_of(member, "zip 6"))), describe(bytes));
  EXPECT_THAT(log, IsEmpty());
}

// Bytes of discarded blobs that readers still use.
class TempFileBackendTest : public TempFileStoreTest {
 protected:
  static constexpr uint64_t kQuota = 400'000;  // space for one blob
  BlockFilePtr partial(const std::string& name, const std::string& text) const {
    BlockFilePtr file = written_blob(*backend, {name, "", {}}, text);
    EXPECT_NE(file, nullptr);
    return file;
  }
  Result<BlobHandle> publish(const std::string& name, const BlockFilePtr& file, const std::string& text) const {
    return backend->publish_blocks(file, {name, "", {}}, sha256(text));
  }
  static std::string all_of(BlockFile& file) {
    std::string out(file.size(), '?');
    const auto got = file.read(0, std::as_writable_bytes(std::span(out)));
    return got ? describe(out.substr(0, *got)) : "error: " + got.error().message;
  }
  static std::string all_of(const FileRange& range) {
    std::string out(range.size(), '?');
    const auto done = range.read(0, std::as_writable_bytes(std::span(out)));
    return done ? describe(out) : "error: " + done.error().message;
  }
  static size_t open_files() {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }
  std::shared_ptr<TempFileBackend> backend = std::make_shared<TempFileBackend>(kQuota);
};

TEST_F(TempFileBackendTest, FileReservesItsSpaceWhileItIsOpen) {
  auto file = partial("a", bytes);
  EXPECT_EQ(all_of(*file), describe(bytes));
  EXPECT_EQ(written_blob(*backend, {"b", "", {}}, bytes), nullptr);
  file = nullptr;
  EXPECT_NE(written_blob(*backend, {"b", "", {}}, bytes), nullptr);
}

TEST_F(TempFileBackendTest, BytesOfDuplicateBlobStayReadable) {
  const std::string half = bytes.substr(0, kMember / 2);
  ASSERT_TRUE(publish("a", partial("a", half), half));
  const auto second = partial("b", half);
  const auto kept = publish("b", second, half);
  EXPECT_EQ(all_of(*second), describe(half));
  EXPECT_EQ(all_of(*kept->range), describe(half));
}

// Others are stored while it grows.
TEST_F(TempFileStoreTest, StoresBlobOfUnknownSize) {
  const TestProducerPtr large = test_producer(some_bytes(5'000'000));
  const BlobsPtr blobs = blobs_of(100 << 20);
  large->before = [&](size_t given) {
    if (given == 0 || given % 1'000'000 != 0 || large->starts < 2) return;
    const TestProducerPtr between = test_producer(some_bytes(70'000, static_cast<uint32_t>(given)));
    EXPECT_EQ(read(*blobs->blob(producer_of(between, fmt::format("zip {}", given)))), describe(between->bytes));
  };
  BlobProducer producer = producer_of(large, "tar.gz 1");
  producer.depth = 1;
  producer.size = std::nullopt;
  const auto made = blobs->materialize(producer);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ((*made)->size(), 5'000'000U);
  EXPECT_EQ(read(**made), describe(large->bytes));
  EXPECT_EQ(read(**made, 1'048'000, 3'000'000), describe(large->bytes.substr(1'048'000, 3'000'000)));
  EXPECT_EQ(large->starts, 2);
}

// Each kept blob has a descriptor.
TEST_F(TempFileBackendTest, LeastRecentlyUsedBlobIsDroppedAndItsSpaceReturned) {
  backend = std::make_shared<TempFileBackend>(1 << 20, 2);
  const std::string half = bytes.substr(0, kMember / 2);
  const auto add = [&](const std::string& name) {
    const std::string content = name + half;
    EXPECT_TRUE(publish(name, partial(name, content), content));
  };
  const auto is_kept = [&](const std::string& name) { return bool{backend->find_open(BlobName{name, "", {}})}; };
  const size_t before = open_files();
  add("a");
  add("b");
  EXPECT_TRUE(is_kept("a"));
  for (int turn = 0; turn < 100; ++turn) add(fmt::format("c{}", turn));  // many times the quota
  EXPECT_TRUE(is_kept("c98") && is_kept("c99"));
  EXPECT_FALSE(is_kept("a") || is_kept("b"));
  EXPECT_EQ(open_files(), before + 2);
  EXPECT_FALSE(backend->find(BlobName{"d", "", sha256("c97" + half)}, {}));
  EXPECT_TRUE(backend->find(BlobName{"d", "", sha256("c99" + half)}, {}));  // by its digest
}

TEST_F(TempFileBackendTest, DroppedBlobStaysReadableWhileItIsOpen) {
  backend = std::make_shared<TempFileBackend>(kQuota, 1);
  const auto first = publish("a", partial("a", bytes), bytes);
  ASSERT_TRUE(first);
  ASSERT_TRUE(publish("b", partial("b", "other"), "other"));
  EXPECT_FALSE(backend->find_open(BlobName{"a", "", {}}));
  EXPECT_EQ(all_of(*first->range), describe(bytes));
}

TEST_F(TempFileStoreTest, BlobIsReadUncachedWithoutTempDirectory) {
  ::setenv("TMPDIR", temporary.path("missing").c_str(), 1);
  const BlobsPtr blobs = blobs_of(100 << 20);
  EXPECT_EQ(read(*blobs->blob(producer_of(member, "zip 1"))), describe(bytes));  // in /var/tmp or /tmp
}

}  // namespace
}  // namespace weightfs::test::temp_file_backend_test
