// fs-verity of cached blobs, with a replacement of the ioctl: few kernels and file systems have it.
#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>

#include "cache/blobs/resolve.h"
#include "cache/core/store_core.h"
#include "cache/store/disk_backend.h"
#include "tests/cache/fetch_fixture.h"
#include "tests/cache/store_fixture.h"

namespace weightfs::test::cache_verity_test {
namespace {

using fetch_fixture::quick_retries;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kMiB = 1024 * 1024;
constexpr uint64_t kQuota = 100 << 20;

// Whether a descriptor of this process can write to the file that is open as `fd`.
bool has_writer(int fd) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return true;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int other = std::stoi(entry.path().filename());
    struct stat status {};
    const bool is_same = ::fstat(other, &status) == 0 && status.st_ino == file.st_ino && status.st_dev == file.st_dev;
    if (is_same && (::fcntl(other, F_GETFL) & O_ACCMODE) != O_RDONLY) return true;
  }
  return false;
}

class CacheVerityTest : public StoreDirectory {
 protected:
  CacheVerityTest() { bytes = some_bytes(3 * kMiB); }

  // Records the sizes of the files, and refuses all after the first `most`.
  EnableVerity recorded(size_t most = SIZE_MAX) {
    return [this, most](int fd) {
      struct stat file {};
      EXPECT_EQ(::fstat(fd, &file), 0);
      EXPECT_FALSE(has_writer(fd)) << "a file of " << file.st_size << " bytes";
      const std::scoped_lock lock(mutex);
      sizes.push_back(static_cast<uint64_t>(file.st_size));
      changed.notify_all();
      return sizes.size() <= most;
    };
  }
  std::shared_ptr<store::DiskBackend> backend(EnableVerity enable, uint64_t quota = kQuota) {
    return std::make_shared<store::DiskBackend>(
        directory, quota, Recheck::read, [this](const std::string& line) { log.push_back(line); }, std::move(enable));
  }
  // Publishes a blob of this backend.
  store::BlobHandle publish(store::BlobBackend& in, const std::string& blob) {
    const store::BlobName name{"digest-" + sha256(blob).hex(), "", sha256(blob)};
    const auto file = written_blob(in, name, blob);
    if (file == nullptr) return {};
    return in.publish_blocks(file, name, sha256(blob)).value_or(store::BlobHandle{});
  }
  std::string content(const store::BlobHandle& handle) const {
    std::string out(bytes.size(), '?');
    const auto done = handle.range->read(0, std::as_writable_bytes(std::span(out)));
    return done ? describe(out) : "error: " + done.error().message;
  }
  std::shared_ptr<blobs::StoreCore> core(const store::BlobBackendPtr& in) const {
    StoreOptions options;
    options.fetching.http = std::make_shared<http::Client>(http::Options());
    options.fetching.options = quick_retries();
    return std::make_shared<blobs::StoreCore>(in, std::move(options));
  }
  // Until fs-verity was tried for the probe and a blob.
  std::vector<uint64_t> tried() {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return sizes.size() >= 2; }));
    return sizes;
  }

  std::vector<uint64_t> sizes;
  std::condition_variable changed;
};

// docs/design/caching.md
TEST_F(CacheVerityTest, IsEnabledForDownloadedBlobWithoutWriters) {
  for (const uint64_t size : {3 * kMiB, 9 * kMiB}) {  // the second is read by ranges
    sizes.clear();
    bytes = some_bytes(size);
    HttpServer server([&](const SeenRequest& request, Wire& wire) { serve_file(request, wire, bytes); });
    const auto live = std::make_shared<blobs::LiveBlobs>(core(backend(recorded())));
    const auto blob = blobs::resolve_blob(live, {.name = "model", .digest = sha256(bytes), .size = size},
                                          {{server.url("/blob"), http::Trust::user}});
    ASSERT_TRUE(blob) << blob.error().message;
    EXPECT_EQ(read(*blob->verified), describe(bytes));
    EXPECT_THAT(tried(), ElementsAre(0, size));
    EXPECT_EQ(read(*blob->verified), describe(bytes));
    live->stop();
  }
}

TEST_F(CacheVerityTest, IsEnabledForDecodedBlobWithoutWriters) {
  const auto store = core(backend(recorded()));
  member = test_producer(bytes);
  const BlobProducer producer = producer_of(member, "zip");
  const auto in_flight = store->decodings().find_or_start(producer, store->name_of(producer));
  ASSERT_TRUE(in_flight) << in_flight.error().message;
  EXPECT_EQ((*in_flight)->wait().phase, blobs::InFlightBlob::Phase::finished);
  EXPECT_THAT(tried(), ElementsAre(0, bytes.size()));
  store->stop();
}

TEST_F(CacheVerityTest, FileSystemWithoutItIsProbedOnce) {
  const auto in = backend(recorded(0));
  for (uint32_t seed = 1; seed < 4; ++seed) {
    const std::string blob = some_bytes(2 * kMiB, seed);
    ASSERT_TRUE(publish(*in, blob));
    in->enable_verity(sha256(blob));
  }
  EXPECT_THAT(sizes, ElementsAre(0));
  EXPECT_THAT(making_files(), IsEmpty());
  EXPECT_THAT(log, IsEmpty());
}

TEST_F(CacheVerityTest, FailureForABlobHasNoEffect) {
  const auto in = backend(recorded(1));
  const auto handle = publish(*in, bytes);
  ASSERT_TRUE(handle);
  in->enable_verity(sha256(bytes));
  EXPECT_THAT(sizes, ElementsAre(0, bytes.size()));
  EXPECT_EQ(content(handle), describe(bytes));
  EXPECT_THAT(log, IsEmpty());
}

TEST_F(CacheVerityTest, SmallAndMissingBlobsAreLeft) {
  const auto in = backend(recorded());
  const std::string small = some_bytes(kMiB);
  ASSERT_TRUE(publish(*in, small));
  in->enable_verity(sha256(small));
  in->enable_verity(sha256("missing"));
  EXPECT_THAT(sizes, ElementsAre(0));
}

TEST_F(CacheVerityTest, IsNotEnabledWithoutSpaceForTheTree) {
  const auto in = backend(recorded(), allocated(bytes.size()) + 24'000);
  ASSERT_TRUE(publish(*in, bytes));
  in->enable_verity(sha256(bytes));
  EXPECT_THAT(sizes, ElementsAre(0));
  EXPECT_THAT(blobs(), testing::SizeIs(1));
}

// Whatever this kernel and file system support.
TEST_F(CacheVerityTest, BlobIsReadAfterTheSystemCall) {
  const auto in = backend(enable_fs_verity);
  ASSERT_TRUE(publish(*in, bytes));
  in->enable_verity(sha256(bytes));
  const auto handle = in->find({"digest-" + sha256(bytes).hex(), "", sha256(bytes)}, bytes.size());
  ASSERT_TRUE(handle);
  EXPECT_EQ(content(handle), describe(bytes));
}

}  // namespace
}  // namespace weightfs::test::cache_verity_test
