#include <gmock/gmock.h>

#include "base/os/tmpfile.h"
#include "formats/hdf5/fields.h"
#include "formats/verify.h"
#include "tests/support/hdf5_reading.h"

namespace weightfs::test::chunks_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using B = Hdf5Builder;

// An int8 dataset of this extent with the given layout.
std::string bytes_of(B& b, const B::Dimensions& dimensions, Hdf5Message layout, Hdf5Messages more = {}) {
  return only_tensor(one_dataset(b, b.dataset(Hdf5Type::integer(1), dimensions, std::move(layout), std::move(more))));
}

// A dataset with a maximum extent.
std::string bytes_of_resizable(B& b, const B::Dimensions& dimensions, const B::Dimensions& most, Hdf5Message layout) {
  return only_tensor(
      one_dataset(b, b.object({B::dataspace(dimensions, most), B::datatype(Hdf5Type::integer(1)), std::move(layout)})));
}

TEST(Hdf5Chunks, ChunksOfSeveralDimensionsComeInTheOrderOfTheDataset) {
  B b;
  const std::vector<Hdf5Chunk> chunks = {
      {b.put("abde"), 4, {0, 0}}, {b.put("c.f."), 4, {0, 2}}, {b.put("gh.."), 4, {2, 0}}, {b.put("i..."), 4, {2, 2}}};
  EXPECT_EQ(bytes_of(b, {3, 3}, B::chunked(b.chunk_tree(chunks, 2), {2, 2}, 1)), "abcdefghi");
}

TEST(Hdf5Layout, VersionsBefore3AreRead) {
  for (const uint64_t version : {1U, 2U}) {
    B b;
    const uint64_t tree = b.chunk_tree({{b.put("ab"), 2, {0}}, {b.put("c."), 2, {2}}}, 1);
    EXPECT_EQ(bytes_of(b, {3}, B::first_layout(version, 2, le(tree, 8), {2, 1})), "abc");
    B contiguous;
    EXPECT_EQ(bytes_of(contiguous, {1, 3}, B::first_layout(version, 1, le(contiguous.put("xyz"), 8), {1, 3})), "xyz");
    B compact;
    EXPECT_EQ(bytes_of(compact, {1, 3}, B::first_layout(version, 0, "", {1, 3}, le(3, 4) + "uvw")), "uvw");
  }
}

