#include "formats/flatbuffer/flatbuffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/builders/flatbuffer_builder.h"
#include "tests/support/reading.h"

namespace weightfs::flatbuffer_test {
namespace {

using namespace test::flatbuffer;
using flatbuffer::Buffer;
using flatbuffer::List;
using flatbuffer::Table;
using test::error_in;
using testing::ElementsAre;
using testing::HasSubstr;

// A FlatBuffer in memory, and its reader.
struct Opened {
  explicit Opened(std::string bytes) : source(in_memory(std::move(bytes))), buffer(*source, budget) {}
  explicit Opened(const Ref& root) : Opened(FlatBufferLayout(root).take().bytes()) {}

  Table root() { return Table::root(buffer).value(); }
  std::string error() { return error_in(Table::root(buffer)); }

  SourcePtr source;
  Budget budget{1'000'000};
  Buffer buffer;
};

TEST(FlatBuffer, ReadsFieldsByTheirSlots) {
  Opened file(table({{0, scalar(uint8_t{7})},
                     {2, text("text")},
                     {3, table({{0, scalar(-1)}})},
                     {4, list<int16_t>({1, -2})},
                     {5, tables({table({{0, scalar(uint64_t{9})}})})}}));
  const Table root = file.root();
  EXPECT_EQ(root.number<uint8_t>(0).value(), 7);
  EXPECT_EQ(root.text(2, 4).value(), "text");
  EXPECT_EQ(root.table(3)->number<int32_t>(0).value(), -1);
  EXPECT_THAT(root.list(4, 2)->numbers<int16_t>(2).value(), ElementsAre(1, -2));
  EXPECT_EQ(root.tables(5)->table(0)->number<uint64_t>(0).value(), 9u);
  EXPECT_TRUE(root.has(5).value());
}

TEST(FlatBuffer, AbsentFieldsHaveDefaults) {
  Opened file(table({{1, scalar(uint8_t{7})}}));
  const Table root = file.root();
  for (const flatbuffer::Slot slot : std::vector<flatbuffer::Slot>{0, 2, 1000}) {
    EXPECT_EQ(root.number<int32_t>(slot, 5).value(), 5);
    EXPECT_EQ(root.text(slot, 9).value(), "");
    EXPECT_EQ(root.list(slot, 8)->size(), 0u);
    EXPECT_FALSE(root.table(slot)->exists());
    EXPECT_EQ(root.table(slot)->number<uint8_t>(0, 3).value(), 3);
  }
}

// Roots and vtables that no writer makes.
TEST(FlatBuffer, RefusesTablesOutsideOfTheFile) {
  EXPECT_THAT(Opened(std::string()).error(), HasSubstr("not inside its 0"));
  EXPECT_THAT(Opened(bytes_of(0U)).error(), HasSubstr("the offset at 0 is 0"));
  EXPECT_THAT(Opened(bytes_of(4U)).error(), HasSubstr("4 bytes at offset 4 are not inside its 4"));
  EXPECT_THAT(Opened(bytes_of(UINT32_MAX)).error(), HasSubstr("not inside"));
  EXPECT_THAT(Opened(bytes_of(4U) + bytes_of(5)).error(), HasSubstr("has its vtable before the start"));
  EXPECT_THAT(Opened(bytes_of(4U) + bytes_of(INT32_MIN)).error(), HasSubstr("not inside"));
  EXPECT_THAT(Opened(bytes_of(4U) + bytes_of(-4) + bytes_of(uint16_t{5})).error(), HasSubstr("a size of 5 bytes"));
  EXPECT_THAT(Opened(bytes_of(4U) + bytes_of(-4) + bytes_of(uint16_t{2})).error(), HasSubstr("a size of 2 bytes"));
  EXPECT_THAT(Opened(bytes_of(4U) + bytes_of(-4) + bytes_of(uint16_t{4})).error(), HasSubstr("4 bytes, 2 left"));
}

TEST(FlatBuffer, RefusesListsLongerThanTheFile) {
  std::string bytes = FlatBufferLayout(table({{0, list<uint64_t>({1})}})).take().bytes();
  const size_t length = bytes.find(bytes_of(uint32_t{1}), 28);
  bytes.replace(length, 4, bytes_of(uint32_t{2}));
  Opened two(bytes);
  EXPECT_THAT(error_in(two.root().list(0, 8)), HasSubstr("2 elements of 8 bytes"));
  bytes.replace(length, 4, bytes_of(UINT32_MAX));
  Opened most(bytes);
  EXPECT_THAT(error_in(most.root().list(0, 8)), HasSubstr("4294967295 elements of 8 bytes"));
  EXPECT_THAT(error_in(most.root().text(0, UINT64_MAX)), HasSubstr("4294967295 elements of 1 byte"));
}

TEST(FlatBuffer, RefusesTablesWithFieldsBehindTheEnd) {
  const std::string whole = bytes_of(12U) + bytes_of(uint16_t{6}) + bytes_of(uint16_t{8}) + bytes_of(uint16_t{4}) +
                            bytes_of(uint16_t{0}) + bytes_of(8) + bytes_of(7);
  EXPECT_EQ(Opened(whole).root().number<int32_t>(0).value(), 7);
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_NE(Opened(whole.substr(0, size)).error(), "") << size;
  EXPECT_EQ(Opened(whole.substr(0, 16)).error(), "the table at 12 has 8 bytes, 4 left");
}

TEST(FlatBuffer, RefusesTextsWhoseEndIsCut) {
  const std::string whole = bytes_of(12U) + bytes_of(uint16_t{6}) + bytes_of(uint16_t{8}) + bytes_of(uint16_t{4}) +
                            bytes_of(uint16_t{0}) + bytes_of(8) + bytes_of(4U) + bytes_of(3U) + std::string("abc\0", 4);
  EXPECT_EQ(Opened(whole).root().text(0, 3).value(), "abc");
  Opened cut(whole.substr(0, whole.size() - 1));
  EXPECT_EQ(error_in(cut.root().text(0, 3)), "the text at 24 has no NUL behind its 3 bytes");
}

TEST(FlatBuffer, BoundsTextsAndLists) {
  Opened file(table({{0, text("12345")}, {1, list<int32_t>({1, 2, 3})}}));
  EXPECT_THAT(error_in(file.root().text(0, 4)), HasSubstr("has 5 bytes, more than 4"));
  EXPECT_THAT(error_in(file.root().list(1, 4)->numbers<int32_t>(2)), HasSubstr("has 3 elements, more than 2"));
}

// Counts the bytes that are read.
class CountingSource final : public Source {
 public:
  explicit CountingSource(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    read_ += out.size();
    return in_memory(bytes_)->read(offset, out);
  }
  uint64_t bytes_read() const { return read_; }

