// The blocks of a remote file on disk.
#include "cache/store/block_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>

#include "tests/cache/test_producer.h"
#include "tests/support/temporary.h"

namespace weightfs::test::block_file_test {
namespace {

using namespace store;

constexpr uint64_t kBlock = BlockFile::kBlock;
constexpr uint64_t kSize = 10 * kBlock + 100;

class BlockFileTest : public testing::Test {
 protected:
  SharedDescriptor descriptor() const {
    return std::make_shared<Descriptor>(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  }
  BlockFilePtr open(std::string_view identity = "https://example.com/m \"v1\"", uint64_t size = kSize) {
    return BlockFile::open(
               descriptor(), size, identity,
               {[](int, uint64_t, uint64_t) { return Result<void>(); }, [](int, uint64_t) { return Result<void>(); }})
        .value();
  }
  Code refusal(std::string_view identity) const {
    const auto file = BlockFile::open(descriptor(), kSize, identity, {});
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
  void flip(uint64_t offset) const {
    const SharedDescriptor file = descriptor();
    char byte = 0;
    ASSERT_EQ(::pread(file->number(), &byte, 1, static_cast<off_t>(offset)), 1);
    byte = static_cast<char>(byte ^ 1);
    ASSERT_EQ(::pwrite(file->number(), &byte, 1, static_cast<off_t>(offset)), 1);
  }

  TemporaryDirectory temporary;
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
  EXPECT_LE(status.st_blocks * 512, 8192);
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
  const Descriptor folder(::open(temporary.path("").c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_TRUE(BlockFile::evict(folder, "blocks", file->descriptor()->number(), BlockFile::Held::keep));
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
  flip(kBlock + 17);
  const BlockFilePtr file = open();
  EXPECT_EQ(read(*file, 0, 3 * kBlock), all.substr(0, kBlock));
  EXPECT_FALSE(open()->first_absent({0, 3}, 1).value());
  EXPECT_EQ(absent(*file, {0, 3}), std::pair(uint64_t{1}, uint64_t{2}));
}

TEST_F(BlockFileTest, BlockWhoseMapEntryIsDamagedIsAbsent) {
  ASSERT_TRUE(write(*open(), 0, 3));
  flip((kSize + 4095) / 4096 * 4096 + 8);  // the entry of block 1
  EXPECT_EQ(absent(*open(), {0, 3}), std::pair(uint64_t{1}, uint64_t{2}));
}

TEST_F(BlockFileTest, FileOfAnotherVersionIsRefused) {
  ASSERT_TRUE(write(*open(), 0, 3));
  EXPECT_EQ(refusal("https://example.com/m \"v2\""), Code::not_found);
  EXPECT_EQ(read(*open(), 0, kBlock), all.substr(0, kBlock));
}

TEST_F(BlockFileTest, TruncatedFileIsRefusedAndDiscarded) {
  ASSERT_TRUE(write(*open(), 0, 3));
  ASSERT_EQ(::truncate(path.c_str(), kSize), 0);
  EXPECT_EQ(refusal("https://example.com/m \"v1\""), Code::not_found);
  const Descriptor folder(::open(temporary.path(".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_TRUE(BlockFile::evict(folder, "blocks", descriptor()->number(), BlockFile::Held::remove));
  EXPECT_EQ(read(*open(), 0, kBlock), "");
}

// Its readers go on until they find it evicted; it has the blob's bytes and no map.
TEST_F(BlockFileTest, PublishedFileIsTheBlob) {
  const BlockFilePtr file = open();
  const BlockFilePtr other = open();
  ASSERT_TRUE(write(*file, 0, 11));
  const Descriptor folder(::open(temporary.path(".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(file->publish_as(folder, "blocks", folder, "blob"));
  EXPECT_TRUE(other->is_evicted());
  EXPECT_TRUE(other->is_published());
  std::ifstream blob(temporary.path("blob"), std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(blob), {}), all);
  EXPECT_FALSE(other->publish_as(folder, "blocks", folder, "again"));
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(BlockFileTest, IdentityIsFoundInFile) {
  open();
  EXPECT_EQ(BlockFile::identity_of(descriptor()->number()), "https://example.com/m \"v1\"");
  ASSERT_EQ(::truncate(path.c_str(), 100), 0);
  EXPECT_EQ(BlockFile::identity_of(descriptor()->number()), std::nullopt);
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
  const Descriptor folder(::open(temporary.path(".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const SharedDescriptor evictor = descriptor();
  ASSERT_TRUE(BlockFile::evict(folder, "blocks", evictor->number(), BlockFile::Held::keep));
  EXPECT_TRUE(file->is_evicted());
  std::string bytes(10, '\0');
  const auto got = file->read(0, std::as_writable_bytes(std::span(bytes)));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::not_found);
  struct stat status {};
  ASSERT_EQ(::fstat(evictor->number(), &status), 0);
  EXPECT_EQ(status.st_blocks, 0);
}

TEST_F(BlockFileTest, HeldFileIsNotEvicted) {
  const Descriptor folder(::open(temporary.path(".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const BlockFilePtr file = open();
  ASSERT_TRUE(file->hold());
  const SharedDescriptor evictor = descriptor();
  EXPECT_TRUE(BlockFile::is_held(evictor->number()));
  EXPECT_FALSE(BlockFile::evict(folder, "blocks", evictor->number(), BlockFile::Held::keep));
  EXPECT_EQ(errno, EBUSY);
  EXPECT_FALSE(file->is_evicted());
  file->release();
  EXPECT_FALSE(BlockFile::is_held(evictor->number()));
  EXPECT_TRUE(BlockFile::evict(folder, "blocks", evictor->number(), BlockFile::Held::keep));
  EXPECT_EQ(file->hold().error().code, Code::not_found);
}

// A process that has opened the file to evict it must not empty the blob that it has become.
TEST_F(BlockFileTest, PublishedFileIsNotEvicted) {
  const Descriptor folder(::open(temporary.path(".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const BlockFilePtr file = open();
  const SharedDescriptor evictor = descriptor();
  ASSERT_TRUE(write(*file, 0, 11));
  ASSERT_TRUE(file->publish_as(folder, "blocks", folder, "blob"));
  const BlockFilePtr next = open();  // has the name now
  for (const auto held : {BlockFile::Held::keep, BlockFile::Held::remove}) {
    EXPECT_FALSE(BlockFile::evict(folder, "blocks", evictor->number(), held));
    EXPECT_EQ(errno, ENOENT);
  }
  EXPECT_TRUE(file->is_published());
  EXPECT_FALSE(next->is_evicted());
}

TEST_F(BlockFileTest, MismatchedFileIsRemovedAlthoughItIsHeld) {
  const Descriptor folder(::open(temporary.path(".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const BlockFilePtr file = open();
  ASSERT_TRUE(file->hold());
  EXPECT_TRUE(BlockFile::evict(folder, "blocks", descriptor()->number(), BlockFile::Held::remove));
  EXPECT_TRUE(file->is_evicted());
}

TEST_F(BlockFileTest, SpaceForAllBlocksIsReservedOnce) {
  uint64_t reserved = 0;
  uint64_t allocated = 0;
  const auto add = [](uint64_t& to, uint64_t bytes) {
    to += bytes;
    return Result<void>();
  };
  const BlockFilePtr file = BlockFile::open(descriptor(), kSize, "x",
                                            {[&](int, uint64_t from, uint64_t to) { return add(reserved, to - from); },
                                             [&](int, uint64_t bytes) { return add(allocated, bytes); }})
                                .value();
  ASSERT_TRUE(file->hold() && file->hold() && file->reserve({0, 2}));
  EXPECT_EQ(reserved, 0u);
  EXPECT_GE(allocated, kSize);
  EXPECT_LE(allocated, kSize + 3 * 4096);  // with the map
  file->release();
  ASSERT_TRUE(file->reserve({0, 2}));
  EXPECT_EQ(reserved, 2 * kBlock);
}

TEST_F(BlockFileTest, PresentBytesAreThoseInItsMap) {
  const BlockFilePtr file = open();
  EXPECT_EQ(BlockFile::present_bytes(descriptor()->number()), 0u);
  ASSERT_TRUE(write(*file, 2, 4));
  EXPECT_EQ(BlockFile::present_bytes(descriptor()->number()), 2 * kBlock);
}

TEST_F(BlockFileTest, IdentityOfABlobHasItsDigest) {
  const Digest digest = sha256("blob");
  EXPECT_EQ(digest_of_identity(blob_identity(digest, 5)), digest);
  EXPECT_EQ(digest_of_identity("https://example.com/ \"v1\" 5"), std::nullopt);
  EXPECT_EQ(digest_of_identity("sha256 zz 5"), std::nullopt);
}

TEST_F(BlockFileTest, HugeFileIsRefused) {
  const auto file = BlockFile::open(descriptor(), BlockFile::kMaxSize + 1, "", {});
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::resource);
}

}  // namespace
}  // namespace weightfs::test::block_file_test
