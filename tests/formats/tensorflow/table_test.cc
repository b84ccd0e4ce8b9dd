#include "formats/tensorflow/checkpoint/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/builders/tensorflow_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/reading.h"

namespace weightfs::tensorflow {
namespace {

using namespace test::tensorflow;
using testing::ElementsAre;
using testing::HasSubstr;

// Keys and values of all blocks, or the error.
std::vector<std::string> entries_in(const std::string& bytes) {
  std::vector<std::string> out;
  const Container container{.name = "m.index", .bytes = in_memory(bytes)};
  const auto read = [&]() -> Result<void> {
    const Table table = TRY(Table::open(container));
    for (const Table::Block& each : table.blocks()) {
      Charges charges(*container.budget);
      BlockEntries entries = TRY(table.entries(each.handle, charges));
      while (TRY(entries.next())) {
        const std::string value = TRY(read_text(*entries.block(), entries.value().begin, entries.value().size()));
        out.push_back(entries.key() + "=" + value);
      }
    }
    return {};
  };
  if (const auto done = read(); !done) out.push_back(done.error().message);
  return out;
}

std::string error_of(const std::string& bytes) { return entries_in(bytes).back(); }

TEST(TensorflowTable, EntriesShareTheBeginningOfKeys) {
  EXPECT_THAT(entries_in(table({{"", "0"}, {"ab", "1"}, {"abc", ""}, {"b", "2"}})),
              ElementsAre("=0", "ab=1", "abc=", "b=2"));
}

TEST(TensorflowTable, BlocksOfSnappyAreDecoded) {
  EXPECT_THAT(entries_in(snappy_table({{"a", "1"}, {"b", "2"}})), ElementsAre("a=1", "b=2"));
}

TEST(TensorflowTable, OtherCompressionsAreRefused) {
  EXPECT_EQ(error_of(TableBuilder().add("a", block({{"a", "1"}}), 9).build()), "compression 9 of the block at 0");
}

TEST(TensorflowTable, SnappyThatClaimsMuchIsRefused) {
  EXPECT_EQ(error_of(TableBuilder().add("a", "\xFF\xFF\xFF\xFF\x0F", 1).build()),
            "a Snappy block of 5 bytes decodes to 4294967295");
  EXPECT_EQ(error_of(TableBuilder().add("a", std::string("\x05\x00", 2) + "x", 1).build()),
            "invalid data in a Snappy block");
}

TEST(TensorflowTable, WrongChecksumIsRefused) {
  std::string bytes = table({{"a", "1"}});
  bytes[0] ^= 1;
  EXPECT_EQ(error_of(bytes), "the checksum of the block at 0 differs");
}

TEST(TensorflowTable, LengthsThatLieAreRefused) {
  const auto error = [](const std::string& entries, uint32_t restarts = 1) {
    return error_of(TableBuilder().add("z", entries + test::little(0, 4) + test::little(restarts, 4)).build());
  };
  EXPECT_EQ(error_of(TableBuilder().add("z", "").build()), "a block of 0 bytes");
  EXPECT_EQ(error(std::string("\x05\x01\0k", 4)), "a key shares 5 bytes with one of 0");
  EXPECT_EQ(error(std::string("\0\x01\x7Fk", 4)), "an entry of 1 and 127 bytes, 1 left");
  EXPECT_EQ(error("", ~0U), "4294967295 restarts in a block of 8 bytes");
}

TEST(TensorflowTable, KeysOutOfOrderAreRefused) {
  EXPECT_EQ(error_of(table({{"b", "1"}, {"a", "2"}})), "the key \"a\" is not in order");
  EXPECT_EQ(error_of(table({{"b", "1"}, {"b", "2"}})), "the key \"b\" is not in order");
}

TEST(TensorflowTable, PlacesOutsideOfTheFileAreRefused) {
  const std::string good = table({{"a", "1"}});
  EXPECT_EQ(error_of(good.substr(0, good.size() - 1)), "no table: its magic number is missing");
  EXPECT_EQ(error_of(std::string(kMagic)), "no footer of a table");
  const auto with_index = [](uint64_t offset, uint64_t size) {
    std::string footer = test::varint(0) + test::varint(0) + test::varint(offset) + test::varint(size);
    footer.resize(40);
    return footer + std::string(kMagic);
  };
  EXPECT_EQ(error_of(with_index(1ULL << 63, 8)), "a block of 8 bytes at 9223372036854775808, the file has 48");
  EXPECT_THAT(error_of(with_index(8, ~0ULL)), HasSubstr("a block of 18446744073709551615 bytes at 8"));
}

TEST(TensorflowTable, BlocksThatSharePlacesAreRefused) {
  const std::string one = block({{"a", "1"}});
  const std::string handle = test::varint(0) + test::varint(one.size());
  const std::string index = block({{"a", handle}, {"b", handle}});
  const auto trailed = [](const std::string& bytes) { return bytes + '\0' + checksum(bytes + '\0'); };
  std::string footer = test::varint(0) + test::varint(0) + test::varint(one.size() + 5) + test::varint(index.size());
  footer.resize(40);
  EXPECT_THAT(error_of(trailed(one) + trailed(index) + footer + std::string(kMagic)), HasSubstr("begins before"));
}

}  // namespace
}  // namespace weightfs::tensorflow