 private:
  std::string bytes_;
  mutable uint64_t read_ = 0;
};

TEST(FlatBuffer, ReadsOnlyThePagesOfItsTables) {
  const CountingSource source(
      FlatBufferLayout(table({{0, text("name")}, {1, hole(1'000'000, 1)}, {2, table({{0, scalar(5)}})}}))
          .take()
          .bytes());
  Budget budget(source.size());
  Buffer buffer(source, budget);
  const Table root = Table::root(buffer).value();
  EXPECT_EQ(root.text(0, 9).value(), "name");
  EXPECT_EQ(root.list(1, 1)->size(), 1'000'000u);
  EXPECT_EQ(root.table(2)->number<int32_t>(0).value(), 5);
  EXPECT_LE(source.bytes_read(), 3 * 4096u);
}

TEST(FlatBuffer, ChargesEachUseOfASharedTable) {
  const Ref shared = table({{0, text(std::string(1000, 't'))}});
  Opened file(table({{0, tables({shared, shared, shared})}}));
  const List list = file.root().tables(0).value();
  uint64_t before = file.budget.time_used();
  for (uint64_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list.table(i)->text(0, 1000)->size(), 1000u);
    EXPECT_GE(file.budget.time_used(), before + 5 * 1000);
    before = file.budget.time_used();
  }
}

}  // namespace
}  // namespace weightfs::flatbuffer_test
