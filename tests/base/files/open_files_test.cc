// Files that are closed while others are used, and opened again.
#include "base/files/open_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/files/confined_directory.h"
#include "base/files/file_source.h"
#include "base/files/leaf.h"
#include "tests/support/temporary.h"

namespace weightfs::open_files_test {
namespace {

using testing::HasSubstr;

std::weak_ptr<const SharedFile> add_file(RecentFiles& files, int used) {
  auto file = std::make_shared<const SharedFile>(Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
  file->last_use = std::chrono::nanoseconds(used);
  files.add(file);
  return file;
}

TEST(RecentFiles, LeastRecentlyUsedIsClosed) {
  RecentFiles files(2);
  const auto first = add_file(files, 1);
  const auto second = add_file(files, 2);
  first.lock()->last_use = std::chrono::nanoseconds(3);
  const auto third = add_file(files, 4);
  EXPECT_FALSE(first.expired());
  EXPECT_TRUE(second.expired());
  EXPECT_FALSE(third.expired());
}

TEST(RecentFiles, FileInUseStaysOpen) {
  RecentFiles files(1);
  const SharedFilePtr used = add_file(files, 1).lock();
  add_file(files, 2);
  EXPECT_NE(::fcntl(used->number(), F_GETFD), -1);
}

TEST(RecentFiles, RemovedAndClearedFilesAreClosed) {
  RecentFiles files(2);
  const auto first = add_file(files, 1);
  const auto second = add_file(files, 2);
  files.remove(first.lock());
  EXPECT_TRUE(first.expired());
  EXPECT_FALSE(second.expired());
  EXPECT_TRUE(files.clear());
  EXPECT_TRUE(second.expired());
  EXPECT_FALSE(files.clear());
}

// Files of some pages that are in the page cache, with the number of the page in each byte.
class MapCached : public testing::Test {
 protected:
  static constexpr size_t kPage = 4096;
  static constexpr uint64_t kSize = 4 * kPage;

  void SetUp() override {
    if (!is_cached(file("probe"))) GTEST_SKIP() << "the file system has no RWF_NOWAIT";
  }

  SharedFilePtr file(const std::string& name, uint64_t size = kSize) {
    std::string bytes;
    for (uint64_t at = 0; at < size; at += kPage) bytes.append(kPage, static_cast<char>('0' + at / kPage % 10));
    const std::string path = here.write(name, bytes);
    return std::make_shared<const SharedFile>(Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
  }
  // The bytes, as a system call copies them; empty if they are not mapped.
  std::string text(const SharedFilePtr& file, uint64_t offset, uint64_t size) {
    const auto mapped = map_cached(*file, {offset, offset + size});
    return mapped ? copied(mapped->bytes) : "";
  }
  static std::string copied(std::span<const std::byte> bytes) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return "error";
    const Descriptor from(ends[0]);
    const Descriptor to(ends[1]);
    if (::write(to.number(), bytes.data(), bytes.size()) < 0) return ::strerrorname_np(errno);
    std::string out(bytes.size(), '?');
    out.resize(static_cast<size_t>(std::max<ssize_t>(::read(from.number(), out.data(), out.size()), 0)));
    return out;
  }
  static bool is_cached(const SharedFilePtr& file) {
    std::byte byte;
    const iovec to{&byte, 1};
    return ::preadv2(file->number(), &to, 1, 0, RWF_NOWAIT) == 1;
  }
  // How often the file is mapped in this process.
  size_t mappings(const std::string& name) const {
    std::ifstream maps("/proc/self/maps");
    size_t count = 0;
    for (std::string line; std::getline(maps, line);) count += line.ends_with(here.path(name)) ? 1U : 0U;
    return count;
  }

  TemporaryDirectory here;
};

TEST_F(MapCached, BytesInThePageCacheAreMappedUntilTheyAreReleased) {
  const SharedFilePtr model = file("model");
  EXPECT_EQ(text(model, kPage - 2, 4), "0011");
  EXPECT_EQ(text(model, kSize - 1, 1), "3");
  EXPECT_EQ(mappings("model"), 0U);
  auto mapped = map_cached(*model, {kPage, 2 * kPage});
  ASSERT_TRUE(mapped);
  EXPECT_EQ(mappings("model"), 1U);
  EXPECT_EQ(copied(mapped->bytes), std::string(kPage, '1'));
  mapped.reset();
  EXPECT_EQ(mappings("model"), 0U);
}

TEST_F(MapCached, EmptyRangeNeedsNoMapping) {
  const SharedFilePtr model = file("model");
  const auto mapped = map_cached(*model, {kSize, kSize});
  ASSERT_TRUE(mapped);
  EXPECT_TRUE(mapped->bytes.empty());
  EXPECT_EQ(mappings("model"), 0U);
}

TEST_F(MapCached, FileSystemThatDoesNotTellWhatIsInThePageCacheIsNotMapped) {
  const SharedFile status(Descriptor(::open("/proc/self/status", O_RDONLY | O_CLOEXEC)));
  EXPECT_FALSE(map_cached(status, {0, 1}));
}

TEST_F(MapCached, LastByteTellsWhetherARangeIsCached) {
  const SharedFilePtr model = file("model");
  const Extent whole{model->number(), kPage, 2 * kPage};
  EXPECT_TRUE(weightfs::is_cached(whole, {0, 2 * kPage}));
  ASSERT_EQ(::ftruncate(Descriptor(::open(here.path("model").c_str(), O_WRONLY | O_CLOEXEC)).number(), 2 * kPage), 0);
  EXPECT_TRUE(weightfs::is_cached(whole, {0, kPage}));
  EXPECT_FALSE(weightfs::is_cached(whole, {0, 2 * kPage}));
}

TEST_F(MapCached, CopyOfACutFileFails) {
  const SharedFilePtr model = file("model");
  const auto mapped = map_cached(*model, {2 * kPage, 3 * kPage});
  ASSERT_TRUE(mapped);
  std::filesystem::resize_file(here.path("model"), kPage);
  EXPECT_EQ(copied(mapped->bytes), "EFAULT");
}

// A shared directory, whose files are closed while others are used.
class ClosedFile : public testing::Test {
 protected:
  ClosedFile() { here.write("model", "0123456789"); }

  SourcePtr open(const std::string& name) const { return open_file(directory, name).value(); }
  static std::string text(const Source& source) {
    const auto bytes = read_text(source, 0, 10);
    return bytes ? *bytes : "error: " + bytes.error().message;
  }
  size_t descriptors() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code failed;
      if (std::filesystem::read_symlink(entry, failed).string().starts_with(here.path(""))) ++count;
    }
    return count;
  }

