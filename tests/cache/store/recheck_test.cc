// Damaged cached blobs are detected by reads, before wrong bytes are served.
#include "cache/store/recheck.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/files/leaf.h"
#include "cache/blob_store.h"
#include "cache/maintenance.h"
#include "cache/store/disk_backend.h"
#include "tests/cache/store_fixture.h"

namespace weightfs::test::recheck_test {
namespace {

using namespace store;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

constexpr size_t kLarge = 3'000'000;

class RecheckTest : public StoreDirectory {
 protected:
  RecheckTest() { keep(kLarge); }

  // Changes the member to this size and caches it.
  void keep(size_t size) {
    std::filesystem::remove_all(directory);
    bytes = some_bytes(size);
    member = test_producer(bytes);
    ASSERT_EQ(read(*opened()->blob(producer_of(member, "zip"))), describe(bytes));
    ASSERT_EQ(member->starts, 1);
  }
  BlobStorePtr opened(bool compares_digests = false) {
    StoreOptions options{directory, 100 << 20, [this](const std::string& line) {
                           const std::scoped_lock lock(mutex);
                           log.push_back(line);
                         }};
    options.compares_digests = compares_digests;
    return blob_store(std::move(options));
  }
  std::string blob_at() const { return fmt::format("{}/{}", directory, blob_path(bytes)); }
  std::string sums_at() const { return fmt::format("{}/v1/sums/{}", directory, sha256(bytes).hex()); }
  static void flip(const std::string& path, off_t offset) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    char byte = 0;
    ASSERT_EQ(::pread(fd, &byte, 1, offset), 1);
    byte = static_cast<char>(byte ^ 4);
    ASSERT_EQ(::pwrite(fd, &byte, 1, offset), 1);
    ::close(fd);
  }
  // The result of reading with a new store, and how often the member was decoded.
  std::string reread(bool compares_digests = false) {
    return read(*opened(compares_digests)->blob(producer_of(member, "zip")));
  }
};

TEST_F(RecheckTest, FlippedByteIsReportedOnceAndBlobRebuilt) {
  for (const off_t at : {0, 65'535, 65'536, 1'500'000, 2'999'999}) {
    log.clear();
    member->starts = 0;
    flip(blob_at(), at);
    EXPECT_EQ(reread(), describe(bytes)) << at;
    EXPECT_EQ(member->starts, 1);
    EXPECT_THAT(log, ElementsAre(HasSubstr("is damaged; removed")));
    EXPECT_EQ(reread(), describe(bytes));
    EXPECT_EQ(member->starts, 1);
    EXPECT_THAT(log, SizeIs(1));
  }
}

TEST_F(RecheckTest, SmallBlobIsComparedWithDigest) {
  keep(200'000);
  EXPECT_FALSE(std::filesystem::exists(sums_at()));
  flip(blob_at(), 100'000);
  EXPECT_EQ(reread(), describe(bytes));
  EXPECT_EQ(member->starts, 2);
  EXPECT_THAT(log, ElementsAre(HasSubstr("digest mismatch: found")));
}

TEST_F(RecheckTest, OnlyDamagedBlockFailsWhileBlobIsOpen) {
  const auto store = opened();
  const auto blob = store->blob(producer_of(member, "zip"));
  flip(blob_at(), 2'000'000);
  EXPECT_EQ(read(*blob, 70'000, 10), describe(bytes.substr(70'000, 10)));
  EXPECT_THAT(log, IsEmpty());
  EXPECT_EQ(read(*blob, 1'999'990, 20), describe(bytes.substr(1'999'990, 20)));
  EXPECT_THAT(log, SizeIs(1));
  EXPECT_EQ(member->starts, 2);
}

TEST_F(RecheckTest, MissingChecksumsAreComputedOnceAndSaved) {
  std::filesystem::remove(sums_at());
  EXPECT_EQ(reread(), describe(bytes));
  EXPECT_TRUE(std::filesystem::exists(sums_at()));
  std::filesystem::remove(sums_at());
  flip(blob_at(), 1'000'000);
  EXPECT_EQ(reread(), describe(bytes));
  EXPECT_EQ(member->starts, 2);
  EXPECT_TRUE(std::filesystem::exists(sums_at()));
}

TEST_F(RecheckTest, DamagedChecksumsAreIgnored) {
  flip(sums_at(), 100);
  EXPECT_EQ(reread(), describe(bytes));
  EXPECT_THAT(log, IsEmpty());
  EXPECT_EQ(member->starts, 1);
  ASSERT_EQ(::truncate(sums_at().c_str(), 50), 0);
  EXPECT_EQ(reread(), describe(bytes));
  EXPECT_EQ(std::filesystem::file_size(sums_at()), map_size(kLarge));
  EXPECT_EQ(std::filesystem::file_size(sums_at()), map_size(kLarge));
}

// The checksums match the modified blob: a user who can write to the cache can forge both.
TEST_F(RecheckTest, DigestIsComparedWhateverTheChecksumsSay) {
  flip(blob_at(), 1'000'000);
  std::string wrong = bytes;
  wrong[1'000'000] = static_cast<char>(wrong[1'000'000] ^ 4);
  constexpr uint64_t kDamaged = 1'000'000 / kBlock;
  const MapEntry entry = entry_of(std::as_bytes(std::span(wrong)).subspan(kDamaged * kBlock, kBlock));
  const Descriptor map(::open(sums_at().c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(write_entries(map.number(), kDamaged, std::span(&entry, 1)));
  EXPECT_EQ(reread(false), describe(wrong));
  EXPECT_EQ(reread(true), describe(bytes));
  EXPECT_EQ(member->starts, 2);
}

TEST_F(RecheckTest, ChecksumsAreRemovedWithBlob) {
  ASSERT_TRUE(std::filesystem::exists(sums_at()));
  EXPECT_EQ(CacheMaintenance(directory).remove_all(PinnedBlobs::remove)->blobs, 1U);
  EXPECT_FALSE(std::filesystem::exists(sums_at()));
  keep(kLarge);
  std::filesystem::remove(blob_at());
  std::ignore = CacheMaintenance(directory).collect(std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(sums_at()));
}

TEST_F(RecheckTest, ChecksumsCountTowardsQuota) {
  EXPECT_GE(CacheMaintenance(directory).inventory()->on_disk, std::filesystem::file_size(sums_at()) + kLarge);
  std::filesystem::remove_all(directory);
  constexpr uint64_t kTight = 3'020'000;  // the blob and its link, but not its checksums
  EXPECT_EQ(read(*store(kTight)->blob(producer_of(member, "zip"))), describe(bytes));
  EXPECT_THAT(this->blobs(), SizeIs(0));
  constexpr uint64_t kEnough = 3'040'000;
  EXPECT_EQ(read(*store(kEnough)->blob(producer_of(member, "zip"))), describe(bytes));
  EXPECT_THAT(this->blobs(), SizeIs(1));
  EXPECT_TRUE(std::filesystem::exists(sums_at()));
  EXPECT_LE(allocated_in(directory), kEnough);
}

// The bytes of the whole file of the member, or the reason why there is none.
std::string whole_file(const Source& blob) {
  const auto file = open_whole_file(blob);
  if (!file) return "error: " + file.error().message;
  EXPECT_EQ(::fcntl(file->number(), F_GETFL) & O_ACCMODE, O_RDONLY);
  std::string all(blob.size() + 1, '?');
  const ssize_t got = ::pread(file->number(), all.data(), all.size(), 0);
  all.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return all;
}

// As a disk, or fs-verity, reports a damaged block: page 0 of a process cannot be read (proc(5)).
TEST_F(RecheckTest, BlobThatCannotBeReadIsReportedAsDamaged) {
  const auto unreadable = std::make_shared<const Descriptor>(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(*unreadable);
  constexpr size_t kSize = 200'000;
  for (const bool compares_digests : {false, true}) {
    keep(kSize);
    log.clear();
    const auto backend = std::make_shared<DiskBackend>(directory, std::nullopt, compares_digests,
                                                       [this](const std::string& line) { log.push_back(line); });
    struct stat status {};
    ASSERT_EQ(::stat(blob_at().c_str(), &status), 0);
    RecheckedFile file(backend->keeper_of(sha256(bytes), status.st_ino), sha256(bytes), kSize);
    std::string out(kSize, '?');
    const auto read = file.read({unreadable, nullptr}, 0, std::as_writable_bytes(std::span(out)));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Code::io);
    EXPECT_THAT(log, ElementsAre("cached blob " + sha256(bytes).hex() +
                                 ": cannot read a cached blob: Input/output error; removed"));
  }
}

// semantics 10.8
TEST_F(RecheckTest, WholeFileIsOpenedAfterAllBlocksWereCompared) {
  for (const bool compares_digests : {false, true}) {
    const BlobStorePtr reopened = opened(compares_digests);
    EXPECT_TRUE(whole_file(*reopened->blob(producer_of(member, "zip"))) == bytes);
  }
  EXPECT_EQ(member->starts, 1);
}

TEST_F(RecheckTest, WholeFileWithDamagedBlockIsNotOpened) {
  for (const bool compares_digests : {false, true}) {
    flip(blob_at(), 1'500'000);
    const BlobStorePtr reopened = opened(compares_digests);
    EXPECT_THAT(whole_file(*reopened->blob(producer_of(member, "zip"))), HasSubstr("cached blob"));
    EXPECT_EQ(read(*reopened->blob(producer_of(member, "zip"))), describe(bytes)) << "decoded again";
  }
  EXPECT_EQ(member->starts, 3);
}

TEST_F(RecheckTest, OpeningWholeFileDoesNotWaitForTheDisk) {
  const int fd = ::open(blob_at().c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ::fdatasync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  std::byte byte{};
  const iovec part{&byte, 1};
  const bool has_left_memory = ::preadv2(fd, &part, 1, 1'500'000, RWF_NOWAIT) != 1;
  ::close(fd);
  if (!has_left_memory) GTEST_SKIP() << "the file system keeps the pages in memory";
  const auto blob = opened()->blob(producer_of(member, "zip"));
  EXPECT_EQ(whole_file(*blob), "error: not all blocks are compared yet");
  EXPECT_EQ(read(*blob), describe(bytes));
  EXPECT_TRUE(whole_file(*blob) == bytes);
}

TEST_F(RecheckTest, WholeFileOfMissingOrUncachedBlobIsNotOpened) {
  EXPECT_EQ(whole_file(*opened()->blob(producer_of(test_producer("other" + bytes), "other"))), "error: not cached");
  const BlobStorePtr without_directory = blob_store({"", 100 << 20, {}});
  const auto blob = without_directory->blob(producer_of(member, "zip"));
  EXPECT_EQ(read(*blob), describe(bytes));
  EXPECT_THAT(whole_file(*blob), StartsWith("error: "));
}

// As a crash of the machine leaves a map that was not flushed: the blob is hashed, once, and not produced again.
TEST_F(RecheckTest, BlobWhoseMapLacksABlockIsHashedOnce) {
  const MapEntry absent;
  {
    const Descriptor map(::open(sums_at().c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(write_entries(map.number(), 5, std::span(&absent, 1)));
  }
  EXPECT_EQ(reread(), describe(bytes));
  EXPECT_EQ(member->starts, 1);
  const Descriptor map(::open(sums_at().c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(read_entries(map.number(), 5, 1).value().front(),
            entry_of(std::as_bytes(std::span(bytes)).subspan(5 * kBlock, kBlock)));
}

}  // namespace
}  // namespace weightfs::test::recheck_test
