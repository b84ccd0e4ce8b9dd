// Block lists that are saved beside verified blobs.
#include "cache/store/side_files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "cache/blob_store.h"
#include "cache/maintenance.h"
#include "cache/store/disk_backend.h"
#include "tests/cache/child_process.h"
#include "tests/cache/fetch_fixture.h"
#include "tests/cache/store_fixture.h"

namespace weightfs::test::side_files_test {
namespace {

using fetch_fixture::quick_retries;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kMiB = 1024 * 1024;
constexpr uint64_t kQuota = 100 << 20;

struct Copied {
  std::string list;
  std::optional<Digest> digest;
};

std::string digits(const std::optional<Digest>& digest) { return digest ? digest->hex() : "none"; }

class TextSink {
 public:
  BlockListBuilder::Write write() {
    return [this](uint64_t offset, std::span<const std::byte> bytes) -> Result<void> {
      text.resize(std::max<size_t>(text.size(), offset + bytes.size()));
      std::memcpy(&text[offset], bytes.data(), bytes.size());
      return {};
    };
  }
  std::string text;
};

Copied expected_list(const std::string& bytes) {
  TextSink sink;
  BlockListBuilder builder(bytes.size(), sink.write());
  EXPECT_TRUE(builder.add(std::as_bytes(std::span(bytes))));
  const auto digest = builder.finish();
  return {sink.text, digest ? std::optional(*digest) : std::nullopt};
}

// A cached blob of which nothing may be read.
class UnreadBlob final : public Source {
 public:
  UnreadBlob(const Digest& digest, uint64_t size) : digest_(digest), size_(size) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t, std::span<std::byte>) const override {
    ADD_FAILURE() << "the blob is read";
    return size_t{0};
  }
  std::string identity() const override { return "sha256 " + digest_.hex(); }

 private:
  const Digest digest_;
  const uint64_t size_;
};

class BlockListsTest : public StoreDirectory {
 protected:
  BlockListsTest() {
    bytes = some_bytes(3 * kMiB + 5);
    member = test_producer(bytes);
  }
  BlobStorePtr opened(std::optional<uint64_t> quota = kQuota) {
    StoreOptions options{directory, quota, [this](const std::string& line) {
                           const std::scoped_lock lock(mutex);
                           log.push_back(line);
                         }};
    options.fetching.http = std::make_shared<http::Client>(http::Options());
    options.fetching.options = quick_retries();
    return blob_store(std::move(options));
  }
  std::string download(const std::string& right) {
    const auto store = opened();
    const auto found = store->resolve_from({.name = "model", .digest = sha256(right), .size = right.size()},
                                           {{server.url("/blob"), http::Trust::user}});
    if (!found) return "error: " + found.error().message;
    const auto fetched = found->verified->prefetch({0, right.size()});
    return fetched ? read(*found->verified) : "error: " + fetched.error().message;
  }
  // Decodes the member, whose digest is known.
  std::string decode(std::optional<uint64_t> quota = kQuota) {
    BlobProducer producer = producer_of(member, "zip");
    producer.digest = sha256(bytes);
    return read(*opened(quota)->blob(producer));
  }
  Copied copied() {
    TextSink sink;
    const auto digest = opened()->copy_block_list(UnreadBlob(sha256(bytes), bytes.size()), sink.write());
    EXPECT_TRUE(digest) << (digest ? "" : digest.error().message);
    return {sink.text, digest ? *digest : std::nullopt};
  }
  std::vector<std::string> lists() const { return files_in(directory + "/v1/lists"); }
  std::string list_at() const { return fmt::format("{}/v1/lists/{}", directory, sha256(bytes).hex()); }
  static std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  static void put(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }

  std::string served;
  HttpServer server{[this](const SeenRequest& request, Wire& wire) { serve_file(request, wire, served); }};
};

// docs/design/caching.md
TEST_F(BlockListsTest, DownloadedBlobHasItsList) {
  for (const uint64_t size : {kMiB + 1, 3 * kMiB + 5, 9 * kMiB}) {  // the last one is read by ranges
    served = bytes = some_bytes(size);
    ASSERT_EQ(download(bytes), describe(bytes));
    const Copied expected = expected_list(bytes);
    EXPECT_EQ(describe(content(list_at())), describe(expected.list));
    const Copied copy = copied();
    EXPECT_EQ(digits(copy.digest), digits(expected.digest));
    EXPECT_EQ(describe(copy.list), describe(expected.list));
  }
  EXPECT_THAT(making_files(), IsEmpty());
  EXPECT_THAT(log, IsEmpty());
}

TEST_F(BlockListsTest, DecodedBlobOfKnownDigestHasItsList) {
  ASSERT_EQ(decode(), describe(bytes));
  EXPECT_EQ(describe(content(list_at())), describe(expected_list(bytes).list));
  EXPECT_THAT(making_files(), IsEmpty());
}

TEST_F(BlockListsTest, SmallBlobHasNone) {
  served = bytes = some_bytes(kMiB);
  ASSERT_EQ(download(bytes), describe(bytes));
  EXPECT_THAT(lists(), IsEmpty());
  EXPECT_EQ(digits(copied().digest), "none");
}

TEST_F(BlockListsTest, WrongDownloadLeavesNoList) {
  served = some_bytes(bytes.size(), 7);
  EXPECT_THAT(download(bytes), HasSubstr("digest mismatch"));
  EXPECT_THAT(lists(), IsEmpty());
  EXPECT_THAT(making_files(), IsEmpty());
}

TEST_F(BlockListsTest, DamagedListIsRemovedAndTheBlobStays) {
  ASSERT_EQ(decode(), describe(bytes));
  const std::string right = content(list_at());
  std::vector<std::string> damaged = {"",
                                      right.substr(0, 100),
                                      right.substr(0, 256),
                                      right.substr(0, right.size() - 1),
                                      right + '\0',
                                      expected_list(some_bytes(2 * kMiB)).list};
  for (const size_t at : {size_t{0}, size_t{9}, size_t{20}, size_t{300}, right.size() / 2, right.size() - 1}) {
    damaged.push_back(right);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 4);
  }
  for (const std::string& list : damaged) {
    put(list_at(), list);
    log.clear();
    EXPECT_EQ(digits(copied().digest), "none");
    EXPECT_THAT(lists(), IsEmpty());
    EXPECT_THAT(log, ElementsAre(HasSubstr("block list of " + sha256(bytes).hex())));
  }
  EXPECT_EQ(decode(), describe(bytes));
  EXPECT_EQ(member->starts, 1);
}

TEST_F(BlockListsTest, FailureToWriteTheCopyKeepsTheList) {
  ASSERT_EQ(decode(), describe(bytes));
  const auto full = [](uint64_t, std::span<const std::byte>) -> Result<void> { return failure(Code::io, "disk full"); };
  const auto copy = opened()->copy_block_list(UnreadBlob(sha256(bytes), bytes.size()), full);
  ASSERT_FALSE(copy);
  EXPECT_EQ(copy.error().message, "disk full");
  EXPECT_EQ(describe(content(list_at())), describe(expected_list(bytes).list));
}

TEST_F(BlockListsTest, ListIsRemovedWithItsBlob) {
  ASSERT_EQ(decode(), describe(bytes));
  EXPECT_EQ(CacheMaintenance(directory).remove_all(PinnedBlobs::remove)->blobs, 1U);
  EXPECT_THAT(lists(), IsEmpty());
  ASSERT_EQ(decode(), describe(bytes));
  ASSERT_THAT(lists(), testing::SizeIs(1));
  std::filesystem::remove(fmt::format("{}/{}", directory, blob_path(bytes)));
  std::ignore = CacheMaintenance(directory).collect(std::nullopt);
  EXPECT_THAT(lists(), IsEmpty());
}

TEST_F(BlockListsTest, ListsCountTowardsTheQuotaAndEvictNothing) {
  ASSERT_EQ(decode(), describe(bytes));
  const auto inventory = CacheMaintenance(directory).inventory().value();
  const uint64_t list_size = content(list_at()).size();
  ASSERT_EQ(inventory.items.size(), 1U);
  EXPECT_GE(inventory.items[0].on_disk, bytes.size() + list_size);
  EXPECT_GE(inventory.on_disk, bytes.size() + list_size);
  std::filesystem::remove_all(directory);
  const uint64_t tight = allocated(bytes.size()) + list_size / 2 + 8192;
  EXPECT_EQ(decode(tight), describe(bytes));
  EXPECT_THAT(blobs(), testing::SizeIs(1));
  EXPECT_THAT(lists(), IsEmpty());
  EXPECT_THAT(making_files(), IsEmpty());
}

// A process is killed after it has published a blob, before its list.
TEST_F(BlockListsTest, KilledBeforeTheListLeavesAValidBlobWithoutOne) {
  Child child([&] {
    const auto backend = std::make_shared<store::DiskBackend>(directory, kQuota);
    const store::BlobName name{sha256(bytes).hex(), "", sha256(bytes)};
    const auto file = written_blob(*backend, name, bytes);
    if (file == nullptr) return 1;
    const auto list = backend->start_list(bytes.size());
    if (list == nullptr) return 2;
    list->add(std::as_bytes(std::span(bytes)));
    if (!backend->publish_blocks(file, name, sha256(bytes))) return 3;
    return ::raise(SIGKILL);
  });
  ASSERT_EQ(child.wait(), 128 + SIGKILL);
  EXPECT_THAT(making_files(), ElementsAre(testing::StartsWith("making/list-")));
  EXPECT_EQ(digits(copied().digest), "none");
  EXPECT_THAT(making_files(), IsEmpty());
  EXPECT_THAT(lists(), IsEmpty());
  const auto checked = CacheMaintenance(directory).verify({});
  ASSERT_TRUE(checked);
  EXPECT_EQ(checked->blobs.valid, 1U);
  EXPECT_EQ(decode(), describe(bytes));
  EXPECT_THAT(log, IsEmpty());
}

}  // namespace
}  // namespace weightfs::test::side_files_test
