// The blocks of a remote file on disk.
#include "cache/blocks/block_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "tests/cache/test_producer.h"
#include "tests/support/temporary.h"

namespace weightfs::test::block_file_test {
namespace {

using namespace store;

constexpr uint64_t kSize = 10 * kBlock + 100;
constexpr std::string_view kIdentity = "https://example.com/m \"v1\"";

class BlockFileTest : public testing::Test {
 protected:
  static BlockFile::Space unlimited() {
    return {[](int, uint64_t, uint64_t) { return Result<void>(); },
            [](int, uint64_t, Eviction) { return Result<void>(); }};
  }
  BlockFilePtr open() const { return BlockFile::open(folder, "blocks", kSize, kIdentity, unlimited()).value(); }
  CachedFiles files() const { return open_files(folder, "blocks", O_RDWR); }
  auto evict(BlockFile::Evict which) const { return BlockFile::evict(folder, "blocks", which); }
  bool publish(BlockFile& file) const { return file.publish_as(sha256(all), folder, "blocks", folder, "blob", "sums"); }
  Code refusal(std::string_view identity) const {
    const auto file = BlockFile::open(folder, "blocks", kSize, identity, {});
    EXPECT_FALSE(file);
    return file.error().code;
  }
  // The bytes from the offset up to the first absent block.
  static std::string read(BlockFile& file, uint64_t offset, size_t size) {
    std::string bytes(size, '\0');
    bytes.resize(file.read(offset, std::as_writable_bytes(std::span(bytes))).value());
    return bytes;
  }
  Result<void> write(BlockFile& file, uint64_t first, uint64_t last) const {
    const std::string_view bytes = std::string_view(all).substr(first * kBlock, (last - first) * kBlock);
    return file.write(first, std::as_bytes(std::span(bytes)));
  }
  static std::pair<uint64_t, uint64_t> absent(BlockFile& file, Blocks within) {
    const std::optional<Blocks> found = file.first_absent(within).value();
    return found ? std::pair(found->first, found->last) : std::pair(within.last, within.last);
  }
  static void flip(const SharedDescriptor& file, uint64_t offset) {
    char byte = 0;
    ASSERT_EQ(::pread(file->number(), &byte, 1, static_cast<off_t>(offset)), 1);
    byte = static_cast<char>(byte ^ 1);
    ASSERT_EQ(::pwrite(file->number(), &byte, 1, static_cast<off_t>(offset)), 1);
  }

