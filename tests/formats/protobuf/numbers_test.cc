#include "formats/protobuf/numbers.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/builders/protobuf_builder.h"
#include "tests/support/counted_source.h"
#include "tests/support/model_text.h"

namespace weightfs::protobuf::protobuf_numbers_test {
namespace {

using test::ProtobufBuilder;
using test::text_of;

NumbersField field_of(const std::string& bytes, WireType type) { return {{{Range{0, bytes.size()}}, 0}, 5, type}; }

std::string bytes_of(const ProtobufBuilder& message, uint64_t count, uint32_t width, WireType type = WireType::varint) {
  return text_of(*number_bytes(in_memory(message.build()), field_of(message.build(), type), count, width));
}

TEST(NumberBytes, PackedUnpackedAndMixedNumbersAreJoined) {
  ProtobufBuilder mixed;
  mixed.number(5, 'a').bytes(4, "other").bytes(5, "bc").bytes(5, "").group(5, ProtobufBuilder().number(5, 'x'));
  mixed.number(5, 'd').fixed32(5, 'x').bytes(5, "e");
  EXPECT_EQ(bytes_of(mixed, 5, 1), "abcde");
  EXPECT_EQ(bytes_of(ProtobufBuilder(), 0, 4), "");
}

TEST(NumberBytes, LowBytesOfEachNumberCount) {
  EXPECT_EQ(bytes_of(ProtobufBuilder().number(5, ~0ULL).number(5, 0x1FE), 2, 1), "\xFF\xFE");
  EXPECT_EQ(bytes_of(ProtobufBuilder().number(5, 0x4443424140), 1, 4), "@ABC");
  EXPECT_EQ(bytes_of(ProtobufBuilder().bytes(5, "\x85\x80" + std::string(1, '\0')), 1, 1), "\5");
}

TEST(NumberBytes, FixedNumbersAreReadFromSeveralChunks) {
  EXPECT_EQ(
      bytes_of(ProtobufBuilder().bytes(5, "abcd").fixed32(5, 0x68676665).bytes(5, "ijkl"), 3, 4, WireType::fixed32),
      "abcdefghijkl");
  EXPECT_EQ(bytes_of(ProtobufBuilder().bytes(5, "abcdefgh").fixed64(5, 0x30), 2, 8, WireType::fixed64).substr(0, 9),
            "abcdefgh0");
}

TEST(NumberBytes, MergedMessagesAreOneField) {
  const std::string bytes = ProtobufBuilder().number(5, 'a').number(6, 0).number(5, 'b').build();
  const NumbersField field{{{Range{0, 2}, Range{2, 2}, Range{4, 6}}, 0}, 5, WireType::varint};
  EXPECT_EQ(text_of(*number_bytes(in_memory(bytes), field, 2, 1)), "ab");
}

TEST(NumberBytes, WrongCountFailsToRead) {
  const auto read = [](uint64_t count) {
    const std::string bytes = ProtobufBuilder().bytes(5, "abc").build();
    const auto source = number_bytes(in_memory(bytes), field_of(bytes, WireType::varint), count, 2);
    EXPECT_EQ(source->size(), count * 2);
    std::array<std::byte, 9> all{};
    return source->read(0, all);
  };
  EXPECT_EQ(read(2).error().message, "more than 2 numbers, 2 by the shape");
  EXPECT_EQ(read(4).error().message, "3 numbers, 4 by the shape");
  EXPECT_EQ(read(3).value(), 6U);
}

// A read scans only up to its end, and counts each number once.
TEST(NumberBytes, FirstReadDoesNotReadAll) {
  const std::string bytes = ProtobufBuilder().bytes(5, std::string(1'000'000, '\1')).build();
  const auto counted = std::make_shared<test::CountedSource>(bytes);
  const auto source = number_bytes(counted, field_of(bytes, WireType::varint), 1'000'000, 1);
  EXPECT_EQ(read_text(*source, 0, 10).value(), std::string(10, '\1'));
  EXPECT_LE(counted->bytes_read, 2'000U);
  EXPECT_EQ(read_text(*source, 500'000, 10).value(), std::string(10, '\1'));
  const uint64_t before = counted->bytes_read;
  EXPECT_EQ(read_text(*source, 499'000, 10).value(), std::string(10, '\1'));
  EXPECT_LE(counted->bytes_read, before + 4'000U);
}

// 1,024 numbers lie between two places of the index.
TEST(NumberBytes, ReadsAtAnyOffset) {
  ProtobufBuilder message;
  std::string chunk;
  std::string expected;
  for (uint64_t i = 0; i < 5'000; ++i) {
    const uint64_t number = i * 77;
    if (i % 700 == 0) {
      message.bytes(5, chunk).number(5, number);
      chunk.clear();
    } else {
      chunk += test::varint(number);
    }
    for (int byte = 0; byte < 3; ++byte) expected += static_cast<char>(number >> (8 * byte));
  }
  message.bytes(5, chunk);
  const auto source = number_bytes(in_memory(message.build()), field_of(message.build(), WireType::varint), 5'000, 3);
  for (const uint64_t offset : {0U, 1U, 3'071U, 3'072U, 3'073U, 9'000U, 14'990U, 14'999U})
    for (const uint64_t size : {1U, 2U, 3U, 4'000U})
      EXPECT_EQ(read_text(*source, offset, std::min<uint64_t>(size, 15'000 - offset)).value(),
                expected.substr(offset, size));
  std::byte beyond{};
  EXPECT_EQ(source->read(15'000, std::span(&beyond, 1)).value(), 0U);
}

TEST(NumbersLayout, FindsContiguousNumbers) {
  NumbersLayout layout;
  EXPECT_TRUE(layout.absent());
  layout.add_chunk({7, 7});
  EXPECT_TRUE(layout.absent());
  layout.add_chunk({8, 16});
  EXPECT_EQ(layout.contiguous()->begin, 8U);
  layout.add_single();
  EXPECT_FALSE(layout.contiguous());
}

TEST(NumbersLayout, BoundsTheCount) {
  NumbersLayout layout;
  EXPECT_TRUE(layout.can_have(0, WireType::varint));
  EXPECT_FALSE(layout.can_have(1, WireType::varint));
  layout.add_chunk({0, 24});
  layout.add_single();
  EXPECT_TRUE(layout.can_have(7, WireType::fixed32));
  EXPECT_FALSE(layout.can_have(6, WireType::fixed32));
  EXPECT_TRUE(layout.can_have(4, WireType::fixed64));
  EXPECT_FALSE(layout.can_have(3, WireType::varint));  // three bytes of 10 are too few
  EXPECT_TRUE(layout.can_have(4, WireType::varint));
  EXPECT_TRUE(layout.can_have(25, WireType::varint));
  EXPECT_FALSE(layout.can_have(26, WireType::varint));
  EXPECT_FALSE(layout.can_have(0, WireType::varint));
  layout.add_chunk({30, 33});
  EXPECT_FALSE(layout.can_have(7, WireType::fixed32));
}

}  // namespace
}  // namespace weightfs::protobuf::protobuf_numbers_test