  TemporaryDirectory here;
  ConfinedDirectoryPtr directory = std::make_shared<const ConfinedDirectory>(
      Descriptor(::open(here.path("").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), here.path(""), Confinement{});
};

// semantics 6.5
TEST_F(ClosedFile, ManyFilesNeedFewDescriptors) {
  std::vector<SourcePtr> files;
  for (size_t i = 0; i < 3 * kMaxIdleFiles; ++i)
    files.push_back(open(std::filesystem::path(here.write(std::to_string(i), "0123456789")).filename()));
  EXPECT_EQ(descriptors(), kMaxIdleFiles);
  for (const SourcePtr& file : files) EXPECT_EQ(text(*file), "0123456789");
  EXPECT_EQ(descriptors(), kMaxIdleFiles);
  files.clear();
  EXPECT_EQ(descriptors(), 0U);
}

TEST_F(ClosedFile, IsOpenedAgainByRead) {
  const SourcePtr file = open("model");
  ASSERT_EQ(descriptors(), 1U);
  ASSERT_TRUE(recent_files().clear());
  EXPECT_EQ(descriptors(), 0U);
  EXPECT_EQ(text(*file), "0123456789");
  EXPECT_EQ(descriptors(), 1U);
}

TEST_F(ClosedFile, HeldFileAndItsExtentStayOpen) {
  const SourcePtr file = open("model");
  auto held = slice(file, 1, 2)->keep_cached();
  recent_files().clear();
  EXPECT_EQ(descriptors(), 1U);
  held = nullptr;
  EXPECT_EQ(descriptors(), 0U);
  const auto extent = extent_of(*file);
  recent_files().clear();
  std::string out(10, '?');
  EXPECT_EQ(::pread(extent->fd, out.data(), out.size(), 0), 10);
  EXPECT_EQ(out, "0123456789");
}

// semantics 6.5
TEST_F(ClosedFile, ReplacedOrRewrittenFileFailsReads) {
  const SourcePtr replaced = open("model");
  recent_files().clear();
  std::filesystem::rename(here.write("new", "9876543210"), here.path("model"));
  EXPECT_THAT(text(*replaced), HasSubstr("the file was changed or replaced"));
  const SourcePtr rewritten = open("model");
  recent_files().clear();
  struct stat before {};
  ASSERT_EQ(::stat(here.path("model").c_str(), &before), 0);
  here.write("model", "0123456789");
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, here.path("model").c_str(), times, 0), 0);
  EXPECT_THAT(text(*rewritten), HasSubstr("the file was changed or replaced"));
  EXPECT_EQ(text(*open("model")), "0123456789");
}

// semantics 6.5: unlike an open file, as nothing keeps its inode.
TEST_F(ClosedFile, RemovedFileFailsReads) {
  const SourcePtr file = open("model");
  recent_files().clear();
  std::filesystem::remove(here.path("model"));
  EXPECT_EQ(read_text(*file, 0, 10).error().code, Code::io);
}

TEST_F(ClosedFile, RenameThatWasAcceptedBeforeIsNoChange) {
  const SourcePtr file = open("model");
  std::filesystem::create_hard_link(here.path("model"), here.path("other"));
  EXPECT_EQ(text(*file), "0123456789");
  recent_files().clear();
  EXPECT_EQ(text(*file), "0123456789");
}

// semantics 6.5
TEST_F(ClosedFile, IdleFilesAreClosedWhenDescriptorsRunOut) {
  std::vector<SourcePtr> files;
  for (size_t i = 0; i < kMaxIdleFiles; ++i)
    files.push_back(open(std::filesystem::path(here.write(std::to_string(i), "0123456789")).filename()));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::open("/dev/null", O_RDONLY);
  ::close(next);
  const rlimit few{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto opened = open_file(directory, "model");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(opened);
}

}  // namespace
}  // namespace weightfs::open_files_test
