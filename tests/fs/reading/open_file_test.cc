// How an open file is read, with sources that record what is asked of them; no mount.
#include "fs/reading/open_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/files/confined_directory.h"
#include "base/files/file_source.h"
#include "base/files/leaf.h"
#include "tests/support/lock_count.h"
#include "tests/support/temporary.h"

namespace weightfs::test::open_file_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr size_t kSize = size_t{1} << 20;

// Bytes in memory that can be mapped, held and advised about.
class Recorder final : public Leaf {
 public:
  uint64_t size() const override { return bytes.size(); }
  bool is_ready() const override { return true; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    ++reads;
    if (!error.empty()) return failure(Code::io, error);
    const size_t count = bytes_inside(size(), offset, out.size());
    if (count > 0) std::memcpy(out.data(), bytes.data() + offset, count);
    return count;
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange range) const override {
    expected.emplace_back(range.from, range.to);
    return read(offset, out);
  }
  Result<std::optional<MappedBytes>> map(uint64_t offset, size_t size) const override {
    if (!can_be_mapped) return std::nullopt;
    const auto all = std::as_bytes(std::span(bytes));
    return MappedBytes{all.subspan(offset, bytes_inside(bytes.size(), offset, size)), nullptr};
  }
  void advise(ByteRange range, Advice advice) const override {
    (advice == Advice::reads_soon ? requested : released).emplace_back(range.from, range.to);
  }
  std::shared_ptr<const void> keep_cached() const override { return is_available ? held : nullptr; }
  VerifiedBy verification() const override { return verified; }

  std::string bytes = std::string(kSize, 'x');
  std::string error;
  bool can_be_mapped = false;
  bool is_available = true;
  VerifiedBy verified = VerifiedBy::unknown;
  const std::shared_ptr<const void> held = std::make_shared<int>();
  mutable int reads = 0;
  mutable std::vector<std::pair<uint64_t, uint64_t>> expected;
  mutable std::vector<std::pair<uint64_t, uint64_t>> requested;
  mutable std::vector<std::pair<uint64_t, uint64_t>> released;
};

class OpenFileTest : public testing::Test {
 protected:
  // Reads as a session does; returns the number of bytes, or -1.
  static int64_t read(OpenFile& file, uint64_t offset, size_t size, Pages pages = Pages::kept) {
    OpenFile::Read read(file, offset, size, pages);
    const auto bytes = read.bytes();
    if (!bytes) return -1;
    EXPECT_TRUE(std::ranges::all_of(*bytes, [](std::byte b) { return b == std::byte{'x'}; }));
    read.finish();
    return static_cast<int64_t>(bytes->size());
  }

  const std::shared_ptr<Recorder> source = std::make_shared<Recorder>();
  OpenFile file{7, source, nullptr};
};

TEST_F(OpenFileTest, ReadEndsAtTheEndOfTheFile) {
  EXPECT_EQ(read(file, 0, 4096), 4096);
  EXPECT_EQ(read(file, kSize - 10, 4096), 10);
  EXPECT_EQ(read(file, kSize, 4096), 0);
  EXPECT_EQ(read(file, kSize + 5, 4096), 0);
}

