#include "formats/protobuf/scanner.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/builders/protobuf_builder.h"
#include "tests/support/counted_source.h"

namespace weightfs::protobuf::scanner_test {
namespace {

using test::ProtobufBuilder;
using testing::ElementsAre;
using testing::HasSubstr;

// One line per field: number, type, value; or the error, last.
std::vector<std::string> fields_of(const std::string& bytes, int depth = 0) {
  const SourcePtr source = in_memory(bytes);
  Scanner scanner(*source, nullptr);
  Message whole = scanner.whole();
  whole.depth = depth;
  Fields fields(scanner, whole);
  std::vector<std::string> lines;
  while (true) {
    const auto field = fields.next();
    if (!field) return lines.push_back("error: " + field.error().message), lines;
    if (!*field) return lines;
    const auto type = static_cast<WireType>((*field)->tag & 7);
    lines.push_back(fmt::format("{} {} {}", (*field)->number(), (*field)->tag & 7,
                                type == WireType::bytes ? scanner.text((*field)->bytes, 99).value_or("unreadable")
                                                        : std::to_string((*field)->value)));
  }
}

std::string error_of(const std::string& bytes, int depth = 0) { return fields_of(bytes, depth).back(); }

std::string groups(int depth) {
  return std::string(static_cast<size_t>(depth), '\x0B') + std::string(static_cast<size_t>(depth), '\x0C');
}

TEST(ProtobufFields, AreListedInOrderWithTheirValues) {
  EXPECT_THAT(fields_of(ProtobufBuilder()
                            .number(1, 300)
                            .fixed64(2, 7)
                            .bytes(3, "abc")
                            .fixed32(536'870'911, 8)
                            .bytes(3, "")
                            .number(1, ~0ULL)
                            .build()),
              ElementsAre("1 0 300", "2 1 7", "3 2 abc", "536870911 5 8", "3 2 ", "1 0 18446744073709551615"));
  EXPECT_THAT(fields_of(""), ElementsAre());
}

TEST(ProtobufFields, OverlongVarintsAreRead) {
  EXPECT_THAT(fields_of("\x08\x81\x80\x80" + std::string(1, '\0')), ElementsAre("1 0 1"));
  EXPECT_THAT(fields_of("\x88" + std::string(1, '\0') + "\5"), ElementsAre("1 0 5"));
  EXPECT_THAT(error_of("\x08" + std::string(10, '\x80') + "\1"), HasSubstr("a number of more than 10 bytes at byte"));
}

TEST(ProtobufFields, GroupsAreSkipped) {
  EXPECT_THAT(fields_of(ProtobufBuilder()
                            .group(1, ProtobufBuilder().number(2, 1).bytes(3, "x").group(1, {}).fixed32(4, 1))
                            .number(5, 6)
                            .build()),
              ElementsAre("5 0 6"));
}

TEST(ProtobufFields, MalformedFieldsAreRefused) {
  EXPECT_EQ(error_of(std::string(2, '\0')), "error: protobuf: field number 0 at byte 0");
  EXPECT_EQ(error_of("\x0E"), "error: protobuf: unknown wire type 6 at byte 0");
  EXPECT_EQ(error_of("\x0F"), "error: protobuf: unknown wire type 7 at byte 0");
  EXPECT_EQ(error_of("\x0C"), "error: protobuf: the end of a group that has no beginning at byte 0");
  EXPECT_EQ(error_of("\x0B"), "error: protobuf: a group without an end at byte 1");
  EXPECT_EQ(error_of("\x0B\x14"), "error: protobuf: the end of another group at byte 1");
  EXPECT_EQ(error_of("\x0A\4abc"), "error: protobuf: a field of 4 bytes, 3 left: the file ends 1 byte early at byte 0");
  EXPECT_EQ(error_of("\x0D"
                     "abc"),
            "error: protobuf: a number is cut at byte 1");
  EXPECT_EQ(error_of("\x09"
                     "abcdefg"),
            "error: protobuf: a number is cut at byte 1");
  EXPECT_EQ(error_of("\x08\x80"), "error: protobuf: a number is cut at byte 2");
  EXPECT_THAT(error_of("\x0A" + test::varint(1ULL << 63)), HasSubstr("a field of 9223372036854775808 bytes"));
  EXPECT_THAT(error_of("\x0A" + test::varint(~0ULL)), HasSubstr(", 0 left"));
  EXPECT_THAT(error_of(test::varint(1ULL << 32)), HasSubstr("field number 536870912"));
}

TEST(ProtobufFields, MessagesAndGroupsAreLimitedTogether) {
  EXPECT_THAT(fields_of(groups(100)), ElementsAre());
  EXPECT_EQ(error_of(groups(101)), "error: protobuf: messages nested more than 100 deep");
  EXPECT_THAT(fields_of(groups(1), 99), ElementsAre());
  EXPECT_EQ(error_of(groups(1), 100), "error: protobuf: messages nested more than 100 deep");
  EXPECT_EQ(error_of(groups(100'000)), "error: protobuf: messages nested more than 100 deep");
}

TEST(ProtobufScanner, ChildIsOneLevelDeeperUpToTheLimit) {
  const SourcePtr source = in_memory("");
  const Scanner scanner(*source, nullptr);
  EXPECT_EQ(scanner.child({{}, 99}, {}).value().depth, 100);
  EXPECT_EQ(scanner.child({{}, 100}, {}).error().code, Code::unsupported);
}

TEST(ProtobufScanner, RepeatedMessageIsMerged) {
  const SourcePtr source = in_memory(
      ProtobufBuilder().message(1, ProtobufBuilder().number(1, 1)).message(1, ProtobufBuilder().number(2, 2)).build());
  Scanner scanner(*source, nullptr);
  const Message whole = scanner.whole();
  Message merged;
  EXPECT_TRUE(merged.absent());
  Fields fields(scanner, whole);
  while (const auto field = fields.next().value()) ASSERT_TRUE(scanner.merge(merged, whole, *field));
  Fields inner(scanner, merged);
  EXPECT_EQ(inner.next().value()->number(), 1U);
  EXPECT_EQ(inner.next().value()->number(), 2U);
  EXPECT_FALSE(inner.next().value());
}

TEST(ProtobufScanner, ValuesAreSkippedWithoutBeingRead) {
  const uint64_t value = 3'000'000'000;
  const std::string head = std::string("\x0A") + test::varint(value);
  const test::CountedSource source(head, head.size() + value);
  Budget budget(source.size());
  Scanner scanner(source, &budget);
  const Message whole = scanner.whole();
  Fields fields(scanner, whole);
  EXPECT_EQ(fields.next().value()->bytes.size(), value);
  EXPECT_FALSE(fields.next().value());
  EXPECT_LE(source.bytes_read, 512U);
  EXPECT_GT(budget.time_used(), 0U);
}

TEST(ProtobufScanner, LongTextIsRefusedBeforeItIsRead) {
  const test::CountedSource source("", 1'000'000'000'000);
  Scanner scanner(source, nullptr);
  EXPECT_EQ(scanner.text({0, 1'000'000'000'000}, 100).error().code, Code::unsupported);
  EXPECT_EQ(source.bytes_read, 0U);
  EXPECT_EQ(scanner.text({5, 200'005}, 200'000).value(), std::string(200'000, '\0'));
}

}  // namespace
}  // namespace weightfs::protobuf::scanner_test
