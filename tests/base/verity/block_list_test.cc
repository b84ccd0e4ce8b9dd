// Block lists: what is written, compared with fsverity(1), and what they detect.
#include "base/verity/block_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temporary.h"

namespace weightfs::block_list_test {
namespace {

using testing::HasSubstr;

constexpr uint64_t kBlock = 4096;
constexpr uint64_t kFan = 128;  // digests in a tree block

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// Different bytes in all blocks.
std::string data_of(uint64_t size) {
  std::string data(static_cast<size_t>(size), '\0');
  uint64_t state = 1;
  for (size_t at = 0; at < data.size(); at += sizeof state) {
    state = state * 6364136223846793005 + 1442695040888963407;
    std::memcpy(&data[at], &state, std::min(sizeof state, data.size() - at));
  }
  return data;
}

struct Built {
  Digest digest;
  std::string list;
};

// Adds `piece` bytes at a time.
Result<Built> build(const std::string& data, size_t piece = SIZE_MAX) {
  Built built;
  std::map<uint64_t, uint64_t> written;  // sizes by offset
  BlockListBuilder builder(data.size(), [&](uint64_t offset, std::span<const std::byte> bytes) -> Result<void> {
    if (built.list.size() < offset + bytes.size()) built.list.resize(offset + bytes.size());
    std::transform(bytes.begin(), bytes.end(), built.list.begin() + static_cast<ptrdiff_t>(offset),
                   [](std::byte b) { return static_cast<char>(b); });
    EXPECT_TRUE(written.emplace(offset, bytes.size()).second) << "written twice";
    return {};
  });
  for (size_t at = 0; at < data.size(); at += std::min(piece, data.size() - at))
    TRY_VOID(builder.add(bytes_of(data).subspan(at, std::min(piece, data.size() - at))));
  built.digest = TRY(builder.finish());
  uint64_t end = 0;
  for (const auto& [offset, size] : written) {
    EXPECT_EQ(offset, end);
    end = offset + size;
  }
  EXPECT_EQ(end, builder.layout().list_size());
  return built;
}

std::string raw(const Digest& digest) {
  std::string text;
  for (const std::byte b : digest.bytes) text += static_cast<char>(b);
  return text;
}

// The block list as the documentation of fs-verity describes it.
std::string expected_list(const std::string& data) {
  std::string tree;
  std::string level = data;
  while (level.size() > kBlock) {
    std::string digests;
    for (size_t at = 0; at < level.size(); at += kBlock) {
      std::string block = level.substr(at, kBlock);
      block.resize(kBlock);
      digests += raw(sha256(block));
    }
    level = digests;
    level.resize((level.size() + kBlock - 1) / kBlock * kBlock);
    tree = level + tree;
  }
  if (!level.empty()) level.resize(kBlock);
  std::string descriptor("\1\1\x0C\0\0\0\0\0", 8);
  for (int i = 0; i < 8; ++i) descriptor += static_cast<char>(data.size() >> (8 * i));
  if (!level.empty()) descriptor += raw(sha256(level));
  descriptor.resize(256);
  return descriptor + tree;
}

Result<std::unique_ptr<const BlockList>> open_list(std::string list) {
  return BlockList::open(in_memory(std::move(list)));
}

std::string error_of(const Result<void>& result) { return result ? "" : result.error().message; }

// Whether the whole file fails with mismatch.
bool is_mismatch(const BlockList& list, const std::string& data) {
  const auto verified = list.verify(0, bytes_of(data));
  return !verified && verified.error().code == Code::mismatch;
}

class BlockListOfSize : public testing::TestWithParam<uint64_t> {
 protected:
  const std::string data = data_of(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Files, BlockListOfSize,
                         testing::Values(0, 1, kBlock - 1, kBlock, kBlock + 1, 2 * kBlock, kFan* kBlock,
                                         kFan* kBlock + 1, 5 * kFan * kBlock + 17, kFan* kFan* kBlock,
                                         kFan* kFan* kBlock + 1));

TEST_P(BlockListOfSize, HasTheBytesThatTheDocumentationDescribes) {
  const Built built = build(data).value();
  EXPECT_TRUE(built.list == expected_list(data));
  EXPECT_EQ(built.digest, sha256(built.list.substr(0, 256)));
}

// semantics 21.7
TEST_P(BlockListOfSize, HasTheBytesThatFsverityWrites) {
  if (std::system("fsverity --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "fsverity is not installed";
  const TemporaryDirectory directory;
  const std::string path = directory.write("file", data);
  const std::string command = "fsverity digest --compact --out-merkle-tree=" + directory.path("tree") +
                              " --out-descriptor=" + directory.path("descriptor") + " " + path;
  const std::unique_ptr<FILE, int (*)(FILE*)> output(::popen(command.c_str(), "r"), ::pclose);
  std::array<char, 65> digest{};
  ASSERT_NE(std::fgets(digest.data(), digest.size(), output.get()), nullptr);
  const auto content = [&](const char* name) {
    std::ifstream file(directory.path(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const Built built = build(data).value();
  EXPECT_EQ(built.digest.hex(), digest.data());
  EXPECT_TRUE(built.list == content("descriptor") + content("tree"));
}

TEST_P(BlockListOfSize, DoesNotDependOnThePieces) {
  const std::string whole = build(data).value().list;
  for (const size_t piece : {size_t{1000}, size_t{4096}, size_t{65'537}})
    EXPECT_TRUE(build(data, piece).value().list == whole) << piece;
}

TEST_P(BlockListOfSize, VerifiesTheWholeFileAndEachBlock) {
  const Built built = build(data).value();
  const auto list = open_list(built.list).value();
  EXPECT_EQ(list->size(), data.size());
  EXPECT_EQ(list->digest(), built.digest);
  EXPECT_EQ(error_of(list->verify(0, bytes_of(data))), "");
  EXPECT_EQ(error_of(list->verify(data.size() / kBlock * kBlock, {})), "");
  for (uint64_t at = 0; at < data.size(); at += 37 * kBlock)
    EXPECT_EQ(error_of(list->verify(at, bytes_of(data).subspan(at, std::min(kBlock, data.size() - at)))), "") << at;
}

TEST_P(BlockListOfSize, WrongByteIsAMismatch) {
  const auto list = open_list(build(data).value().list).value();
  for (const uint64_t at : {uint64_t{0}, data.size() / 2, data.size() - 1}) {
    if (at >= data.size()) continue;
    std::string wrong = data;
    wrong[at] = static_cast<char>(wrong[at] ^ 1);
    const uint64_t block = at / kBlock * kBlock;
    const auto verified = list->verify(block, bytes_of(wrong).subspan(block, std::min(kBlock, data.size() - block)));
    ASSERT_FALSE(verified.has_value()) << at;
    EXPECT_EQ(verified.error().code, Code::mismatch);
    EXPECT_THAT(verified.error().message, HasSubstr("the block at byte " + std::to_string(block) + " has the digest "));
    EXPECT_TRUE(is_mismatch(*list, wrong));
  }
  EXPECT_EQ(error_of(list->verify(0, bytes_of(data))), "") << "an error is not kept";
}

TEST(BlockListBuilder, FileThatIsLongerOrShorterThanItsSizeIsRefused) {
  const auto write = [](uint64_t, std::span<const std::byte>) -> Result<void> { return {}; };
  BlockListBuilder builder(5, write);
  ASSERT_TRUE(builder.add(bytes_of("abc")).has_value());
  EXPECT_EQ(error_of(builder.add(bytes_of("def"))), "block list: the file exceeds its size of 5 bytes");
  EXPECT_EQ(builder.finish().error().message, "block list: the file ends at byte 3 of 5");
}

TEST(BlockListBuilder, WriteErrorIsReturned) {
  const auto write = [](uint64_t, std::span<const std::byte>) -> Result<void> {
    return failure(Code::io, "disk full");
  };
  BlockListBuilder builder(kFan * kBlock, write);
  EXPECT_EQ(error_of(builder.add(bytes_of(data_of(kFan * kBlock)))), "disk full");
  EXPECT_EQ(BlockListBuilder(0, write).finish().error().message, "disk full");
}

TEST(BlockListLayout, LargestFileHasEightLevels) {
  const BlockListLayout layout(UINT64_MAX);
  EXPECT_EQ(layout.levels(), 8u);
  EXPECT_EQ(layout.offset(7, 0), 256u);
  EXPECT_GT(layout.list_size(), uint64_t{1} << 57);
  EXPECT_LT(layout.list_size(), uint64_t{1} << 58);
}

TEST(BlockList, RangeThatIsNotWholeBlocksIsRefused) {
  const std::string data = data_of(2 * kBlock + 10);
  const auto list = open_list(build(data).value().list).value();
  const auto code = [&](uint64_t offset, uint64_t size) {
    return list->verify(offset, bytes_of(data).first(size)).error().code;
  };
  EXPECT_EQ(code(1, kBlock), Code::unsupported);
  EXPECT_EQ(code(0, kBlock - 1), Code::unsupported);
  EXPECT_EQ(code(0, 2 * kBlock + 9), Code::unsupported);
}

TEST(BlockList, BytesBeyondTheEndAreAMismatch) {
  const std::string data = data_of(2 * kBlock);
  const auto list = open_list(build(data).value().list).value();
  EXPECT_EQ(error_of(list->verify(kBlock, bytes_of(data))),
            "8192 bytes at byte 4096 exceed the 8192 bytes of the block list");
  EXPECT_EQ(list->verify(UINT64_MAX - kBlock + 1, bytes_of(data)).error().code, Code::mismatch);
}

TEST(BlockList, TruncatedOrLongerListIsRefused) {
  const std::string list = build(data_of(3 * kBlock)).value().list;
  for (size_t size = 0; size < list.size(); ++size) {
    const auto opened = open_list(list.substr(0, size));
    ASSERT_FALSE(opened.has_value()) << size;
    EXPECT_EQ(opened.error().code, Code::corrupt) << size;
  }
  EXPECT_EQ(open_list(list.substr(0, 255)).error().message, "block list: 255 bytes, at least 256 needed");
  EXPECT_EQ(open_list(list + '\0').error().message, "block list: 4353 bytes, expected 4352 for a file of 12288 bytes");
}

TEST(BlockList, FlippedByteIsDetected) {
  const std::string data = data_of(kFan * kBlock + 1);
  const Built built = build(data).value();
  for (size_t at = 0; at < built.list.size(); at += at < 256 ? 1 : 61) {
    std::string wrong = built.list;
    wrong[at] = static_cast<char>(wrong[at] ^ 0x40);
    const auto list = open_list(wrong);
    if (!list) continue;
    EXPECT_TRUE(at >= 256 || (*list)->digest() != built.digest) << at;
    EXPECT_NE(error_of((*list)->verify(0, bytes_of(data))), "") << at;
    EXPECT_TRUE(at < 256 || is_mismatch(**list, data)) << at;
  }
}

TEST(BlockList, ListOfAnotherFileIsAMismatch) {
  std::string data = data_of(300 * kBlock);
  const auto list = open_list(build(data).value().list).value();
  std::reverse(data.begin(), data.end());
  EXPECT_TRUE(is_mismatch(*list, data));
}

TEST(BlockList, TreeOfAnotherFileIsAMismatch) {
  const std::string data = data_of(300 * kBlock);
  const std::string other(data.rbegin(), data.rend());
  const std::string list = build(data).value().list.substr(0, 256) + build(other).value().list.substr(256);
  for (const std::string& file : {data, other}) {
    const auto verified = open_list(list).value()->verify(0, bytes_of(file));
    ASSERT_FALSE(verified.has_value());
    EXPECT_EQ(verified.error().code, Code::mismatch);
    EXPECT_THAT(verified.error().message, HasSubstr("block list: tree block 0 of level 1 has the digest "));
  }
}

TEST(BlockList, SwappedTreeBlocksAreAMismatch) {
  const std::string data = data_of(300 * kBlock);
  std::string list = build(data).value().list;
  const auto leaf = [&](ptrdiff_t block) { return list.begin() + 256 + (1 + block) * static_cast<ptrdiff_t>(kBlock); };
  std::swap_ranges(leaf(0), leaf(1), leaf(1));
  const auto opened = open_list(list).value();
  // Neither the data of a list's block nor the data that its digests match is accepted.
  EXPECT_THAT(error_of(opened->verify(0, bytes_of(data).first(kBlock))),
              HasSubstr("tree block 0 of level 0 has the digest"));
  EXPECT_THAT(error_of(opened->verify(0, bytes_of(data).subspan(kFan * kBlock, kBlock))), HasSubstr("tree block 0"));
  EXPECT_EQ(error_of(opened->verify(2 * kFan * kBlock, bytes_of(data).subspan(2 * kFan * kBlock))), "");
}

TEST(BlockList, OtherParametersAreUnsupported) {
  const std::string list = build("abc").value().list;
  const auto error_with = [&](size_t at, char value) {
    std::string other = list;
    other[at] = value;
    const auto opened = open_list(other);
    return opened ? Error{Code::io, "opened"} : opened.error();
  };
  EXPECT_EQ(error_with(0, 2).message, "block list: version is 2, expected 1");
  EXPECT_EQ(error_with(1, 2).message, "block list: hash algorithm is 2, expected 1");
  EXPECT_EQ(error_with(2, 16).message, "block list: log2 of the block size is 16, expected 12");
  EXPECT_EQ(error_with(3, 8).message, "block list: salt size is 8, expected 0");
  EXPECT_EQ(error_with(3, 8).code, Code::unsupported);
  for (const size_t at : {size_t{4}, size_t{7}, size_t{48}, size_t{79}, size_t{80}, size_t{112}, size_t{255}}) {
    EXPECT_EQ(error_with(at, 1).message, "block list: a field of the descriptor that must be zero is not") << at;
    EXPECT_EQ(error_with(at, 1).code, Code::corrupt) << at;
  }
}

TEST(BlockList, RootOfAnEmptyFileMustBeZero) {
  std::string list = build("").value().list;
  list[16] = 1;
  EXPECT_EQ(open_list(list).error().code, Code::corrupt);
}

TEST(BlockList, HostileSizeOfTheFileIsRefused) {
  const std::string list = build(data_of(2 * kBlock)).value().list;
  for (const uint64_t size : {UINT64_MAX, UINT64_MAX - 4095, uint64_t{1} << 63, uint64_t{1} << 40, uint64_t{1}}) {
    std::string hostile = list;
    for (size_t i = 0; i < 8; ++i) hostile[8 + i] = static_cast<char>(size >> (8 * i));
    const auto opened = open_list(hostile);
    ASSERT_FALSE(opened.has_value()) << size;
    EXPECT_EQ(opened.error().code, Code::corrupt);
    EXPECT_THAT(opened.error().message, HasSubstr("for a file of " + std::to_string(size) + " bytes"));
  }
}

// The list of 1 TiB of zeros, computed when it is read: all blocks of a level are equal.
class ListOfZeros final : public Source {
 public:
  ListOfZeros() {
    std::string block(kBlock, '\0');
    std::string digest = raw(sha256(block));
    for (size_t level = 0; level < layout_.levels(); ++level) {
      block.clear();
      // 2^28 data blocks: the last level, like the others, is full.
      for (uint64_t i = 0; i < kFan; ++i) block += digest;
      digest = raw(sha256(block));
      blocks_.push_back(block);
    }
    descriptor_ = expected_list("").substr(0, 8) + std::string("\0\0\0\0\0\1\0\0", 8) + digest;
    descriptor_.resize(256);
  }

  uint64_t size() const override { return layout_.list_size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    bytes_read += out.size();
    std::string_view bytes = descriptor_;
    for (size_t level = 0; level < layout_.levels() && offset >= 256; ++level)
      if (offset >= layout_.offset(level, 0)) {
        bytes = blocks_[level];
        break;
      }
    const size_t at = offset < 256 ? offset : (offset - 256) % kBlock;
    std::memcpy(out.data(), bytes.data() + at, std::min(out.size(), bytes.size() - at));
    return std::min(out.size(), bytes.size() - at);
  }

  mutable uint64_t bytes_read = 0;

 private:
  const BlockListLayout layout_{uint64_t{1} << 40};
  std::vector<std::string> blocks_;
  std::string descriptor_;
};

TEST(BlockList, BlockOfALargeFileNeedsOneTreeBlockPerLevel) {
  const auto source = std::make_shared<ListOfZeros>();
  const auto list = BlockList::open(source).value();
  EXPECT_EQ(list->size(), uint64_t{1} << 40);
  const std::string zeros(kFan * kBlock, '\0');
  ASSERT_EQ(error_of(list->verify((uint64_t{1} << 40) - kBlock, bytes_of(zeros).first(kBlock))), "");
  EXPECT_EQ(source->bytes_read, 256 + 4 * kBlock);
  ASSERT_EQ(error_of(list->verify((uint64_t{1} << 40) - zeros.size(), bytes_of(zeros))), "");
  EXPECT_EQ(source->bytes_read, 256 + 4 * kBlock) << "the tree blocks are kept";
  EXPECT_EQ(list->verify(0, bytes_of(std::string(kBlock, '\1'))).error().code, Code::mismatch);
}

// Fails to read while `is_broken`.
class BrokenSource final : public Source {
 public:
  explicit BrokenSource(std::string bytes) : bytes_(in_memory(std::move(bytes))) {}
  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (is_broken) return failure(Code::io, "broken disk");
    return bytes_->read(offset, out);
  }

  bool is_broken = false;

 private:
  SourcePtr bytes_;
};

TEST(BlockList, ErrorOfReadingTheListIsReturnedAndNotKept) {
  const std::string data = data_of(300 * kBlock);
  const auto source = std::make_shared<BrokenSource>(build(data).value().list);
  const auto list = BlockList::open(source).value();
  source->is_broken = true;
  EXPECT_EQ(error_of(list->verify(0, bytes_of(data))), "broken disk");
  EXPECT_EQ(BlockList::open(source).error().message, "broken disk");
  source->is_broken = false;
  EXPECT_EQ(error_of(list->verify(0, bytes_of(data))), "");
}

TEST(BlockList, ManyThreadsVerifyAtTheSameTime) {
  const std::string data = data_of(5 * kFan * kBlock + 1);
  const auto list = open_list(build(data).value().list).value();
  std::vector<std::jthread> threads;
  for (uint64_t thread = 0; thread < 8; ++thread)
    threads.emplace_back([&, thread] {
      for (uint64_t at = thread * kBlock; at < data.size(); at += 8 * kBlock)
        EXPECT_EQ(error_of(list->verify(at, bytes_of(data).subspan(at, std::min(kBlock, data.size() - at)))), "");
    });
  threads.clear();
  EXPECT_EQ(error_of(list->verify(0, bytes_of(data))), "");
}

}  // namespace
}  // namespace weightfs::block_list_test
