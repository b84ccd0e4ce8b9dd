#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "tests/builders/mindspore_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::mindspore_test {
namespace {

using namespace test::mindspore;
using test::error_in;
using test::listing;
using test::ProtobufBuilder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

Result<Model> read(const std::string& bytes) { return read_as("mindspore", {"m.ckpt", in_memory(bytes), nullptr}); }

std::string warning_of(const ProtobufBuilder& parameter) {
  const Model model = test::well(read(checkpoint({parameter})));
  return model.warnings.size() == 1 && model.tensors[0].source.refused() ? model.warnings[0] : "not refused";
}

TEST(MindSpore, SlicesOfAParameterAreJoined) {
  const Model model = test::well(read(small_mindspore()));
  EXPECT_EQ(model.format, "mindspore");
  EXPECT_THAT(listing(model), ElementsAre("net.w float32 Float32 [2] 01234567", "step int32 Int32 [] abcd",
                                          "e/f bfloat16 BFloat16 [0x3] "));
  EXPECT_THAT(model.warnings, SizeIs(0));
}

TEST(MindSpore, ParameterOfTooManySlicesIsRefused) {
  const Model model =
      test::well(read(checkpoint(std::vector<ProtobufBuilder>(5000, parameter("w", "UInt8", {5000}, "a")))));
  EXPECT_THAT(listing(model), ElementsAre("w uint8 UInt8 [5000] refused"));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"w\": more than 4096 slices: refused"));
}

TEST(MindSpore, RepeatedNamesAreTensorsOfTheirOwn) {
  const Model model =
      test::well(read(checkpoint({parameter("w", "UInt8", {1}, "a"), parameter("w", "UInt8", {1}, "b")})));
  EXPECT_THAT(listing(model), ElementsAre("w uint8 UInt8 [1] a", "w uint8 UInt8 [1] b"));
}

TEST(MindSpore, WrongParametersAreRefused) {
  EXPECT_EQ(warning_of(parameter("w", "Float32", {3}, "01234567")), "tensor \"w\": 8 bytes, 12 needed: refused");
  EXPECT_EQ(warning_of(parameter("w", "New", {3}, "012")), "tensor \"w\": type \"New\": refused");
  EXPECT_EQ(warning_of(parameter("w", "Bool", {UINT64_MAX}, "x")), "tensor \"w\": dimension -1: refused");
  EXPECT_THAT(warning_of(parameter("w", "Int64", {1ULL << 40, 1ULL << 40}, "x")), HasSubstr("overflows"));
}

TEST(MindSpore, OtherParametersAreNamed) {
  const ProtobufBuilder map = ProtobufBuilder().bytes(1, "map").message(3, ProtobufBuilder());
  const Model model = test::well(read(checkpoint({map, parameter("w", "UInt8", {1}, "a")})));
  EXPECT_THAT(model.warnings, ElementsAre("parameter \"map\": not a tensor: not shown"));
  EXPECT_EQ(model.lacks->missing_tensors, 1U);
}

TEST(MindSpore, OtherMessagesAreRefused) {
  EXPECT_EQ(error_in(read(ProtobufBuilder().number(2, 1).build())), "mindspore: field 2 is not a parameter");
  EXPECT_EQ(error_in(read(checkpoint({ProtobufBuilder()}))), "mindspore: a parameter without a name");
  EXPECT_EQ(error_in(read("")), "mindspore: no parameters");
  EXPECT_THAT(error_in(read("\x0A\x7F")), HasSubstr("mindspore: protobuf: "));
}

TEST(MindSpore, IsDetectedByItsFirstParameter) {
  const auto match = [](const std::string& bytes) { return matches_mindspore(test::probe_of(bytes)); };
  EXPECT_EQ(match(small_mindspore()), Match::maybe);
  EXPECT_EQ(match(checkpoint({parameter("w", "New", {3}, "012")})), Match::no);
  EXPECT_EQ(match(checkpoint({ProtobufBuilder().bytes(1, "w")})), Match::no);
  EXPECT_EQ(match("\x80\2}q\0."), Match::no);
}

}  // namespace
}  // namespace weightfs::mindspore_test
