#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "tests/builders/mxnet_builder.h"
#include "tests/support/memory_folder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::mxnet_test {
namespace {

using namespace test::mxnet;
using test::error_in;
using test::listing;
using test::little;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

Result<Model> read(const std::string& bytes, test::Files beside = {}) {
  return read_as("mxnet", {"m-0007.params", in_memory(bytes), std::make_shared<test::MemoryFolder>(std::move(beside))});
}

TEST(MxNet, ArraysHaveTheirNames) {
  const Model model = test::well(read(small_mxnet(), {{"m-symbol.json", "{}"}}));
  EXPECT_EQ(model.format, "mxnet");
  EXPECT_THAT(listing(model), ElementsAre("arg:w float32 float32 [2] 01234567", "aux:b int8 int8 [3] abc",
                                          "arg:e/f uint8 uint8 [0x2] "));
  EXPECT_THAT(model.warnings, SizeIs(0));
  EXPECT_THAT(model.parts, SizeIs(2));
}

TEST(MxNet, StructureThatMayBeReadLaterIsAnError) {
  const auto read_with = [](Code code) {
    const auto folder = std::make_shared<test::MemoryFolder>(test::Files{}, "m-symbol.json", code);
    return read_as("mxnet", {"m-0007.params", in_memory(small_mxnet()), folder});
  };
  EXPECT_THAT(test::well(read_with(Code::io)).parts, SizeIs(1));
  const auto later = read_with(Code::network);
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().code, Code::network);
}

TEST(MxNet, ErrorsOfTheFileKeepTheirName) {
  class Changing final : public Source {
   public:
    uint64_t size() const override { return file_->size(); }
    Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
      return offset == 0 ? file_->read(offset, out) : changed_file("changed while it was read");
    }

   private:
    SourcePtr file_ = in_memory(list({array({100'000}, 3, std::string(100'000, 'x')), array({1}, 3, "y")}, {}));
  };
  const auto changed = read_as("mxnet", {"m-0007.params", std::make_shared<Changing>()});
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().message, "mxnet: array 1: changed while it was read");
  EXPECT_TRUE(is_changed_file(changed.error()));
}

TEST(MxNet, AllVersionsAreRead) {
  const std::string device_and_type = little(1, 4) + little(0, 4) + little(3, 4);
  const std::string oldest = little(2, 4) + little(1, 4) + little(2, 4) + device_and_type + "ab";
  const std::string first = little(kVersion1, 4) + shape({1}) + device_and_type + "c";
  const std::string scalar = array({}, 3, "d", kVersion3);
  EXPECT_THAT(listing(test::well(read(list({oldest, first, scalar}, {})))),
              ElementsAre("tensor_0 uint8 uint8 [1x2] ab", "tensor_1 uint8 uint8 [1] c", "tensor_2 uint8 uint8 [] d"));
}

TEST(MxNet, NoneIsLeftOut) {
  const std::string none = little(kVersion2, 4) + little(0, 4) + little(0, 4);
  const std::string none3 = little(kVersion3, 4) + little(0, 4) + little(UINT32_MAX, 4);
  const Model model = test::well(read(list({none, array({1}, 3, "x"), none3, little(0, 4)}, {"a", "b", "c", "d"})));
  EXPECT_THAT(listing(model), ElementsAre("b uint8 uint8 [1] x"));
}

TEST(MxNet, SparseArraysAreSteppedOver) {
  const std::string rows = little(kVersion2, 4) + little(1, 4) + shape({1, 2}) + shape({9, 2}) + little(1, 4) +
                           little(0, 4) + little(3, 4) + little(6, 4) + shape({1}) + "vv" + little(7);
  const Model model = test::well(read(list({rows, array({1}, 3, "x")}, {"s", "w"})));
  EXPECT_THAT(listing(model), ElementsAre("s uint8 uint8 [9x2] refused", "w uint8 uint8 [1] x"));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"s\": sparse: refused"));
}

TEST(MxNet, MalformedFilesAreRefused) {
  const auto error_of = [](const std::string& bytes) { return error_in(read(bytes)); };
  const auto error_of_array = [&](const std::string& bytes) { return error_of(list({bytes}, {})); };
  EXPECT_EQ(error_of(little(0x113) + little(0)), "mxnet: not a list of arrays");
  EXPECT_THAT(error_of(little(0x112) + little(0) + little(1ULL << 60)), HasSubstr("mxnet: a count of"));
  EXPECT_EQ(error_of_array(array({1}, 99, "")), "mxnet: array 0: type 99 at byte 52");
  EXPECT_EQ(error_of_array(array({UINT64_MAX}, 0, "")), "mxnet: array 0: dimension -1");
  EXPECT_THAT(error_of_array(array({1ULL << 40, 1ULL << 40}, 0, "")), HasSubstr("overflows"));
  EXPECT_THAT(error_of_array(little(1 << 20, 4)), HasSubstr("1048576 dimensions"));
  EXPECT_THAT(error_of_array(little(kVersion2, 4) + little(7, 4)), HasSubstr("storage 7"));
  EXPECT_THAT(error_of_array(array({9}, 0, "")), HasSubstr("mxnet: array 0: "));
  EXPECT_EQ(error_of(list({array({1}, 3, "x")}, {"a", "b"})), "mxnet: 2 names of 1 arrays");
  EXPECT_THAT(error_of(list({}, {}).substr(0, 24) + little(1)), HasSubstr("mxnet: "));
}

TEST(MxNet, IsDetectedByItsMagicNumber) {
  EXPECT_EQ(matches_mxnet(test::probe_of(small_mxnet())), Match::yes);
  EXPECT_EQ(matches_mxnet(test::probe_of(little(0x112) + little(1))), Match::no);
}

}  // namespace
}  // namespace weightfs::mxnet_test
