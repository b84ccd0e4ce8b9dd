#include "formats/float32.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tests/builders/quantised_blocks.h"
#include "tests/support/counted_source.h"

namespace weightfs::float32_test {
namespace {

std::string random_bytes(size_t size) {
  std::mt19937_64 random(size);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

Tensor tensor_in(const SourcePtr& source, const DType* dtype, uint64_t elements) {
  Tensor tensor = tensor_of(dtype, elements, "");
  tensor.source = slice(source, 0, source->size()).value();
  return tensor;
}

std::string part_of(const Source& source, uint64_t offset, size_t length) {
  std::string part(length, '?');
  part.resize(source.read(offset, std::as_writable_bytes(std::span(part))).value());
  return part;
}

TEST(Float32Values, Float32IsReadAsStored) {
  const std::string bytes = random_bytes(400);
  const auto source = float32_values(tensor_of(dtype_named("float32"), 100, bytes));
  EXPECT_EQ(part_of(*source, 0, 400), bytes);
}

// One byte and one block around each boundary, and ranges of several rounds.
TEST(Float32Values, EveryRangeHasTheSameBytes) {
  const std::vector<std::pair<const DType*, uint64_t>> types = {
      {dtype_named("q4_0"), 100 * 32}, {dtype_named("q6_k"), 400 * 256},    {dtype_named("float16"), 40'000},
      {dtype_named("float64"), 9000},  {packed_dtype_named("uint3"), 9001}, {big_endian(dtype_named("q8_0")), 640}};
  for (const auto& [dtype, elements] : types) {
    const size_t stored = size_in_bytes(*dtype, Shape{elements}).value();
    const auto source = float32_values(tensor_of(dtype, elements, random_bytes(stored)));
    const std::string all = part_of(*source, 0, elements * 4 + 1);
    ASSERT_EQ(all.size(), elements * 4) << dtype->name;
    for (const uint64_t offset : {0U, 1U, 3U, 4U, 127U, 128U, 129U, 1023U, 1024U, 4099U, 32'000U, 36'000U, 36'004U})
      for (const size_t length : {0U, 1U, 5U, 128U, 1024U, 1025U, 5000U, 300'000U})
        ASSERT_EQ(part_of(*source, offset, length), all.substr(std::min<size_t>(offset, all.size()), length))
            << dtype->name << ": " << length << " bytes at " << offset;
    EXPECT_EQ(part_of(*source, all.size() - 1, 9), all.substr(all.size() - 1));
    EXPECT_EQ(part_of(*source, all.size(), 9), "");
    EXPECT_EQ(part_of(*source, UINT64_MAX, 9), "");
  }
}

// Into memory of any alignment.
TEST(Float32Values, DestinationNeedNoAlignment) {
  const auto source = float32_values(tensor_of(dtype_named("q4_0"), 320, random_bytes(180)));
  const std::string all = part_of(*source, 0, 1280);
  for (size_t shift = 0; shift < 4; ++shift) {
    std::string buffer(1284, '?');
    EXPECT_EQ(source->read(0, std::as_writable_bytes(std::span(buffer)).subspan(shift, 1280)).value(), 1280U);
    EXPECT_EQ(buffer.substr(shift, 1280), all);
  }
}

TEST(Float32Values, SmallReadConvertsOnlyItsBlocks) {
  const auto bytes = std::make_shared<test::CountedSource>(random_bytes(1000 * 144));
  const auto source = float32_values(tensor_in(bytes, dtype_named("q4_k"), 1000 * 256));
  EXPECT_EQ(bytes->bytes_read, 0U) << "opening reads nothing";
  part_of(*source, 500 * 1024 + 4, 8);
  EXPECT_EQ(bytes->bytes_read, 144U);
  part_of(*source, 500 * 1024 - 4, 8);
  EXPECT_EQ(bytes->bytes_read, 3U * 144U);
}

TEST(Float32Values, ThreadsReadAtOnce) {
  const auto source = float32_values(tensor_of(dtype_named("iq2_xs"), 300 * 256, random_bytes(300 * 74)));
  const std::string all = part_of(*source, 0, 300 * 1024);
  std::vector<std::string> wrong(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 200; ++i) {
        const size_t offset = random() % all.size();
        const size_t length = random() % 20'000;
        if (part_of(*source, offset, length) != all.substr(offset, length))
          wrong[t] = std::to_string(length) + " bytes at " + std::to_string(offset);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<std::string>(8));
}

// A tensor whose bytes are fewer than its shape needs is never made by a format; it is no reason to read outside.
TEST(Float32Values, TooFewBytesAreAnError) {
  const auto source = float32_values(tensor_of(dtype_named("q8_0"), 64, random_bytes(67)));
  EXPECT_EQ(part_of(*source, 0, 128).size(), 128U) << "the first block is complete";
  std::string out(256, '\0');
  const auto got = source->read(0, std::as_writable_bytes(std::span(out)));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::corrupt);
}

// Bytes on a server: the range of a reader becomes a range of the stored bytes.
TEST(Float32Values, ExpectedRangeIsOfStoredBytes) {
  class Recorded final : public Source {
   public:
    uint64_t size() const override { return 180; }
    Result<size_t> read(uint64_t, std::span<std::byte> out) const override { return out.size(); }
    Result<size_t> read_ahead(uint64_t, std::span<std::byte> out, ByteRange expected) const override {
      ranges.push_back({expected.from, expected.to});
      return out.size();
    }
    Result<void> prefetch(ByteRange range) const override {
      ranges.push_back({range.from, range.to});
      return {};
    }
    mutable std::vector<std::pair<uint64_t, uint64_t>> ranges;
  };
  const auto stored = std::make_shared<Recorded>();
  const auto source = float32_values(tensor_in(stored, dtype_named("q4_0"), 320));
  std::string out(4, '\0');
  ASSERT_TRUE(source->read_ahead(130, std::as_writable_bytes(std::span(out)), {130, 260}));
  ASSERT_TRUE(source->prefetch({0, 128}));
  ASSERT_TRUE(source->prefetch({1279, UINT64_MAX}));
  const std::vector<std::pair<uint64_t, uint64_t>> expected = {{18, 54}, {0, 18}, {162, 180}};
  EXPECT_EQ(stored->ranges, expected);
}

TEST(Float32Values, EmptyTensorHasNoBytes) {
  const auto source = float32_values(tensor_of(dtype_named("q4_0"), 0, ""));
  EXPECT_EQ(source->size(), 0U);
  EXPECT_EQ(part_of(*source, 0, 4), "");
}

}  // namespace
}  // namespace weightfs::float32_test