  TemporaryDirectory temporary;
  const Descriptor folder{::open(temporary.path(".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  std::string path = temporary.path("blocks");
  std::string all = some_bytes(kSize);
};

TEST_F(BlockFileTest, NewFileHasNoBlocksAndTakesOnePage) {
  const BlockFilePtr file = open();
  EXPECT_EQ(file->block_count(), 11u);
  EXPECT_EQ(absent(*file, {0, 11}), std::pair(uint64_t{0}, uint64_t{11}));
  EXPECT_EQ(read(*file, 0, 10), "");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_blocks, 0);
  ASSERT_EQ(::stat((path + ".map").c_str(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, 4096);
}

TEST_F(BlockFileTest, WrittenBlocksAreReadUpToTheFirstAbsentOne) {
  const BlockFilePtr file = open();
  ASSERT_TRUE(write(*file, 2, 4));
  EXPECT_EQ(absent(*file, {0, 11}), std::pair(uint64_t{0}, uint64_t{2}));
  EXPECT_EQ(absent(*file, {2, 11}), std::pair(uint64_t{4}, uint64_t{11}));
  EXPECT_EQ(read(*file, 2 * kBlock + 5, 3 * kBlock), all.substr(2 * kBlock + 5, 2 * kBlock - 5));
  EXPECT_EQ(read(*file, kBlock, kBlock), "");
}

// It may have been read or hashed.
TEST_F(BlockFileTest, PresentBlockIsNotReplaced) {
  const BlockFilePtr file = open();
  ASSERT_TRUE(write(*file, 2, 3));
  const std::string others(5 * kBlock, 'x');
  ASSERT_TRUE(file->write(0, std::as_bytes(std::span(others))));
  EXPECT_EQ(read(*file, 0, 5 * kBlock),
            others.substr(0, 2 * kBlock) + all.substr(2 * kBlock, kBlock) + others.substr(0, 2 * kBlock));
}

TEST_F(BlockFileTest, EvictedFileIsNotWritten) {
  const BlockFilePtr file = open();
  ASSERT_TRUE(evict(BlockFile::Evict::unheld));
  const auto written = write(*file, 0, 2);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::not_found);
}

TEST_F(BlockFileTest, ShortLastBlockIsReadToTheEnd) {
  const BlockFilePtr file = open();
  ASSERT_TRUE(write(*file, 9, 11));
  EXPECT_EQ(read(*file, 10 * kBlock, kBlock), all.substr(10 * kBlock));
  EXPECT_EQ(read(*file, kSize, 5), "");
}

TEST_F(BlockFileTest, OtherProcessesFindWrittenBlocks) {
  const BlockFilePtr mine = open();
  const BlockFilePtr other = open();
  ASSERT_TRUE(write(*mine, 0, 3));
  EXPECT_EQ(read(*other, 0, 4 * kBlock), all.substr(0, 3 * kBlock));
  EXPECT_EQ(read(*open(), 0, kBlock), all.substr(0, kBlock));
}

TEST_F(BlockFileTest, BlockWithWrongChecksumIsAbsent) {
  ASSERT_TRUE(write(*open(), 0, 3));
  flip(files().data, kBlock + 17);
  const BlockFilePtr file = open();
  EXPECT_EQ(read(*file, 0, 3 * kBlock), all.substr(0, kBlock));
  EXPECT_FALSE(open()->first_absent({0, 3}, 1).value());
  EXPECT_EQ(absent(*file, {0, 3}), std::pair(uint64_t{1}, uint64_t{2}));
}

TEST_F(BlockFileTest, BlockWhoseMapEntryIsDamagedIsAbsent) {
  ASSERT_TRUE(write(*open(), 0, 3));
  flip(files().map, entry_offset(1));
  EXPECT_EQ(absent(*open(), {0, 3}), std::pair(uint64_t{1}, uint64_t{2}));
}

TEST_F(BlockFileTest, FileOfAnotherVersionIsRefused) {
  ASSERT_TRUE(write(*open(), 0, 3));
  EXPECT_EQ(refusal("https://example.com/m \"v2\""), Code::corrupt);
  EXPECT_EQ(read(*open(), 0, kBlock), all.substr(0, kBlock));
}

TEST_F(BlockFileTest, TruncatedMapIsRefusedAndDiscarded) {
  ASSERT_TRUE(write(*open(), 0, 3));
  ASSERT_EQ(::truncate((path + ".map").c_str(), 100), 0);
  EXPECT_EQ(refusal(kIdentity), Code::corrupt);
  EXPECT_TRUE(evict(BlockFile::Evict::all));
  EXPECT_EQ(read(*open(), 0, kBlock), "");
}

// Each process sweeps when it begins to use the cache.
TEST_F(BlockFileTest, SweepsRemoveNothingThatIsCreatedOrPublished) {
  std::atomic<bool> is_over = false;
  std::vector<std::jthread> sweeps;
  for (int i = 0; i < 2; ++i)
    sweeps.emplace_back([&] {
      while (!is_over) evict(BlockFile::Evict::left);
    });
  for (int i = 0; i < 300; ++i) {
    BlockFilePtr file;
    while (file == nullptr) {
      auto opened = BlockFile::open(folder, "blocks", kSize, kIdentity, unlimited());
      if (!opened) ASSERT_EQ(opened.error().code, Code::not_found);
      if (opened) file = *opened;
    }
    ASSERT_TRUE(write(*file, 0, 11)) << i;
    ASSERT_TRUE(publish(*file)) << i;
    std::ifstream blob(temporary.path("blob"), std::ios::binary);
    ASSERT_EQ(std::string(std::istreambuf_iterator<char>(blob), {}), all) << i;
  }
  is_over = true;
}

// A process may be stopped (Ctrl-Z, a debugger) at any place.
TEST_F(BlockFileTest, LockOfAStoppedProcessIsNotAwaited) {
  const BlockFilePtr file = open();
  ASSERT_TRUE(write(*file, 0, 11));
  const SharedDescriptor map = files().map;
  struct flock header {};
  header.l_type = F_WRLCK;
  header.l_start = 1;
  header.l_len = 1;
  ASSERT_EQ(::fcntl(map->number(), F_OFD_SETLK, &header), 0);
  EXPECT_FALSE(publish(*file));  // after two seconds
  const CancelScope killed([] { return true; });
  EXPECT_EQ(evict(BlockFile::Evict::all), std::nullopt);
  EXPECT_EQ(refusal("another"), Code::resource);
  header.l_type = F_UNLCK;
  ASSERT_EQ(::fcntl(map->number(), F_OFD_SETLK, &header), 0);
  EXPECT_TRUE(publish(*file));
}

// As a killed process, or an earlier version, leaves them.
TEST_F(BlockFileTest, DataWithoutAMapAreReplaced) {
  temporary.write("blocks", all);
  const BlockFilePtr file = open();
  EXPECT_EQ(absent(*file, {0, 11}), std::pair(uint64_t{0}, uint64_t{11}));
  EXPECT_EQ(read(*file, 0, 10), "");
}

TEST_F(BlockFileTest, MapWithoutDataIsRefusedAndDiscarded) {
  ASSERT_TRUE(write(*open(), 0, 3));
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_EQ(refusal(kIdentity), Code::corrupt);
  EXPECT_TRUE(evict(BlockFile::Evict::unheld));
  EXPECT_EQ(read(*open(), 0, kBlock), "");
}

// A file that was opened while blocks were absent stays valid.
TEST_F(BlockFileTest, PublishedFileIsTheBlob) {
  const BlockFilePtr file = open();
  const BlockFilePtr other = open();
  ASSERT_TRUE(write(*file, 0, 11));
  ASSERT_TRUE(publish(*file));
  EXPECT_FALSE(other->is_current());
  EXPECT_EQ(read(*other, 0, kSize), all);
  std::ifstream blob(temporary.path("blob"), std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(blob), {}), all);
  EXPECT_FALSE(publish(*other));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(other->write(0, std::as_bytes(std::span(all)))) << "its readers trust a blob";
  EXPECT_EQ(files().data, nullptr);
  EXPECT_EQ(files().map, nullptr);
}

TEST_F(BlockFileTest, MapOfALargeBlobIsKept) {
  constexpr uint64_t kLarge = kWorthAMap + 1;
  const auto file = BlockFile::open(folder, "blocks", kLarge, kIdentity, unlimited()).value();
  const std::string bytes = some_bytes(kLarge);
  ASSERT_TRUE(file->write(0, std::as_bytes(std::span(bytes))));
  ASSERT_TRUE(file->publish_as(sha256(bytes), folder, "blocks", folder, "blob", "sums"));
  const Descriptor map(::open(temporary.path("sums").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(read_map_header(map.number()), (MapHeader{MapOf::blob, kLarge, blob_identity(sha256(bytes), kLarge)}));
  const auto entries = read_entries(map.number(), 0, blocks_in(kLarge)).value();
  EXPECT_EQ(entries.front(), entry_of(std::as_bytes(std::span(bytes)).first(kBlock)));
  EXPECT_EQ(entries.back(), entry_of(std::as_bytes(std::span(bytes)).last(1)));
}

TEST_F(BlockFileTest, IdentityIsFoundInMap) {
  open();
  EXPECT_EQ(read_map_header(files().map->number()), (MapHeader{MapOf::blocks, kSize, std::string(kIdentity)}));
  ASSERT_EQ(::truncate((path + ".map").c_str(), 100), 0);
  EXPECT_EQ(read_map_header(files().map->number()), std::nullopt);
}

TEST_F(BlockFileTest, OneClaimPerBlock) {
  const BlockFilePtr mine = open();
  const BlockFilePtr other = open();
  auto claim = BlockFile::claim(mine, {2, 5});
  ASSERT_NE(claim, nullptr);
  EXPECT_EQ(BlockFile::claim(other, {4, 6}), nullptr);
  EXPECT_NE(BlockFile::claim(other, {5, 6}), nullptr);
  claim = nullptr;
  EXPECT_NE(BlockFile::claim(other, {4, 6}), nullptr);
}

TEST_F(BlockFileTest, EvictedFileCannotBeReadAndTakesNoSpace) {
  const BlockFilePtr file = open();
  ASSERT_TRUE(write(*file, 0, 3));
  const CachedFiles evicted = files();
  ASSERT_TRUE(evict(BlockFile::Evict::unheld));
  EXPECT_FALSE(file->is_current());
  std::string bytes(10, '\0');
  const auto got = file->read(0, std::as_writable_bytes(std::span(bytes)));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::not_found);
  struct stat status {};
  for (const SharedDescriptor& each : {evicted.data, evicted.map}) {
    ASSERT_EQ(::fstat(each->number(), &status), 0);
    EXPECT_EQ(status.st_blocks, 0);
  }
}

TEST_F(BlockFileTest, HeldFileIsNotEvicted) {
  const BlockFilePtr file = open();
  ASSERT_TRUE(file->hold());
  EXPECT_TRUE(BlockFile::is_held(files()));
  EXPECT_FALSE(evict(BlockFile::Evict::unheld));
  EXPECT_EQ(errno, EBUSY);
  EXPECT_TRUE(file->is_current());
  file->release();
  EXPECT_FALSE(BlockFile::is_held(files()));
  EXPECT_TRUE(evict(BlockFile::Evict::unheld));
  EXPECT_EQ(file->hold().error().code, Code::not_found);
}

TEST_F(BlockFileTest, PublishedFileIsNotEvicted) {
  const BlockFilePtr file = open();
  ASSERT_TRUE(write(*file, 0, 11));
  ASSERT_TRUE(publish(*file));
  for (const auto held : {BlockFile::Evict::unheld, BlockFile::Evict::all}) {
    EXPECT_FALSE(evict(held));
    EXPECT_EQ(errno, ENOENT);
  }
  EXPECT_EQ(read(*file, 0, kSize), all);
}

TEST_F(BlockFileTest, MismatchedFileIsRemovedAlthoughItIsHeld) {
  const BlockFilePtr file = open();
  ASSERT_TRUE(file->hold());
  EXPECT_TRUE(evict(BlockFile::Evict::all));
  EXPECT_FALSE(file->is_current());
}

TEST_F(BlockFileTest, SpaceForAllBlocksIsReservedOnce) {
  uint64_t reserved = 0;
  uint64_t allocated = 0;
  const auto add = [](uint64_t& to, uint64_t bytes) {
    to += bytes;
    return Result<void>();
  };
  const BlockFilePtr file = BlockFile::open(folder, "blocks", kSize, "x",
                                            {[&](int, uint64_t from, uint64_t to) { return add(reserved, to - from); },
                                             [&](int, uint64_t bytes, Eviction) { return add(allocated, bytes); }})
                                .value();
  ASSERT_TRUE(file->hold() && file->hold() && file->reserve({0, 2}));
  EXPECT_EQ(reserved, 0u);
  EXPECT_EQ(allocated, kSize);
  file->release();
  ASSERT_TRUE(file->reserve({0, 2}));
  EXPECT_EQ(reserved, 2 * kBlock);
}

TEST_F(BlockFileTest, PresentBytesAreThoseInItsMap) {
  const BlockFilePtr file = open();
  EXPECT_EQ(BlockFile::present_bytes(files()), 0u);
  ASSERT_TRUE(write(*file, 2, 4));
  EXPECT_EQ(BlockFile::present_bytes(files()), 2 * kBlock);
}

// A decoder does not know how many bytes will come.
TEST_F(BlockFileTest, FileOfUnknownSizeGrowsUntilItsEnd) {
  constexpr uint64_t kWhole = 100 * kBlock;  // enough to keep the map
  const std::string bytes = some_bytes(kWhole + 100);
  const auto span = std::as_bytes(std::span(bytes));
  const auto file = BlockFile::open(folder, "blocks", std::nullopt, kIdentity, unlimited()).value();
  EXPECT_FALSE(file->has_blocks());
  ASSERT_TRUE(file->hold_first(4 * kBlock, Eviction::allowed));
  ASSERT_TRUE(file->write(0, span.first(kWhole)));
  EXPECT_TRUE(file->has_blocks());
  const auto other = BlockFile::open(folder, "blocks", std::nullopt, kIdentity, unlimited()).value();
  ASSERT_TRUE(file->set_end(bytes.size(), span.subspan(kWhole)));
  EXPECT_TRUE(other->is_current()) << "it waits for the publication";
  EXPECT_EQ(file->size(), bytes.size());
  EXPECT_EQ(read(*file, 0, bytes.size() + 1), bytes);
  const Digest digest = sha256(bytes);
  ASSERT_TRUE(file->publish_as(digest, folder, "blocks", folder, "blob", "sums"));
  EXPECT_FALSE(other->is_current());
  EXPECT_EQ(std::filesystem::file_size(temporary.path("blob")), bytes.size());
  const Descriptor map(::open(temporary.path("sums").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(read_map_header(map.number()), (MapHeader{MapOf::blob, bytes.size(), blob_identity(digest, bytes.size())}));
  EXPECT_EQ(read_entries(map.number(), 100, 1)->front(), entry_of(span.subspan(kWhole)));
}

TEST_F(BlockFileTest, IsInUseWhileItIsHeldOrClaimed) {
  const BlockFilePtr file = open();
  EXPECT_FALSE(BlockFile::is_in_use(files()));
  auto claim = BlockFile::claim(file, {3, 4});
  EXPECT_TRUE(BlockFile::is_in_use(files()));
  EXPECT_FALSE(BlockFile::is_held(files()));
  claim = nullptr;
  EXPECT_FALSE(BlockFile::is_in_use(files()));
  ASSERT_TRUE(file->hold());
  EXPECT_TRUE(BlockFile::is_in_use(files()) && BlockFile::is_held(files()));
}

TEST_F(BlockFileTest, IdentityOfABlobHasItsDigest) {
  const Digest digest = sha256("blob");
  EXPECT_EQ(digest_of_identity(blob_identity(digest, 5)), digest);
  EXPECT_EQ(digest_of_identity("https://example.com/ \"v1\" 5"), std::nullopt);
  EXPECT_EQ(digest_of_identity("sha256 zz 5"), std::nullopt);
}

TEST_F(BlockFileTest, HugeFileIsRefused) {
  const auto file = BlockFile::open(folder, "blocks", BlockFile::kMaxSize + 1, "", {});
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::resource);
}

}  // namespace
}  // namespace weightfs::test::block_file_test