TEST_F(OpenFileTest, ReaderExpectsTheWholeFileOrARange) {
  read(file, 4096, 4096);
  OpenFile::Read part(file, 4096, 4096, Pages::kept, ByteRange{4096, 10'000});
  EXPECT_TRUE(part.bytes());
  EXPECT_THAT(source->expected,
              ElementsAre(std::pair(uint64_t{0}, kSize), std::pair(uint64_t{4096}, uint64_t{10'000})));
}

TEST_F(OpenFileTest, ErrorOfTheSourceIsThatOfTheRead) {
  source->error = "the disk failed";
  OpenFile::Read failing(file, 0, 4096, Pages::kept);
  EXPECT_EQ(failing.bytes().error().message, "the disk failed");
}

TEST_F(OpenFileTest, LargeReadIsMappedAfterTheFirstRead) {
  source->can_be_mapped = true;
  EXPECT_EQ(read(file, 0, kLargeRead), static_cast<int64_t>(kLargeRead));
  EXPECT_EQ(source->reads, 1);
  EXPECT_EQ(read(file, kLargeRead, kLargeRead), static_cast<int64_t>(kLargeRead));
  EXPECT_EQ(source->reads, 1) << "mapped";
  EXPECT_EQ(read(file, kLargeRead, kLargeRead - 1), static_cast<int64_t>(kLargeRead - 1));
  EXPECT_EQ(source->reads, 2) << "small reads are copied";
}

TEST_F(OpenFileTest, MappedFileIsCopiedIntoTheMemoryOfTheReader) {
  source->can_be_mapped = true;
  EXPECT_EQ(read(file, 0, kLargeRead), static_cast<int64_t>(kLargeRead));
  std::vector<std::byte> memory(kLargeRead);
  OpenFile::Read copied(file, 0, 2 * kLargeRead, Pages::kept);
  const auto bytes = copied.bytes(memory);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->data(), memory.data());
  EXPECT_EQ(bytes->size(), memory.size()) << "as many as fit";
  EXPECT_EQ(memory.back(), std::byte{'x'});
  EXPECT_EQ(source->reads, 2);
}

TEST_F(OpenFileTest, FileThatCannotBeMappedIsCopied) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read(file, 0, kLargeRead), static_cast<int64_t>(kLargeRead));
  EXPECT_EQ(source->reads, 3);
}

TEST_F(OpenFileTest, MappedBytesThatCannotBeCopiedAreReadForTheReason) {
  source->can_be_mapped = true;
  EXPECT_EQ(read(file, 0, kLargeRead), static_cast<int64_t>(kLargeRead));
  OpenFile::Read mapped(file, 0, kLargeRead, Pages::kept);
  ASSERT_TRUE(mapped.bytes());
  EXPECT_TRUE(mapped.read_again());
  source->error = "the file was cut";
  EXPECT_EQ(mapped.read_again().error().message, "the file was cut");
}

TEST_F(OpenFileTest, OnlyLargeReadsReleasePages) {
  read(file, 0, 4096, Pages::released);
  EXPECT_THAT(source->released, IsEmpty());
  read(file, kSize - 10, kLargeRead, Pages::released);
  EXPECT_THAT(source->released, ElementsAre(std::pair(kSize - 10, kSize)));
}

TEST_F(OpenFileTest, PagesThatAreReleasedAreNotMapped) {
  source->can_be_mapped = true;
  for (int i = 0; i < 2; ++i) read(file, 0, kLargeRead, Pages::released);
  EXPECT_EQ(source->reads, 2);
}

TEST_F(OpenFileTest, ReadsAtEqualDistancesRequestTheNextOnes) {
  for (uint64_t i = 0; i < 4; ++i) read(file, i * 65536, 100);
  EXPECT_THAT(source->requested, SizeIs(AccessPattern::kAhead));
  EXPECT_EQ(source->requested.front(), std::pair(uint64_t{4 * 65536}, uint64_t{4 * 65536 + 100}));
}

TEST_F(OpenFileTest, SourceIsHeldWhileTheFileIsOpen) {
  EXPECT_EQ(source->held.use_count(), 2);
  {
    const OpenFile other(8, source, nullptr);
    EXPECT_EQ(source->held.use_count(), 3);
  }
  EXPECT_EQ(source->held.use_count(), 2);
}

TEST_F(OpenFileTest, SourceThatBecomesAvailableIsHeldByTheNextRead) {
  source->is_available = false;
  OpenFile late(8, source, nullptr);
  EXPECT_EQ(source->held.use_count(), 2);
  source->is_available = true;
  read(late, 0, 100);
  read(late, 0, 100);
  EXPECT_EQ(source->held.use_count(), 3);
}

TEST_F(OpenFileTest, PagesAreKeptOfBytesThatStayTheSame) {
  for (const auto& [verified, keeps] : std::vector<std::pair<VerifiedBy, bool>>{{VerifiedBy::unknown, true},
                                                                                {VerifiedBy::mismatch, false},
                                                                                {VerifiedBy::unpinned, false},
                                                                                {VerifiedBy::transport, true},
                                                                                {VerifiedBy::whole, true}}) {
    source->verified = verified;
    EXPECT_EQ(file.keeps_pages(), keeps) << static_cast<int>(verified);
  }
}

// docs/architecture.md: a plain read of a local file takes one lock.
TEST(OpenFile, ReadOfLocalFileTakesOneLock) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer has its own locks";
#endif
  const TemporaryDirectory temporary;
  temporary.write("model", std::string(kSize, 'x'));
  const auto directory = std::make_shared<const ConfinedDirectory>(
      Descriptor(::open(temporary.path("").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), temporary.path(""),
      Confinement{});
  const Slice tensor = slice(open_file(directory, "model").value(), 100, kSize - 100).value();
  OpenFile file(7, std::make_shared<Slice>(tensor), nullptr);
  const auto locks_of_read = [&] {
    const uint64_t before = locks_taken();
    OpenFile::Read read(file, 0, 4096, Pages::kept);
    EXPECT_TRUE(read.bytes());
    read.finish();
    return locks_taken() - before;
  };
  EXPECT_GT(locks_of_read(), 1U) << "the first read opens the file";
  EXPECT_EQ(locks_of_read(), 1U);
}

}  // namespace
}  // namespace weightfs::test::open_file_test
