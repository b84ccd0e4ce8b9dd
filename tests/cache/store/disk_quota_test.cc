// The quota of a store, full disks, and cache directories that cannot be written.
#include "cache/disk_quota.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/os/descriptor.h"
#include "cache/blob_store.h"
#include "cache/maintenance.h"
#include "cache/store/file_range.h"
#include "cache/store/inventory.h"
#include "tests/cache/cache_fixture.h"
#include "tests/cache/child_process.h"
#include "tests/cache/store_fixture.h"

namespace weightfs::test::disk_quota_test {
namespace {

using namespace store;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class DiskQuotaTest : public StoreDirectory {
 protected:
  // Materializes the blob of this seed in a new store. Returns its path below blobs/.
  std::string materialize(uint32_t seed, std::optional<uint64_t> quota) {
    const TestProducerPtr made = test_producer(some_bytes(kMember, seed));
    EXPECT_EQ(read(*store(quota)->blob(producer_of(made, fmt::format("zip {}", seed)))), describe(made->bytes));
    return blob_path(made->bytes).substr(std::string("v1/blobs/").size());
  }
  // Sets the last use of a blob, in seconds since the epoch.
  void set_last_use(const std::string& blob, time_t seconds) {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    for (const std::string& path : {directory + "/v1/blobs/" + blob, names_at(blob)})
      ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0) << path;
  }
  std::string names_at(const std::string& blob) const {
    return directory + "/v1/names/" + blob.substr(blob.find('/') + 1);
  }
  static time_t modified(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mtim.tv_sec;
  }
};

TEST_F(DiskQuotaTest, LeastRecentlyUsedBlobIsEvicted) {
  constexpr uint64_t kQuota = 1'100'000;  // space for three blobs
  const std::string first = materialize(1, kQuota);
  const std::string second = materialize(2, kQuota);
  const std::string third = materialize(3, kQuota);
  set_last_use(first, 3000);
  set_last_use(second, 1000);
  set_last_use(third, 2000);
  const std::string fourth = materialize(4, kQuota);
  EXPECT_THAT(blobs(), UnorderedElementsAre(first, third, fourth));
  EXPECT_THAT(files_in(directory + "/v1/index"), SizeIs(3));  // no dangling link
  EXPECT_THAT(log, IsEmpty());
}

TEST_F(DiskQuotaTest, ReadingUpdatesLastUse) {
  constexpr uint64_t kQuota = 1'100'000;
  const std::string first = materialize(1, kQuota);
  const std::string second = materialize(2, kQuota);
  const std::string third = materialize(3, kQuota);
  set_last_use(first, 1000);
  set_last_use(second, 2000);
  set_last_use(third, 3000);
  materialize(1, kQuota);
  const std::string fourth = materialize(4, kQuota);
  EXPECT_THAT(blobs(), UnorderedElementsAre(first, third, fourth));
}

// The sandbox refuses to set the times of files: the names of the blob are written again.
TEST_F(DiskQuotaTest, LastUseIsTheTimeOfTheNames) {
  const std::string blob = materialize(1, 1'100'000);
  const auto names = [&] {
    std::ifstream file(names_at(blob));
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string before = names();
  set_last_use(blob, 1000);
  materialize(1, 1'100'000);
  EXPECT_EQ(modified(directory + "/v1/blobs/" + blob), 1000);
  EXPECT_GT(modified(names_at(blob)), 1000);
  EXPECT_EQ(names(), before);
  std::filesystem::remove(names_at(blob));
  materialize(1, 1'100'000);
  EXPECT_GT(modified(names_at(blob)), 1000);
}

TEST_F(DiskQuotaTest, QuotaIsNeverExceeded) {
  constexpr uint64_t kQuota = 1'000'000;
  uint64_t most = 0;
  for (uint32_t i = 0; i < 12; ++i) {
    const TestProducerPtr made = test_producer(some_bytes(70'000 + i * 50'000, i));
    made->piece = 20'000;
    made->before = [&](size_t) { most = std::max(most, allocated_in(directory)); };
    EXPECT_EQ(read(*store(kQuota)->blob(producer_of(made, fmt::format("zip {}", i)))), describe(made->bytes));
    most = std::max(most, allocated_in(directory));
  }
  EXPECT_LE(most, kQuota + 4096);  // and the lock file's block
  EXPECT_GT(most, kQuota / 2);
}

// A killed process leaves an outdated ledger, and other programs may damage it.
TEST_F(DiskQuotaTest, CorruptLedgerIsRecounted) {
  constexpr uint64_t kQuota = 1'100'000;
  materialize(1, kQuota);
  materialize(2, kQuota);
  for (const std::string count : {"", "nonsense", "99999999999999999999999999999999999999999999999999999999\n"}) {
    std::filesystem::resize_file(directory + "/v1/lock", 0);
    std::ofstream(directory + "/v1/lock") << count;
    materialize(3, kQuota);
    std::filesystem::remove(directory + "/v1/blobs/" + materialize(3, kQuota));
  }
  EXPECT_THAT(blobs(), SizeIs(2));
  EXPECT_THAT(log, IsEmpty());
}

TEST_F(DiskQuotaTest, BlobLargerThanQuotaIsReadUncached) {
  const auto blob = store(200'000)->blob(producer_of(member, "zip 1"));
  EXPECT_EQ(read(*blob), describe(bytes));
  const BlobsPtr blobs = store(200'000);
  const auto another = blobs->blob(producer_of(member, "zip 1"));
  for (const size_t offset : {250'000UL, 100'000UL, 299'999UL, 0UL})
    EXPECT_EQ(read(*another, offset, 5000), describe(std::string_view(bytes).substr(offset, 5000)));
  EXPECT_THAT(this->blobs(), IsEmpty());
  EXPECT_THAT(making_files(), IsEmpty());
}

TEST_F(DiskQuotaTest, UncachedBlobIsVerified) {
  BlobProducer wrong = producer_of(member, "zip 1");
  wrong.digest = sha256("others");
  EXPECT_THAT(read(*store(200'000)->blob(wrong)), HasSubstr("expected " + sha256("others").hex()));
}

TEST_F(DiskQuotaTest, OverlargeBlobOfUnknownSizeIsReadUncached) {
  BlobProducer producer = producer_of(member, "tar.gz 1");
  producer.size = std::nullopt;
  const BlobsPtr blobs = store(200'000);
  const auto made = blobs->materialize(producer);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(read(**made), describe(bytes));
  EXPECT_THAT(this->blobs(), IsEmpty());
  EXPECT_THAT(log, SizeIs(1));
}

TEST_F(DiskQuotaTest, EachReasonIsLoggedOnce) {
  const BlobsPtr blobs = store(200'000);
  for (uint32_t i = 0; i < 3; ++i) {
    const TestProducerPtr made = test_producer(some_bytes(kMember, i));
    EXPECT_EQ(read(*blobs->blob(producer_of(made, fmt::format("zip {}", i)))), describe(made->bytes));
  }
  EXPECT_THAT(log, ElementsAre("cannot cache decoded data: larger than the cache's quota of 195.3 KiB; use a larger "
                               "--cache-size; each reader decodes it again"));
}

TEST_F(DiskQuotaTest, EvictedBlobIsReadableThroughOpenFiles) {
  constexpr uint64_t kQuota = 400'000;
  const auto blob = store(kQuota)->blob(producer_of(member, "zip 1"));
  EXPECT_EQ(read(*blob), describe(bytes));
  materialize(2, kQuota);
  EXPECT_EQ(read(*blob), describe(bytes));
}

TEST_F(DiskQuotaTest, EvictedBlobIsMaterializedAgain) {
  constexpr uint64_t kQuota = 400'000;
  const BlobsPtr blobs = store(kQuota);
  // materialize() of a blob of unknown size returns when all bytes are on disk.
  const auto made = [&](BlobProducer producer) {
    producer.size = std::nullopt;
    return blobs->materialize(producer).value();
  };
  const auto blob = made(producer_of(member, "zip 1"));
  const TestProducerPtr other = test_producer(some_bytes(kMember, 2));
  made(producer_of(other, "zip 2"));
  EXPECT_EQ(this->blobs(), std::vector{blob_path(other->bytes).substr(std::string("v1/blobs/").size())});
  const int before = member->starts;
  EXPECT_EQ(read(*blob), describe(bytes));
  EXPECT_EQ(member->starts, before + 1);
}

// The disk space of a deleted file is freed when no process has it open.
TEST_F(DiskQuotaTest, BlobEvictedByAnotherProcessIsClosedOnNextOpen) {
  const auto deleted = [&] {
    size_t count = 0;
    std::error_code closed;  // the iterator's own descriptor
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      const std::string path = std::filesystem::read_symlink(entry.path(), closed);
      count += path.starts_with(directory + "/v1/blobs/") && path.ends_with("(deleted)");
    }
    return count;
  };
  BlobProducer first = producer_of(member, "zip 1");
  first.size = std::nullopt;
  const TestProducerPtr other = test_producer(some_bytes(kMember, 2));
  BlobProducer second = producer_of(other, "zip 2");
  second.size = std::nullopt;
  ASSERT_TRUE(store()->materialize(first));
  const BlobsPtr blobs = store();
  ASSERT_TRUE(blobs->materialize(first));  // found
  std::filesystem::remove(directory + "/" + blob_path(bytes));
  EXPECT_EQ(deleted(), 1U);
  ASSERT_TRUE(blobs->materialize(second));
  EXPECT_EQ(deleted(), 0U);
}

TEST_F(DiskQuotaTest, FilesOfKilledProcessAreSweptByRunningStore) {
  constexpr uint64_t kQuota = 500'000;  // space for one blob
  const BlobsPtr blobs = store(kQuota);
  BlobProducer first = producer_of(member, "zip 1");
  first.size = std::nullopt;  // so that materialize() returns when all bytes are on disk
  ASSERT_TRUE(blobs->materialize(first));
  temporary.write("deep/cache/v1/making/left", some_bytes(kMember, 3));
  std::filesystem::resize_file(directory + "/v1/lock", 0);  // forces a recount
  const TestProducerPtr other = test_producer(some_bytes(kMember, 2));
  EXPECT_EQ(read(*blobs->blob(producer_of(other, "zip 2"))), describe(other->bytes));
  EXPECT_THAT(log, IsEmpty());
  EXPECT_THAT(making_files(), Not(Contains("making/left")));
}

TEST_F(DiskQuotaTest, HeldLockDoesNotBlockReaders) {
  EXPECT_EQ(read(*store()->blob(producer_of(member, "zip 1"))), describe(bytes));
  const TestProducerPtr other = test_producer(some_bytes(kMember, 2));
  const BlobsPtr blobs = store();
  const auto blob = blobs->blob(producer_of(other, "zip 2"));
  {
    const Descriptor lock(::open((directory + "/v1/lock").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::flock(lock.number(), LOCK_EX), 0);
    EXPECT_EQ(read(*blob), describe(other->bytes));
    EXPECT_THAT(log, ElementsAre(HasSubstr("v1/lock: locked by another process")));
    EXPECT_THAT(this->blobs(), SizeIs(1));
  }
  EXPECT_EQ(read(*blob), describe(other->bytes));
  EXPECT_EQ(read(*blob), describe(other->bytes));
  EXPECT_EQ(other->starts, 2);
}

TEST_F(DiskQuotaTest, UncachedBlobIsCachedOnceSpaceIsFree) {
  temporary.write("deep", "a file");
  const BlobsPtr blobs = store();
  const auto blob = blobs->blob(producer_of(member, "zip 1"));
  EXPECT_EQ(read(*blob, 0, 200'000), describe(bytes.substr(0, 200'000)));
  std::filesystem::remove(temporary.path("deep"));
  EXPECT_EQ(read(*blob, 200'000, 100'000), describe(bytes.substr(200'000)));  // continues the stream
  EXPECT_EQ(member->starts, 1);
  EXPECT_EQ(read(*blob), describe(bytes));  // restarts, and caches
  EXPECT_EQ(read(*blob), describe(bytes));
  EXPECT_EQ(member->starts, 2);
}

TEST_F(DiskQuotaTest, FileInPlaceOfDirectoryDisablesCache) {
  temporary.write("deep", "a file");
  const BlobsPtr blobs = store();
  EXPECT_EQ(read(*blobs->blob(producer_of(member, "zip 1"))), describe(bytes));
  EXPECT_EQ(read(*blobs->blob(producer_of(member, "zip 2"))), describe(bytes));
  EXPECT_THAT(log, ElementsAre(HasSubstr("Not a directory")));
}

TEST_F(DiskQuotaTest, DirectoryWritableByOthersIsRejected) {
  EXPECT_EQ(read(*store()->blob(producer_of(member, "zip 1"))), describe(bytes));
  std::filesystem::permissions(directory + "/v1", std::filesystem::perms::all);
  EXPECT_EQ(read(*store()->blob(producer_of(member, "zip 1"))), describe(bytes));
  EXPECT_EQ(member->starts, 2);
  EXPECT_THAT(log, ElementsAre(HasSubstr("writable by other users")));
}

// Exit statuses of child processes; kSkip if a requirement of the test is not met.
constexpr int kPass = 0;
constexpr int kSkip = 77;

int as_nobody(const std::function<int()>& work) {
  if (::geteuid() != 0) return work();
  return ::setgid(65534) == 0 && ::setuid(65534) == 0 ? work() : kSkip;
}

TEST_F(DiskQuotaTest, ReadOnlyCacheServesItsBlobsAndOthersUncached) {
  EXPECT_EQ(read(*store()->blob(producer_of(member, "zip 1"))), describe(bytes));
  const TestProducerPtr other = test_producer(some_bytes(kMember, 2));
  // All users can read the directory of the test and the store; none can write.
  std::filesystem::permissions(temporary.path(""), std::filesystem::perms(0555));
  std::filesystem::permissions(temporary.path("deep"), std::filesystem::perms(0555));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(temporary.path("deep")))
    if (!entry.is_symlink())
      std::filesystem::permissions(entry.path(), std::filesystem::perms(entry.is_directory() ? 0555 : 0444));
  Child child([&] {
    return as_nobody([&] {
      const BlobsPtr blobs = store();
      if (read(*blobs->blob(producer_of(member, "zip 1"))) != describe(bytes)) return 1;
      if (::geteuid() == 65534 && member->starts != 1) return 2;
      if (read(*blobs->blob(producer_of(other, "zip 2"))) != describe(other->bytes)) return 3;
      if (read(*blobs->blob(producer_of(other, "zip 2"))) != describe(other->bytes)) return 4;
      return log.size() == 1 ? kPass : 5;
    });
  });
  EXPECT_EQ(child.wait(), kPass);
  std::filesystem::permissions(temporary.path(""), std::filesystem::perms(0755));
  EXPECT_THAT(blobs(), SizeIs(1));
}

// Mounts a file system of 1 MiB in a mount namespace of the child.
int with_small_disk(const std::string& path, const std::function<int()>& work) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kSkip;
  if (::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=1m,mode=700") != 0) return kSkip;
  return work();
}

TEST_F(DiskQuotaTest, FullDiskEvictsOnceThenReadsUncached) {
  std::filesystem::create_directories(directory);
  Child child([&] {
    return with_small_disk(directory, [&] {
      for (uint32_t i = 0; i < 8; ++i) {
        const TestProducerPtr made = test_producer(some_bytes(kMember, i));
        const BlobsPtr blobs = store();
        if (read(*blobs->blob(producer_of(made, fmt::format("zip {}", i)))) != describe(made->bytes)) return 1;
      }
      if (!log.empty() || blobs().size() < 2) return 2;
      const TestProducerPtr large = test_producer(some_bytes(2'000'000));
      const BlobsPtr blobs = store();
      if (read(*blobs->blob(producer_of(large, "large"))) != describe(large->bytes)) return 3;
      BlobProducer unsized = producer_of(large, "unsized");
      unsized.size = std::nullopt;
      const auto made = blobs->materialize(unsized);
      if (!made || read(**made) != describe(large->bytes)) return 4;
      return log.size() == 1 && making_files().empty() ? kPass : 5;
    });
  });
  const int status = child.wait();
  if (status == kSkip) GTEST_SKIP() << "no file system can be mounted here";
  EXPECT_EQ(status, kPass);
}

// Without preallocation the disk can become full during a write. A limit on file sizes has the same effect.
TEST_F(DiskQuotaTest, DiskFullDuringWriteFallsBackToUncachedRead) {
  Child child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{150'000, 150'000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return kSkip;
    const BlobsPtr blobs = store();
    const auto blob = blobs->blob(producer_of(member, "zip 1"));
    if (read(*blob, 10'000, 5000) != describe(bytes.substr(10'000, 5000))) return 1;
    if (read(*blob) != describe(bytes)) return 2;
    BlobProducer unsized = producer_of(member, "unsized");
    unsized.size = std::nullopt;
    const auto made = blobs->materialize(unsized);
    if (!made || read(**made) != describe(bytes)) return 3;
    return log.size() == 1 && making_files().empty() && this->blobs().empty() ? kPass : 4;
  });
  const int status = child.wait();
  if (status == kSkip) GTEST_SKIP() << "no limit can be set here";
  EXPECT_EQ(status, kPass);
}

// Reservations by several processes, with partial downloads.
class DownloadQuotaTest : public CacheFolders {
 protected:
  // Reserves space for a file that grows to `size` bytes. Returns the error, if any.
  std::string reserve(const SharedDescriptor& file, uint64_t size, uint64_t quota) const {
    const auto reserved = DiskQuota(quota, [] {}).reserve(*folders(), file->number(), size, Eviction::allowed, {});
    return reserved ? "" : reserved.error().message;
  }
  // Reserves space for a new file.
  std::string reserve_new(uint64_t size, uint64_t quota) const {
    return reserve(open_locked(new_making_file()), size, quota);
  }
  std::string new_making_file() const { return write("making/key-1.0123456789abcdef", ""); }
  void pin(const Digest& digest) const { ASSERT_TRUE(add_pin(*folders(), digest).value()); }
  bool has_blob(const Digest& digest) const { return std::filesystem::exists(blob_at(digest)); }
  bool has_partial(const Digest& digest) const { return std::filesystem::exists(part_at(digest)); }

  const time_t now_ = ::time(nullptr);
};

// A file of 50,000 bytes has 13 blocks, 53,248 bytes. A new one counts three more blocks, for its map and its link.
TEST_F(DownloadQuotaTest, PartialDownloadsAreEvictedBeforeBlobsOldestFirst) {
  const Digest blob = add_blob(1, 1);  // the least recently used
  const Digest older = add_partial(2, now_ - 2000);
  const Digest newer = add_partial(3, now_ - 1000);
  const uint64_t quota = disk_usage() + 30'000;
  EXPECT_EQ(reserve_new(kBlobSize, quota), "");
  EXPECT_FALSE(has_partial(older));
  EXPECT_TRUE(has_partial(newer));
  EXPECT_TRUE(has_blob(blob));
  EXPECT_EQ(reserve_new(2 * kBlobSize, quota), "");
  EXPECT_FALSE(has_partial(newer));
  EXPECT_TRUE(has_blob(blob));
  EXPECT_THAT(making_files(), ElementsAre("key-1.0123456789abcdef"));
}

TEST_F(DownloadQuotaTest, DownloadOfAnotherProcessIsNotEvicted) {
  const Digest blob = add_blob(1);
  const Digest fetched = add_partial(2, now_ - 1000);
  const auto shared = shared_memory();
  Child fetching([&] {
    const BlockFilePtr part = open_held(fetched);
    ::sem_post(&shared->first);
    wait_for(shared->second);
    return 0;
  });
  wait_for(shared->first);
  EXPECT_EQ(reserve_new(kBlobSize, 150'000), "");
  EXPECT_TRUE(has_partial(fetched));
  EXPECT_FALSE(has_blob(blob));
  EXPECT_EQ(reserve_new(kBlobSize * 2, 150'000), "cache full: writes in progress use all of it");
  ::sem_post(&shared->second);
  EXPECT_EQ(fetching.wait(), 0);
  EXPECT_EQ(reserve_new(kBlobSize * 2, 150'000), "");
  EXPECT_FALSE(has_partial(fetched));
}

TEST_F(DownloadQuotaTest, PinnedBlobsAreNeverEvicted) {
  const Digest pinned = add_blob(1, 1000);
  const Digest other = add_blob(2, 2000);
  pin(pinned);
  EXPECT_EQ(reserve_new(kBlobSize, 150'000), "");
  EXPECT_TRUE(has_blob(pinned));
  EXPECT_FALSE(has_blob(other));
  EXPECT_EQ(reserve_new(kBlobSize * 2, 150'000), "cache full: pinned blobs leave no space");
  EXPECT_TRUE(has_blob(pinned));
  const SharedDescriptor active = open_locked(write("making/key-2.0123456789abcdef", some_bytes(kBlobSize)));
  EXPECT_EQ(reserve_new(kBlobSize, 150'000), "cache full: pinned blobs and writes in progress leave no space");
  EXPECT_TRUE(has_blob(pinned));
}

// A user who can write to pins/ could unpin all blobs.
TEST_F(DownloadQuotaTest, NothingIsEvictedWhenPinsAreUntrusted) {
  const Digest blob = add_blob(1);
  std::filesystem::create_directories(directory + "/v1/pins");
  std::filesystem::permissions(directory + "/v1/pins", std::filesystem::perms::all);
  EXPECT_THAT(reserve_new(kBlobSize, 100'000), HasSubstr("v1/pins: writable by other users"));
  EXPECT_TRUE(has_blob(blob));
}

// Caches of earlier versions have no pins/, and it cannot be created in a full or read-only cache.
TEST_F(DownloadQuotaTest, MissingPinDirectoryMeansNoPins) {
  const Digest blob = add_blob(1);
  EXPECT_EQ(reserve_new(kBlobSize, 100'000), "");
  EXPECT_FALSE(has_blob(blob));
  EXPECT_FALSE(std::filesystem::exists(directory + "/v1/pins"));
}

// The invariant of disk_quota.h, at each step of a download that is killed, resumed by others and published.
TEST_F(DownloadQuotaTest, ResumedDownloadIsNeverUndercounted) {
  constexpr uint64_t kQuota = 10 << 20;
  for (const bool ledger_is_lost : {false, true}) {
    SCOPED_TRACE(ledger_is_lost);
    const Digest digest = sha256(fmt::format("complete {}", ledger_is_lost));
    for (uint64_t block = 0; block * kBlock < kBlobSize; ++block) {
      // Each process is killed after one block.
      if (ledger_is_lost && block > 0) std::filesystem::resize_file(directory + "/v1/lock", 0);
      const BlockFilePtr file = open_partial(digest);
      ASSERT_EQ(reserve(file->files().data, kBlobSize + 4096, kQuota), "");  // with the map
      EXPECT_GE(ledger_bytes(), disk_usage());
      const std::string bytes = some_bytes(std::min(kBlock, kBlobSize - block * kBlock));
      ASSERT_TRUE(file->write(block, std::as_bytes(std::span(bytes))));
      EXPECT_GE(ledger_bytes(), disk_usage());
    }
    std::filesystem::create_directories(std::filesystem::path(blob_at(digest)).parent_path());
    std::filesystem::rename(part_at(digest), blob_at(digest));
    std::filesystem::remove(part_at(digest) + ".map");
    EXPECT_GE(ledger_bytes(), disk_usage());
  }
}

// A download that another process resumes needs only the space that is not allocated yet.
TEST_F(DownloadQuotaTest, ResumedDownloadReservesItsSpaceOnce) {
  const Digest digest = sha256("complete");
  const BlockFilePtr first = open_partial(digest);
  ASSERT_EQ(reserve(first->files().data, kBlobSize, 100'000), "");
  const BlockFilePtr second = open_held(digest);
  EXPECT_EQ(reserve(second->files().data, kBlobSize, 100'000), "");
  EXPECT_TRUE(has_partial(digest));
}

// Another process recounts before the reserved ranges are written.
TEST_F(DownloadQuotaTest, ReservedRangesAreCountedByAScan) {
  constexpr uint64_t kMiB = 1 << 20;
  DiskQuota quota(20 * kMiB, [] {});
  const SharedDescriptor file = open_locked(write("making/blocks-1.0123456789abcdef", ""));
  ASSERT_TRUE(quota.reserve_range(*folders(), file->number(), 8 * kMiB, 24 * kMiB, {}));
  ASSERT_TRUE(shrink(*folders(), UINT64_MAX));
  EXPECT_GE(ledger_bytes(), 16 * kMiB);
  const SharedDescriptor other = open_locked(write("making/blocks-2.0123456789abcdef", ""));
  const auto reserved = quota.reserve_range(*folders(), other->number(), 0, 16 * kMiB, {});
  ASSERT_FALSE(reserved);
  EXPECT_THAT(reserved.error().message, HasSubstr("cache full"));
}

// Another process recounts while a download has reserved space but has neither note nor link.
TEST_F(DownloadQuotaTest, IndexLinkIsCountedBeforeItExists) {
  const SharedDescriptor file = open_locked(write("making/key-2.0123456789abcdef", ""));
  ASSERT_EQ(reserve(file, kBlobSize, 10 << 20), "");
  std::filesystem::resize_file(directory + "/v1/lock", 0);
  const SharedDescriptor other = open_locked(new_making_file());
  ASSERT_EQ(reserve(other, kBlobSize, 10 << 20), "");
  EXPECT_GE(ledger_bytes(), disk_usage() + 2 * 4096);
  const uint64_t before = *ledger_bytes();
  const SharedDescriptor third = open_locked(write("making/key-3.0123456789abcdef", ""));
  ASSERT_EQ(reserve(third, kBlobSize, 10 << 20), "");
  EXPECT_EQ(ledger_bytes(), before + allocated(kBlobSize) + 3 * 4096);  // with the map
}

TEST_F(DownloadQuotaTest, ShrinkEvictsLeastRecentlyUsedUnpinnedBlobs) {
  const Digest first = add_blob(1, 3000);
  const Digest second = add_blob(2, 1000);
  const GcResult nothing = shrink(*folders(), UINT64_MAX).value();
  EXPECT_EQ(nothing.bytes, 0U);
  EXPECT_EQ(ledger_bytes(), disk_usage());
  const GcResult freed = shrink(*folders(), disk_usage() - 1).value();
  EXPECT_EQ(freed.blobs, 1U);
  EXPECT_GE(freed.bytes, kBlobSize);
  EXPECT_TRUE(has_blob(first));
  EXPECT_FALSE(has_blob(second));
  EXPECT_GE(ledger_bytes(), disk_usage());
}

using InventoryTest = CacheFolders;

TEST_F(InventoryTest, BlobPublishedDuringScanIsCountedOnce) {
  constexpr uint32_t kBlobs = 400;
  std::vector<Digest> digests;
  const auto making = [&](uint32_t i) { return fmt::format("{}/v1/making/{}.0123456789abcdef", directory, i); };
  for (uint32_t i = 0; i < kBlobs; ++i) {
    digests.push_back(add_partial(i, 1000));
    std::filesystem::create_directories(std::filesystem::path(blob_at(digests.back())).parent_path());
  }
  const FoldersPtr open = folders();
  const uint64_t used = scan_inventory(*open)->on_disk;
  std::atomic<bool> over = false;
  std::thread publishing([&] {
    for (uint32_t i = 0; i < kBlobs; ++i) {
      std::filesystem::rename(part_at(digests[i]), making(i));
      std::filesystem::rename(making(i), blob_at(digests[i]));
    }
    over = true;
  });
  while (!over) {
    const auto contents = scan_inventory(*open);
    EXPECT_EQ(contents->items.size() + contents->temporary_files, kBlobs);
    EXPECT_EQ(contents->on_disk, used);
  }
  publishing.join();
  EXPECT_EQ(usage_of(*scan_inventory(*open)).blobs, kBlobs);
}

}  // namespace
}  // namespace weightfs::test::disk_quota_test
