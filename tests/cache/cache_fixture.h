// A cache directory with blobs and partial downloads created by hand.
#pragma once

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/files/file_io.h"
#include "base/os/descriptor.h"
#include "cache/disk_quota.h"
#include "tests/cache/test_producer.h"
#include "tests/support/temporary.h"

namespace weightfs::test {

constexpr size_t kBlobSize = 50'000;

/// Seconds since the epoch.
inline timespec at_second(time_t seconds) { return {seconds, 0}; }

class CacheFolders : public testing::Test {
 protected:
  FoldersPtr folders() const { return open_folders(directory, Missing::create).value(); }

  std::string write(const std::string& path, std::string_view bytes) const {
    folders();
    return temporary.write("cache/v1/" + path, bytes);
  }
  std::string blob_at(const Digest& digest) const { return directory + "/v1/blobs/" + blob_file(digest); }

  /// Creates a blob with an index link, and with that time of last use.
  Digest add_blob(uint32_t seed, time_t used = 1000) const {
    const std::string bytes = some_bytes(kBlobSize, seed);
    const Digest digest = sha256(bytes);
    set_time(write("blobs/" + blob_file(digest), bytes), used);
    link(fmt::format("key {}", seed), digest);
    return digest;
  }
  /// Creates a partial download of which kBlobSize bytes are present.
  Digest add_partial(uint32_t seed, time_t written) const {
    const Digest digest = sha256(fmt::format("complete file of the partial download {}", seed));
    const std::string bytes = some_bytes(kBlobSize, seed);
    EXPECT_TRUE(open_partial(digest)->write(0, std::as_bytes(std::span(bytes))));
    set_time(part_at(digest), written);
    return digest;
  }
  std::string part_at(const Digest& digest) const {
    return directory + "/v1/" + blocks_file(sha256(store::blob_identity(digest, kBlobSize)));
  }
  store::BlockFilePtr open_partial(const Digest& digest) const {
    folders();
    std::filesystem::create_directories(directory + "/v1/blocks");
    store::BlockFile::Space space{[](int, uint64_t, uint64_t) { return Result<void>(); },
                                  [](int, uint64_t, store::Eviction) { return Result<void>(); }};
    const std::string identity = store::blob_identity(digest, kBlobSize);
    return store::BlockFile::open(*folders()->root, blocks_file(sha256(identity)), kBlobSize, identity, space).value();
  }
  /// Opens it like its downloader.
  store::BlockFilePtr open_held(const Digest& digest) const {
    store::BlockFilePtr file = open_partial(digest);
    EXPECT_TRUE(file->hold());
    return file;
  }

  void link(const std::string& key, const Digest& digest) const {
    const FoldersPtr open = folders();
    ASSERT_EQ(::symlinkat(digest.hex().c_str(), open->index->number(), index_link(key).c_str()), 0);
  }
  std::string link_at(const std::string& key) const { return directory + "/v1/index/" + index_link(key); }

  static void set_time(const std::string& path, time_t seconds) {
    const timespec times[2] = {at_second(seconds), at_second(seconds)};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0) << path;
  }

  /// Opens and locks the file like its writer.
  static SharedDescriptor open_locked(const std::string& path) {
    auto file = std::make_shared<const Descriptor>(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_TRUE(try_lock(file->number())) << path;
    return file;
  }

  std::optional<uint64_t> ledger_bytes() const { return store::QuotaLedger::lock(*folders(), {}).value().read(); }
  /// The disk space in use, except the lock file.
  uint64_t disk_usage() const { return allocated_in(directory) - allocated_at(directory + "/v1/lock"); }

  std::vector<std::string> blobs() const { return files_in(directory + "/v1/blobs"); }
  std::vector<std::string> making_files() const { return files_in(directory + "/v1/making"); }
  /// The data of ranges and partial downloads; each has a map beside it.
  std::vector<std::string> block_files() const { return data_files(directory); }
  std::vector<std::string> links() const { return files_in(directory + "/v1/index"); }

  TemporaryDirectory temporary;
  std::string directory = temporary.path("cache");

 private:
  static uint64_t allocated_at(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 ? static_cast<uint64_t>(status.st_blocks) * 512 : 0;
  }
};

}  // namespace weightfs::test
