#include "formats/common/strided.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <random>

#include "base/files/leaf.h"
#include "base/verity/recent_blocks.h"

namespace weightfs::strided_test {
namespace {

// Numbers that count up, as bytes of the type T.
template <class T>
std::string counted(size_t count) {
  std::vector<T> numbers(count);
  std::iota(numbers.begin(), numbers.end(), T{1});
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

Slice storage_of(std::string bytes) {
  const uint64_t size = bytes.size();
  return slice(in_memory(std::move(bytes)), 0, size).value();
}

std::string all_of(const Source& source) { return read_text(source, 0, source.size()).value(); }

Result<Slice> strided_as(std::string_view dtype, const Slice& storage, uint64_t offset, const Shape& shape,
                         const Strides& strides, const Conversion& conversion = {}) {
  return strided(storage, offset, *dtype_named(dtype), shape, strides, conversion);
}

std::string elements_one_by_one(const std::string& storage, size_t width, uint64_t offset, const Shape& shape,
                                const Strides& strides) {
  std::string out;
  const uint64_t count = std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t element = offset;
    uint64_t left = i;
    for (size_t d = shape.size(); d-- > 0; left /= shape[d]) element += left % shape[d] * strides[d];
    out += storage.substr(element * width, width);
  }
  return out;
}

TEST(Strided, ContiguousTensorIsSliceOfStorage) {
  const Slice storage = storage_of(counted<uint16_t>(24));
  const Slice all = strided_as("uint16", storage, 4, {2, 1, 5}, {5, 99, 1}).value();
  EXPECT_EQ(all.whole(), storage.whole()) << "the stride of a dimension of one element does not matter";
  EXPECT_EQ(all.offset(), 8U);
  EXPECT_EQ(all.size(), 20U);
  EXPECT_EQ(strided_as("uint16", storage, 24, {3, 0}, {1, 1}).value().size(), 0U);
  EXPECT_EQ(all_of(strided_as("uint16", storage, 23, {}, {}).value()), std::string("\x18\x00", 2));
}

TEST(Strided, TransposedMatrixIsGathered) {
  const Slice storage = storage_of(counted<uint8_t>(6));
  EXPECT_EQ(all_of(strided_as("uint8", storage, 0, {3, 2}, {1, 3}).value()), "\x01\x04\x02\x05\x03\x06");
  EXPECT_EQ(fortran_strides({3, 2}), (Strides{1, 3}));
  EXPECT_EQ(c_strides({3, 2}), (Strides{2, 1}));
}

TEST(Strided, ExpandedTensorRepeatsElements) {
  const Slice storage = storage_of(counted<uint8_t>(2));
  EXPECT_EQ(all_of(strided_as("uint8", storage, 0, {2, 3}, {1, 0}).value()), "\x01\x01\x01\x02\x02\x02");
  const Slice huge = strided_as("uint8", storage, 1, {1 << 20, 1 << 20}, {0, 0}).value();
  EXPECT_EQ(huge.size(), uint64_t{1} << 40);
  EXPECT_EQ(read_text(huge, (uint64_t{1} << 40) - 3, 3).value(), "\x02\x02\x02");
}

TEST(Strided, EveryLayoutEqualsCopyOfSingleElements) {
  std::mt19937 random(14);
  const auto number = [&](uint64_t most) { return random() % (most + 1); };
  for (const auto& [name, width] : {std::pair{"uint8", 1U}, {"float16", 2U}, {"int32", 4U}, {"complex128", 16U}}) {
    const std::string bytes = counted<uint8_t>(40'000 * width);
    const Slice storage = storage_of(bytes);
    for (int round = 0; round < 300; ++round) {
      Shape shape(number(4));
      Strides strides(shape.size());
      for (uint64_t& dimension : shape) dimension = 1 + number(9);
      for (uint64_t& stride : strides) stride = number(round % 2 == 0 ? 12 : 1000);
      const uint64_t offset = number(500);
      const auto made = strided_as(name, storage, offset, shape, strides);
      ASSERT_TRUE(made.has_value()) << made.error().message;
      const std::string expected = elements_one_by_one(bytes, width, offset, shape, strides);
      ASSERT_EQ(all_of(*made), expected) << name << ", round " << round;
      const uint64_t begin = number(expected.size() - 1);
      const uint64_t length = number(expected.size() - begin);
      ASSERT_EQ(read_text(*made, begin, length).value(), expected.substr(begin, length)) << name << ", round " << round;
    }
  }
}

// A type of each size that elements have.
constexpr std::array<std::pair<std::string_view, uint64_t>, 5> kWidths = {
    {{"uint8", 1}, {"float16", 2}, {"int32", 4}, {"float64", 8}, {"complex128", 16}}};

std::string random_bytes(uint64_t size) {
  std::mt19937_64 random(7);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

TEST(Strided, EveryOrderOfDimensionsEqualsCopyOfSingleElements) {
  for (const Shape& stored : {Shape{37, 21, 19}, Shape{5, 17, 33, 3}, Shape{16, 2, 8, 64}}) {
    Shape order(stored.size());
    std::iota(order.begin(), order.end(), uint64_t{0});
    const Strides stored_strides = c_strides(stored);
    const uint64_t elements = stored[0] * stored_strides[0];
    do {
      Shape shape;
      Strides strides;
      for (const uint64_t dimension : order) {
        shape.push_back(stored[dimension]);
        strides.push_back(stored_strides[dimension]);
      }
      for (const auto& [name, width] : kWidths) {
        // The storage begins at an odd byte, and the tensor after three of its elements.
        const std::string bytes = random_bytes((elements + 3) * width);
        const SourcePtr unaligned = in_memory("!" + bytes);
        const Slice storage = slice(unaligned, 1, bytes.size()).value();
        const Slice made = strided_as(name, storage, 3, shape, strides).value();
        const std::string expected = elements_one_by_one(bytes, width, 3, shape, strides);
        ASSERT_TRUE(all_of(made) == expected) << name << ", order " << testing::PrintToString(order);
        const std::string part = read_text(made, 1001, expected.size() - 1999).value();
        ASSERT_TRUE(part == expected.substr(1001, expected.size() - 1999)) << name;
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(Strided, TransposedMatrixOfOddSidesEqualsCopyOfSingleElements) {
  for (const auto& [name, width] : kWidths)
    for (const auto& [rows, columns] :
         {std::pair<uint64_t, uint64_t>{1, 700}, {15, 1300}, {17, 15}, {1025, 16}, {513, 1031}, {1031, 129}}) {
      const std::string bytes = random_bytes(rows * columns * width);
      const Slice made = strided_as(name, storage_of(bytes), 0, {rows, columns}, {1, rows}).value();
      EXPECT_TRUE(all_of(made) == elements_one_by_one(bytes, width, 0, {rows, columns}, {1, rows}))
          << name << ", " << rows << " x " << columns;
    }
}

TEST(Strided, LargeTransposedMatrixEqualsCopyOfSingleElements) {
  const std::string bytes = counted<uint32_t>(3000 * 1777);
  const Slice made = strided_as("uint32", storage_of(bytes), 0, {1777, 3000}, {1, 1777}).value();
  const auto held = made.keep_cached();
  const std::string expected = elements_one_by_one(bytes, 4, 0, {1777, 3000}, {1, 1777});
  EXPECT_TRUE(all_of(made) == expected);
  std::string pieces;
  while (pieces.size() < expected.size())
    pieces += read_text(made, pieces.size(), std::min<uint64_t>(100'001, expected.size() - pieces.size())).value();
  EXPECT_TRUE(pieces == expected);
}

// Counts the reads, the bytes that they return, and the groups of reads that are requested together.
class Counted final : public Leaf {
 public:
  explicit Counted(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t count = bytes_.copy(reinterpret_cast<char*>(out.data()), out.size(), offset);
    ++reads;
    bytes_read += count;
    return count;
  }
  Result<void> read_pieces(std::span<const Piece> pieces) const override {
    ++groups;
    return Leaf::read_pieces(pieces);
  }
  // Several threads read.
  mutable std::atomic<uint64_t> groups = 0;
  mutable std::atomic<uint64_t> reads = 0;
  mutable std::atomic<uint64_t> bytes_read = 0;

 private:
  std::string bytes_;
};

TEST(Strided, SequentialReadsGatherEachBlockOnce) {
  constexpr uint64_t kSide = 2048;
  constexpr uint64_t kRows = 3 * 2048;  // 48 MiB, three blocks
  const auto counting = std::make_shared<Counted>(std::string(kRows * kSide * 4, 'x'));
  const Slice storage = slice(counting, 0, counting->size()).value();
  const Slice made = strided_as("float32", storage, 0, {kRows, kSide}, {1, kRows}).value();
  const auto held = made.keep_cached();
  for (uint64_t at = 0; at < made.size(); at += 128 * 1024) ASSERT_TRUE(read_text(made, at, 128 * 1024).has_value());
  EXPECT_LE(counting->bytes_read, 2 * made.size());
  EXPECT_LE(counting->reads, 4 * kSide) << "those of the first read, and of three blocks";
  EXPECT_LE(counting->groups, counting->reads / 32) << "a file is examined once for each";
}

// Dimensions that are longer than a buffer are read in pieces, not one element after the other.
TEST(Strided, LongThinMatricesAreReadInLargePieces) {
  constexpr uint64_t kLong = uint64_t{6} << 20;
  for (const Shape& shape : {Shape{kLong, 2}, Shape{2, kLong}}) {
    std::string bytes(2 * kLong, '\0');
    for (uint64_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
    const auto counting = std::make_shared<Counted>(bytes);
    const Slice storage = slice(counting, 0, counting->size()).value();
    const Strides strides = fortran_strides(shape);
    const Slice made = strided_as("uint8", storage, 0, shape, strides).value();
    EXPECT_TRUE(all_of(made) == elements_one_by_one(bytes, 1, 0, shape, strides)) << shape[0];
    EXPECT_LE(counting->reads, 100U) << shape[0];
  }
}

TEST(Strided, RandomReadGathersNoNeighbours) {
  constexpr uint64_t kSide = 2048;
  const auto counting = std::make_shared<Counted>(std::string(kSide * kSide * 4, 'x'));
  const Slice storage = slice(counting, 0, counting->size()).value();
  const Slice made = strided_as("float32", storage, 0, {kSide, kSide}, {1, kSide}).value();
  ASSERT_TRUE(read_text(made, 12 << 20, 64).has_value());
  EXPECT_LE(counting->bytes_read, 16 * 4U);
  ASSERT_TRUE(read_text(strided_as("float32", storage, 0, {kSide, kSide}, {1, kSide}).value(), 0, 64).has_value());
  EXPECT_LE(counting->bytes_read, 2 * 16 * 4U) << "the first read of a file, too";
}

// As the header of an .npy file, and by several views.
TEST(Strided, FirstBytesGatherNoNeighboursHoweverOftenTheyAreRead) {
  constexpr uint64_t kSide = 2048;
  const auto counting = std::make_shared<Counted>(std::string(kSide * kSide * 4, 'x'));
  const Slice storage = slice(counting, 0, counting->size()).value();
  const Slice made = strided_as("float32", storage, 0, {kSide, kSide}, {1, kSide}).value();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(read_text(made, 0, 64).has_value());
  EXPECT_LE(counting->bytes_read, 3 * 16 * 4U);
}

TEST(Strided, GatheredTensorIsCharged) {
  Budget budget(0);
  const Slice storage = storage_of(counted<uint8_t>(200'000));
  ASSERT_TRUE(charge_gathering(budget, strided_as("uint8", storage, 0, {400, 500}, {500, 1}).value(), storage));
  EXPECT_EQ(budget.time_used(), 0U);
  ASSERT_TRUE(charge_gathering(budget, strided_as("uint8", storage, 0, {500, 400}, {1, 500}).value(), storage));
  constexpr uint64_t kDescription = 1024;
  EXPECT_EQ(budget.time_used(), (5 + 3) * 200'000U + kDescription);
}

TEST(Strided, BlocksAreFreedWhenNoFileIsOpen) {
  const Slice made = strided_as("uint8", storage_of(counted<uint8_t>(200 * 300)), 0, {300, 200}, {1, 300}).value();
  const uint64_t before = recent_blocks_size();
  auto held = made.keep_cached();
  auto again = made.keep_cached();
  for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(read_text(made, i, 60'000 - i).has_value());
  EXPECT_GE(recent_blocks_size(), before + 60'000);
  held.reset();
  EXPECT_GE(recent_blocks_size(), before + 60'000) << "another file is open";
  again.reset();
  EXPECT_EQ(recent_blocks_size(), before);
}

TEST(Strided, ConvertsBigEndianNumbers) {
  const Slice storage = storage_of(counted<uint8_t>(16));
  EXPECT_EQ(all_of(strided_as("int32", storage, 1, {2}, {1}, {.swap = 4}).value()), "\x08\x07\x06\x05\x0C\x0B\x0A\x09");
  EXPECT_EQ(all_of(strided_as("complex64", storage, 1, {1}, {1}, {.swap = 4}).value()),
            "\x0C\x0B\x0A\x09\x10\x0F\x0E\x0D");
  EXPECT_EQ(read_text(strided_as("int32", storage, 0, {4}, {1}, {.swap = 4}).value(), 3, 3).value(), "\x01\x08\x07");
}

TEST(Strided, ConjugatesAndNegates) {
  const auto values = [](auto... numbers) {
    const auto all = std::to_array<float>({numbers...});
    return std::string(reinterpret_cast<const char*>(all.data()), sizeof all);
  };
  const Slice complex = storage_of(values(1.0F, 2.0F, 3.0F, -4.0F));
  const auto converted = [&](const Conversion& conversion) {
    return all_of(strided_as("complex64", complex, 0, {2}, {1}, conversion).value());
  };
  EXPECT_EQ(converted({.conjugate = true}), values(1.0F, -2.0F, 3.0F, 4.0F));
  EXPECT_EQ(converted({.negate = true}), values(-1.0F, -2.0F, -3.0F, 4.0F));
  EXPECT_EQ(converted({.conjugate = true, .negate = true}), values(-1.0F, 2.0F, -3.0F, -4.0F));
  EXPECT_EQ(all_of(strided_as("float32", complex, 0, {4}, {1}, {.negate = true}).value()),
            values(-1.0F, -2.0F, -3.0F, 4.0F));
  EXPECT_EQ(
      all_of(
          strided_as("int16", storage_of(std::string("\x01\x00\xFE\xFF", 4)), 0, {2}, {1}, {.negate = true}).value()),
      std::string("\xFF\xFF\x02\x00", 4));
}

TEST(Strided, RefusesElementsOutsideOfStorage) {
  const Slice storage = storage_of(counted<uint32_t>(12));
  constexpr uint64_t kHuge = ~uint64_t{0};
  EXPECT_TRUE(strided_as("uint32", storage, 0, {3, 4}, {4, 1}).has_value());
  EXPECT_FALSE(strided_as("uint32", storage, 1, {3, 4}, {4, 1}).has_value());
  EXPECT_FALSE(strided_as("uint32", storage, 0, {3, 4}, {5, 1}).has_value());
  EXPECT_FALSE(strided_as("uint32", storage, 12, {}, {}).has_value());
  EXPECT_FALSE(strided_as("uint32", storage, kHuge, {2}, {1}).has_value());
  EXPECT_FALSE(strided_as("uint32", storage, 0, {2, 2}, {kHuge, 1}).has_value());
  EXPECT_FALSE(strided_as("uint32", storage, 0, {3, 3}, {kHuge / 2 + 1, kHuge / 2 + 1}).has_value());
  EXPECT_FALSE(strided_as("uint32", storage, 0, {kHuge, kHuge}, {0, 0}).has_value()) << "the size overflows";
  EXPECT_FALSE(strided_as("uint32", storage, 0, {3, 4}, {1}).has_value()) << "a stride is missing";
}

TEST(Strided, PackedElementsAreServedOnlyAsStored) {
  const Slice storage = storage_of("\x21\x43\x65");
  const DType& int4 = *packed_dtype_named("int4");
  EXPECT_EQ(all_of(strided(storage, 2, int4, {3}, {1}).value()), "\x43\x65");
  EXPECT_FALSE(strided(storage, 1, int4, {2}, {1}).has_value()) << "begins inside a byte";
  EXPECT_FALSE(strided(storage, 0, int4, {2, 2}, {1, 2}).has_value()) << "transposed";
  EXPECT_FALSE(strided(storage, 0, int4, {7}, {1}).has_value()) << "longer than the storage";
}

}  // namespace
}  // namespace weightfs::strided_test