TEST(Hdf5Layout, WrongOnesOfVersionsBefore3AreRefused) {
  B b;
  EXPECT_THAT(bytes_of(b, {3}, B::first_layout(1, 3, le(0, 8), {3})), HasSubstr("a layout of class 3"));
  B cut;
  EXPECT_THAT(bytes_of(cut, {3}, B::first_layout(1, 0, "", {3}, le(30'000, 4) + "uvw")), HasSubstr("needed"));
  B rank;
  EXPECT_THAT(bytes_of(rank, {3}, B::first_layout(2, 2, le(0, 8), {3})), HasSubstr("a chunk of rank 1"));
}

TEST(Hdf5Chunks, MissingChunkHasTheFillValue) {
  B b;
  const std::vector<Hdf5Chunk> chunks = {{b.put("ab"), 2, {2}}};
  EXPECT_EQ(bytes_of(b, {6}, B::chunked(b.chunk_tree(chunks, 1), {2}, 1), {B::fill("-")}), "--ab--");
}

TEST(Hdf5Chunks, NothingWrittenIsAllFillValues) {
  B b;
  EXPECT_EQ(bytes_of(b, {3}, B::chunked(kNoAddress, {2}, 1), {B::fill("-")}), "---");
}

TEST(Hdf5Chunks, FilterThatAChunkSkippedIsNotUndone) {
  B b;
  const std::vector<Hdf5Chunk> chunks = {{b.put(zlib_stored("ab")), zlib_stored("ab").size(), {0}},
                                         {b.put("cd"), 2, {2}, 1}};
  EXPECT_EQ(bytes_of(b, {4}, B::chunked(b.chunk_tree(chunks, 1), {2}, 1), {B::filters({{1, {6}}})}), "abcd");
}

// A filter that is optional, and did not make the chunks smaller.
TEST(Hdf5Chunks, UnsupportedFilterThatAllChunksSkippedIsNotNeeded) {
  const auto bytes_with = [](uint32_t first, uint32_t second) {
    B b;
    const std::vector<Hdf5Chunk> chunks = {{b.put("ab"), 2, {0}, first}, {b.put("cd"), 2, {2}, second}};
    return bytes_of(b, {4}, B::chunked(b.chunk_tree(chunks, 1), {2}, 1), {B::filters({{2, {1}}, {32001, {}}})});
  };
  EXPECT_EQ(bytes_with(2, 3), "abcd");
  for (const auto& [first, second] : {std::pair{2U, 0U}, {0U, 2U}, {1U, 1U}})
    EXPECT_THAT(bytes_with(first, second), HasSubstr("filter 32001 (BLOSC) is not supported"));
}

TEST(Hdf5Chunks, VerificationReadsThoseWithChecksums) {
  for (const uint32_t checksum : {hdf5::fletcher32("ab"), uint32_t{1}}) {
    B b;
    const std::string chunk = "ab" + le(checksum, 4);
    const uint64_t tree = b.chunk_tree({{b.put(chunk), chunk.size(), {0}}}, 1);
    const Model model = read_h5_well(
        one_dataset(b, b.dataset(Hdf5Type::integer(1), {2}, B::chunked(tree, {2}, 1), {B::filters({{3, {}}})})));
    const Verification found = verify(model, {});
    if (checksum != 1) {
      EXPECT_EQ(found.tensors, 1U);
      EXPECT_TRUE(found.unreadable.empty());
      continue;
    }
    EXPECT_EQ(found.tensors, 0U);
    ASSERT_EQ(found.unreadable.size(), 1U);
    EXPECT_THAT(found.unreadable[0].message, testing::StartsWith("tensor \"w\": chunk 0: Fletcher-32 checksum"));
  }
}

TEST(Hdf5Chunks, VerificationReadsNoOthers) {
  B b;
  const Model model = read_h5_well(one_dataset(
      b, b.dataset(Hdf5Type::integer(1), {2}, B::chunked(b.chunk_tree({{b.put("ab"), 2, {0}}}, 1), {2}, 1))));
  EXPECT_EQ(verify(model, {}).tensors, 0U);
}

TEST(Hdf5Chunks, BTreeOfSeveralLevelsIsRead) {
  B b;
  const uint64_t left = b.chunk_tree({{b.put("ab"), 2, {0}}}, 1);
  const uint64_t right = b.chunk_tree({{b.put("cd"), 2, {2}}}, 1);
  const uint64_t root = b.chunk_tree({{left, 0, {0}}, {right, 0, {2}}}, 1, 1);
  EXPECT_EQ(bytes_of(b, {4}, B::chunked(root, {2}, 1)), "abcd");
}

TEST(Hdf5Chunks, BTreeThatLeadsBackToItselfFails) {
  B b;
  const uint64_t root = b.next();
  EXPECT_EQ(b.chunk_tree({{root, 0, {0}}}, 1, 1), root);
  EXPECT_THAT(bytes_of(b, {4}, B::chunked(root, {2}, 1)), HasSubstr("a B-tree node of level 1, not 0"));
}

TEST(Hdf5Chunks, ChunkThatIsStoredTwiceFails) {
  B b;
  const uint64_t at = b.put("ab");
  const uint64_t tree = b.chunk_tree({{at, 2, {0}}, {at, 2, {0}}}, 1);
  EXPECT_THAT(bytes_of(b, {4}, B::chunked(tree, {2}, 1)), HasSubstr("chunk 0 is stored twice"));
}

TEST(Hdf5Chunks, ChunkOutsideOfTheFileFails) {
  B b;
  const uint64_t tree = b.chunk_tree({{1 << 20, 2, {0}}}, 1);
  EXPECT_THAT(bytes_of(b, {2}, B::chunked(tree, {2}, 1)), HasSubstr("chunk 0: 2 bytes at address 1048576"));
}

TEST(Hdf5Chunks, SingleAndImplicitIndexesAreRead) {
  B single(3);
  EXPECT_EQ(bytes_of(single, {2}, B::chunked_by(le(1, 1), single.put("ab"), {2}, 1)), "ab");
  B implicit(3);
  EXPECT_EQ(bytes_of(implicit, {5}, B::chunked_by(le(2, 1), implicit.put("abcde."), {2}, 1)), "abcde");
}

TEST(Hdf5Chunks, SingleChunkWithFiltersIsDecoded) {
  B b(3);
  const std::string stored = zlib_stored("ab");
  const auto layout = B::chunked_by(le(1, 1) + le(stored.size(), 8) + le(0, 4), b.put(stored), {2}, 1, '\2');
  EXPECT_EQ(bytes_of(b, {2}, layout, {B::filters({{1, {6}}})}), "ab");
}

TEST(Hdf5Chunks, FixedArrayIsReadWithAndWithoutPages) {
  for (const int page_bits : {10, 1}) {
    B b(3);
    std::vector<std::string> elements;
    for (const char* chunk : {"ab", "cd", "ef"}) elements.push_back(le(b.put(chunk), 8));
    const uint64_t array = b.fixed_array(elements, false, page_bits);
    EXPECT_EQ(bytes_of(b, {6}, B::chunked_by(le(3, 1) + le(10, 1), array, {2}, 1)), "abcdef");
  }
}

// An array counts the chunks of the maximum extent.
TEST(Hdf5Chunks, FixedArrayOfASmallerExtentIsRead) {
  B b(3);
  std::vector<std::string> elements(4, le(kNoAddress, 8));
  elements[0] = le(b.put("a"), 8);
  elements[2] = le(b.put("b"), 8);
  const uint64_t array = b.fixed_array(elements, false);
  EXPECT_EQ(bytes_of_resizable(b, {2, 1}, {2, 2}, B::chunked_by(le(3, 1) + le(10, 1), array, {1, 1}, 1)), "ab");
}

TEST(Hdf5Chunks, ExtensibleArrayIsRead) {
  for (const int page_bits : {10, 1}) {
    B b(3);
    std::vector<std::string> elements;
    for (char c = 'a'; c <= 'z'; ++c) elements.push_back(le(b.put(std::string(1, c)), 8));
    const uint64_t array = b.extensible_array(elements, page_bits);
    const auto layout = B::chunked_by(le(4, 1) + std::string(5, '\0'), array, {1}, 1);
    EXPECT_EQ(bytes_of_resizable(b, {26}, {kNoAddress}, layout), "abcdefghijklmnopqrstuvwxyz");
  }
}

// The unlimited dimension of an extensible array is the outermost one of its indices.
TEST(Hdf5Chunks, ExtensibleArrayOfAnInnerDimensionIsRead) {
  B b(3);
  std::vector<std::string> elements;
  for (const char* chunk : {"a", "d", "b", "e", "c", "f"}) elements.push_back(le(b.put(chunk), 8));
  const uint64_t array = b.extensible_array(elements, 10);
  const auto layout = B::chunked_by(le(4, 1) + std::string(5, '\0'), array, {1, 1}, 1);
  EXPECT_EQ(bytes_of_resizable(b, {2, 3}, {2, kNoAddress}, layout), "abcdef");
}

TEST(Hdf5Chunks, NewBTreeIsRead) {
  B plain(3);
  std::vector<std::string> records;
  for (uint64_t i = 0; i < 3; ++i)
    records.push_back(le(plain.put(std::string(2, static_cast<char>('a' + i))), 8) + le(i, 8));
  const std::string index = le(5, 1) + std::string(6, '\0');
  EXPECT_EQ(bytes_of(plain, {5}, B::chunked_by(index, plain.record_tree(10, records), {2}, 1)), "aabbc");
  B filtered(3);
  const std::string stored = zlib_stored("ab");
  const uint64_t tree =
      filtered.record_tree(11, {le(filtered.put(stored), 8) + le(stored.size(), 2) + le(0, 4) + le(0, 8)});
  EXPECT_EQ(bytes_of(filtered, {2}, B::chunked_by(index, tree, {2}, 1), {B::filters({{1, {6}}})}), "ab");
}

TEST(Hdf5Chunks, WrongChecksumOfAnIndexFails) {
  B b(3);
  const uint64_t array = b.fixed_array({le(b.put("ab"), 8)}, false);
  b.patch(array + 8, "\2");
  EXPECT_THAT(bytes_of(b, {2}, B::chunked_by(le(3, 1) + le(10, 1), array, {2}, 1)), HasSubstr("fixed array: checksum"));
}

TEST(Hdf5Chunks, HugeChunksAreRefused) {
  B b;
  EXPECT_THAT(bytes_of(b, {1 << 15, 1 << 15}, B::chunked(kNoAddress, {1 << 15, 1 << 15}, 1)),
              HasSubstr("chunks of 1073741824 bytes, at most 1677"));
}

// Chunks of which the dataset uses one element each.
TEST(Hdf5Chunks, ChunksFarLargerThanTheirDatasetAreRefused) {
  B b;
  EXPECT_THAT(bytes_of(b, {1 << 20, 1}, B::chunked(kNoAddress, {1, 1 << 20}, 1)),
              HasSubstr("1099511627776 bytes to be made from a file of"));
}

TEST(Hdf5Chunks, TooManyChunksAreRefused) {
  B b;
  EXPECT_THAT(bytes_of(b, {1 << 22}, B::chunked(kNoAddress, {1}, 1)), HasSubstr("4194304 chunks, at most 104"));
}

TEST(Hdf5Chunks, FilterThatIsNotSupportedIsRefusedByNameAndNumber) {
  const std::vector<std::pair<uint16_t, std::string>> filters = {{4, "4 (szip)"},
                                                                 {5, "5 (nbit)"},
                                                                 {257, "257 (hzip)"},
                                                                 {258, "258 (fpzip)"},
                                                                 {305, "305 (LZO)"},
                                                                 {307, "307 (BZIP2)"},
                                                                 {32001, "32001 (BLOSC)"},
                                                                 {32002, "32002 (MAFISC)"},
                                                                 {32003, "32003 (Snappy)"},
                                                                 {32004, "32004 (LZ4)"},
                                                                 {32005, "32005 (APAX)"},
                                                                 {32006, "32006 (CBF)"},
                                                                 {32007, "32007 (JPEG-XR)"},
                                                                 {32008, "32008 (bitshuffle)"},
                                                                 {32009, "32009 (SPDP)"},
                                                                 {32010, "32010 (LPC-Rice)"},
                                                                 {32011, "32011 (CCSDS-123)"},
                                                                 {32012, "32012 (JPEG-LS)"},
                                                                 {32013, "32013 (zfp)"},
                                                                 {32014, "32014 (fpzip)"},
                                                                 {32016, "32016 (B3D)"},
                                                                 {32017, "32017 (SZ)"},
                                                                 {32018, "32018 (FCIDECOMP)"},
                                                                 {32019, "32019 (JPEG)"},
                                                                 {32020, "32020 (VBZ)"},
                                                                 {32021, "32021 (FAPEC)"},
                                                                 {32022, "32022 (BitGroom)"},
                                                                 {32023, "32023 (Granular BitRound)"},
                                                                 {32024, "32024 (SZ3)"},
                                                                 {32025, "32025 (Delta-Rice)"},
                                                                 {32026, "32026 (BLOSC2)"},
                                                                 {32027, "32027 (FLAC)"},
                                                                 {32028, "32028 (H5Z-SPERR)"},
                                                                 {32029, "32029 (TERSE/PROLIX)"},
                                                                 {32030, "32030 (FFMPEG)"},
                                                                 {0, "0"},
                                                                 {7, "7"},
                                                                 {32031, "32031"},
                                                                 {65535, "65535"}};
  for (const auto& [number, shown] : filters) {
    B b;
    EXPECT_EQ(bytes_of(b, {2}, B::chunked(kNoAddress, {2}, 1), {B::filters({{1, {6}}, {number, {1, 2}}})}),
              "tensor \"w\": filter " + shown + " is not supported");
  }
}

// LZF, of h5py, is a registered filter that is undone.
TEST(Hdf5Chunks, LzfIsNotRefused) {
  B b;
  const uint64_t tree = b.chunk_tree({{b.put("\1ab"), 3, {0}}}, 1);
  EXPECT_EQ(bytes_of(b, {2}, B::chunked(tree, {2}, 1), {B::filters({{32000, {4, 261, 2}}})}), "ab");
}

TEST(Hdf5Chunks, ChunksThatShareBytesFail) {
  B b;
  const uint64_t at = b.put("abc");
  const uint64_t tree = b.chunk_tree({{at, 2, {0}}, {at + 1, 2, {2}}}, 1);
  EXPECT_THAT(bytes_of(b, {4}, B::chunked(tree, {2}, 1)), HasSubstr("chunks 0 and 1 overlap"));
}

TEST(Hdf5Chunks, DatasetsThatShareAnIndexAreRefused) {
  B b;
  const auto layout = B::chunked(b.chunk_tree({{b.put("ab"), 2, {0}}}, 1), {2}, 1);
  const uint64_t v = b.dataset(Hdf5Type::integer(1), {2}, layout), w = b.dataset(Hdf5Type::integer(1), {2}, layout);
  const Model model = read_h5_well(b.build(b.group({{"u", v}, {"v", v}, {"w", w}})));
  ASSERT_EQ(model.tensors.size(), 3U);
  EXPECT_FALSE(model.tensors.at(0).source.refused());
  EXPECT_FALSE(model.tensors.at(1).source.refused());  // another name of the same dataset
  EXPECT_TRUE(model.tensors.at(2).source.refused());
  EXPECT_THAT(model.warnings.at(0), HasSubstr("its chunks are those of another dataset"));
}

TEST(Hdf5Chunks, RowWithoutStoredChunksHasTheFillValue) {
  B b;
  const std::vector<Hdf5Chunk> chunks = {{b.put("abcd"), 4, {2, 0}}};
  const auto fill = B::fill("-");
  EXPECT_EQ(bytes_of(b, {6, 2}, B::chunked(b.chunk_tree(chunks, 2), {2, 2}, 1), {fill}), "----abcd----");
}

TEST(Hdf5Chunks, ChunksOfThreeDimensionsComeInTheOrderOfTheDataset) {
  B b;
  std::vector<Hdf5Chunk> chunks;
  std::string expected;
  for (char c = 'a'; c < 'a' + 27; ++c) expected += c;
  // Chunks of 2 x 2 x 2 of 3 x 3 x 3 elements.
  for (uint64_t i = 0; i < 8; ++i) {
    const uint64_t place[] = {(i >> 2) * 2, (i >> 1 & 1) * 2, (i & 1) * 2};
    std::string bytes;
    for (uint64_t j = 0; j < 8; ++j) {
      const uint64_t x = place[0] + (j >> 2), y = place[1] + (j >> 1 & 1), z = place[2] + (j & 1);
      bytes += x < 3 && y < 3 && z < 3 ? expected[x * 9 + y * 3 + z] : '.';
    }
    chunks.push_back({b.put(bytes), 8, {place[0], place[1], place[2]}});
  }
  EXPECT_EQ(bytes_of(b, {3, 3, 3}, B::chunked(b.chunk_tree(chunks, 3), {2, 2, 2}, 1)), expected);
}

TEST(Hdf5Chunks, FarMoreStoredBytesThanAChunkHasFail) {
  B b;
  const uint64_t tree = b.chunk_tree({{b.put(std::string(70'000, '\0')), 65'545, {0}}}, 1);
  EXPECT_THAT(bytes_of(b, {4}, B::chunked(tree, {4}, 1), {B::filters({{1, {6}}})}),
              HasSubstr("chunk 0: 65545 bytes are stored for 4"));
}

TEST(Hdf5Chunks, FilterThatOccursTwiceIsRefused) {
  B b;
  EXPECT_THAT(bytes_of(b, {2}, B::chunked(kNoAddress, {2}, 1), {B::filters({{2, {4}}, {1, {6}}, {2, {4}}})}),
              HasSubstr("filter 2 more than once"));
}

// The chunk of a long file of zeros, in a small zip.
TEST(Hdf5Chunks, ChunksFarLargerThanTheOutermostContainerAreRefused) {
  B b;
  const uint64_t w = b.dataset(Hdf5Type::integer(1), {40'000'000}, B::chunked(kNoAddress, {40'000'000}, 1));
  const std::string file = one_dataset(b, w) + std::string(20'000'000, '\0');
  for (const uint64_t container : {uint64_t{1000}, uint64_t{20'000'000}}) {
    const auto model = read_as(
        "hdf5", Container{.name = "m.h5", .bytes = in_memory(file), .budget = std::make_shared<Budget>(container)});
    ASSERT_TRUE(model);
    EXPECT_EQ(model->tensors.at(0).source.refused(), container == 1000);
  }
}

TEST(Hdf5Chunks, DatasetsThatAreFarLargerTogetherAreRefused) {
  B b;
  const auto half = [&] { return b.dataset(Hdf5Type::integer(1), {600 << 20}, B::chunked(kNoAddress, {1 << 20}, 1)); };
  const uint64_t v = half(), w = half();
  const Model model = read_h5_well(b.build(b.group({{"v", v}, {"w", w}})));
  EXPECT_FALSE(model.tensors.at(0).source.refused());
  EXPECT_TRUE(model.tensors.at(1).source.refused());
}

TEST(Hdf5Chunks, RowsLargerThanTheBudgetAreRefused) {
  B b;
  EXPECT_THAT(bytes_of(b, {10'000, 10'000}, B::chunked(b.chunk_tree({}, 2), {10'000, 1}, 1)),
              HasSubstr("a row of chunks of 100000000 bytes, at most 64"));
}

// A dataset of two chunks in a row of 40 MB, of which the second is invalid.
TEST(Hdf5Chunks, TemporaryFileGrowsWithTheChunks) {
  constexpr uint64_t kHalf = 5'000'000;
  B b;
  const std::string first(2 * kHalf, 'x');
  const uint64_t tree = b.chunk_tree({{b.put(first), first.size(), {0, 0}}, {b.put("?"), 1, {0, kHalf}}}, 2);
  const auto model =
      read_h5_well(one_dataset(b, b.dataset(Hdf5Type::integer(1), {2, 2 * kHalf}, B::chunked(tree, {2, kHalf}, 1))));
  const Slice source = model.tensors.at(0).source;
  EXPECT_EQ(read_text(source, 0, 3).value_or("?"), "xxx");
  EXPECT_EQ(ScratchFile::total(), 3 * kHalf);
  EXPECT_FALSE(read_text(source, kHalf, 3));
  EXPECT_EQ(ScratchFile::total(), 0U);
}

TEST(Hdf5Chunks, BuffersAreChargedWhileAChunkIsDecoded) {
  class Charged final : public Source {
   public:
    explicit Charged(std::string bytes) : bytes_(std::move(bytes)) {}
    uint64_t size() const override { return bytes_.size(); }
    Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
      if (budget) most = std::max(most, budget->memory_used());
      return in_memory(bytes_)->read(offset, out);
    }
    BudgetPtr budget;
    mutable uint64_t most = 0;

   private:
    std::string bytes_;
  };
  B b;
  const std::string chunk(1'000'000, 'x');
  const uint64_t tree = b.chunk_tree({{b.put(chunk), chunk.size(), {0}}}, 1);
  const auto file = std::make_shared<Charged>(
      one_dataset(b, b.dataset(Hdf5Type::integer(1), {1'000'000}, B::chunked(tree, {1'000'000}, 1))));
  const Container container{.name = "m.h5", .bytes = file};
  const auto model = read_as("hdf5", container);
  ASSERT_TRUE(model);
  const uint64_t before = container.budget->memory_used();
  file->budget = container.budget;
  EXPECT_EQ(read_text(model->tensors.at(0).source, 0, 3).value_or("?"), "xxx");
  EXPECT_EQ(file->most, before + 3'000'000);  // the stored bytes, the chunk and the row
  EXPECT_EQ(container.budget->memory_used(), before);
}

// Counts how often each byte of a file is read.
class CountedSource final : public Source {
 public:
  explicit CountedSource(std::string bytes) : bytes_(in_memory(std::move(bytes))) {}
  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset == watched) ++reads;
    return bytes_->read(offset, out);
  }
  uint64_t watched = 0;
  mutable int reads = 0;

 private:
  SourcePtr bytes_;
};

// Rows of the dataset alternate between two chunks.
TEST(Hdf5Chunks, EachChunkIsDecodedOnceByASequentialRead) {
  B b;
  const std::string stored = zlib_stored("acegikmo");
  const uint64_t at = b.put(stored);
  const std::vector<Hdf5Chunk> chunks = {{at, stored.size(), {0, 0}}, {b.put(stored), stored.size(), {0, 1}}};
  const uint64_t tree = b.chunk_tree(chunks, 2);
  const auto file = std::make_shared<CountedSource>(
      one_dataset(b, b.dataset(Hdf5Type::integer(1), {8, 2}, B::chunked(tree, {8, 1}, 1), {B::filters({{1, {6}}})})));
  file->watched = at;
  const auto model = read_as("hdf5", Container{"m.h5", file, nullptr});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(file->reads, 0);
  const Slice source = model->tensors.at(0).source;
  std::string bytes;
  for (uint64_t i = 0; i < source.size(); ++i) bytes += read_text(source, i, 1).value_or("?");
  EXPECT_EQ(bytes, "aacceeggiikkmmoo");
  EXPECT_EQ(file->reads, 1);
}

}  // namespace
}  // namespace weightfs::test::chunks_test
