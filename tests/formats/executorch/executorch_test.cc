#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/completeness.h"
#include "formats/format.h"
#include "tests/builders/executorch_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::executorch_test {
namespace {

using namespace test::executorch;
using test::error_in;
using test::listing;
using test::metadata_of;
using test::well;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Result<Model> read(std::string bytes) { return read_as("executorch", Container{"m.ptd", in_memory(std::move(bytes))}); }

Model read_well(std::string bytes) { return well(read(std::move(bytes))); }

std::string error_of(std::string bytes) { return error_in(read(std::move(bytes))); }

// A .ptd file of one tensor, in six bytes; the first line of the model's text.
std::string shown(const Ref& layout, uint32_t segment_of_it = 0) {
  const Model model = read_well(ptd({segment(0, 6)}, {named("w", segment_of_it, layout)}, "123456"));
  std::string out = listing(model).at(0);
  for (const std::string& warning : model.warnings) out += "; " + warning;
  return out;
}

TEST(Executorch, IsDetectedByItsIdentifiers) {
  const auto match = [](const std::string& bytes) { return matches_executorch(test::probe_of(bytes)); };
  EXPECT_EQ(match(small_ptd()), Match::yes);
  EXPECT_EQ(match(small_pte()), Match::yes);
  EXPECT_EQ(match("    FT99"), Match::no);
  EXPECT_EQ(match("FT01"), Match::no);
  EXPECT_EQ(match(""), Match::no);
}

TEST(Executorch, DataFileHasTensorsAndBlobs) {
  const Model model = read_well(small_ptd());
  EXPECT_EQ(model.version, "FT01");
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_THAT(listing(model), ElementsAre("w int8 CHAR [2x3] \1\2\3\4\5\6", "a/t uint8 BYTE [2x3] \1\3\5\2\4\6"));
  ASSERT_THAT(model.parts, SizeIs(2));
  EXPECT_EQ(model.parts[1].path, "named_data/blob");
  EXPECT_EQ(test::text_of(**model.parts[1].source.get()), "blob");
}

TEST(Executorch, TensorsInOrderAreRangesOfTheFile) {
  const SourcePtr bytes = in_memory(small_ptd());
  const auto model = read_as("executorch", Container{"m.ptd", bytes});
  ASSERT_TRUE(model);
  EXPECT_EQ(model->tensors[0].source.whole(), bytes);
}

TEST(Executorch, DimOrderIsTheOrderInMemory) {
  EXPECT_EQ(shown(layout(kChar, {1, 2, 3}, {0, 1, 2})), "w int8 CHAR [1x2x3] 123456");
  EXPECT_EQ(shown(layout(kChar, {1, 2, 3}, {2, 0, 1})), "w int8 CHAR [1x2x3] 135246");
  EXPECT_EQ(shown(layout(kChar, {3, 2, 1}, {1, 2, 0})), "w int8 CHAR [3x2x1] 142536");
  EXPECT_EQ(shown(layout(kChar, {6}, {})), "w int8 CHAR [6] 123456");
  EXPECT_EQ(shown(layout(kChar, {}, {})), "w int8 CHAR [] 1");
  EXPECT_EQ(shown(layout(kChar, {0, 3}, {1, 0})), "w int8 CHAR [0x3] ");
  EXPECT_THAT(shown(layout(kChar, {2, 3}, {0, 0})), HasSubstr("a dim_order with 0, which is not an order of 2"));
  EXPECT_THAT(shown(layout(kChar, {2, 3}, {0, 2})), HasSubstr("a dim_order with 2, which is not an order of 2"));
  EXPECT_THAT(shown(layout(kChar, {2, 3}, {0})), HasSubstr("has 2 dimensions, and 1 in dim_order"));
}

TEST(Executorch, OneBadTensorDoesNotRefuseTheFile) {
  EXPECT_THAT(shown(layout(kChar, {7}, {0})), HasSubstr("refused; tensor \"w\": has 6 bytes, and its shape needs 7"));
  EXPECT_THAT(shown(layout(kChar, {-1}, {0})), HasSubstr("has a dimension of -1"));
  EXPECT_THAT(shown(layout(kChar, {6}, {0}), 1), HasSubstr("is in segment 1, and the file has 1"));
  EXPECT_THAT(shown(layout(kFloat, {1 << 30, 1 << 30, 1 << 30}, {0, 1, 2})), HasSubstr("refused; "));
  EXPECT_THAT(shown(layout(kChar, std::vector<int32_t>(1025, 1), {})), HasSubstr("has 1025 dimensions"));
}

TEST(Executorch, SegmentsOutsideOfTheFileAreRefused) {
  for (const auto& [offset, size] : {std::pair<uint64_t, uint64_t>{1, 6}, {UINT64_MAX, 6}, {0, UINT64_MAX}}) {
    const Model model =
        read_well(ptd({segment(offset, size)}, {named("w", 0, layout(kChar, {6}, {0})), named("b", 0)}, "123456"));
    EXPECT_THAT(listing(model), ElementsAre("w int8 CHAR [6] refused"));
    EXPECT_THAT(model.warnings, SizeIs(2));
    EXPECT_THAT(model.parts, SizeIs(1));
  }
}

TEST(Executorch, FilesThatEndBeforeTheirSegmentsAreIncomplete) {
  const auto lack = [](const std::string& bytes) { return to_sentence(completeness_of(read_well(bytes))); };
  const std::string data = ptd({segment(0, 6)}, {named("w", 0, layout(kChar, {6}, {0}))}, "123456pad");
  EXPECT_EQ(lack(data), "");
  EXPECT_EQ(lack(data.substr(0, data.size() - 3)), "the file ends 3 bytes early; interrupted download?");
  EXPECT_EQ(lack(data.substr(0, data.size() - 4)),
            "the file ends 4 bytes early: 1 of 1 tensors refused; interrupted download?");
  const std::string program = pte({}, {}, "pad");
  EXPECT_EQ(lack(program), "");
  EXPECT_EQ(lack(program.substr(0, program.size() - 1)), "the file ends 1 byte early; interrupted download?");
}

TEST(Executorch, TypesWithoutADtypeAreShownAsBytes) {
  EXPECT_EQ(shown(layout(kQuint4x2, {12}, {0})), "w unknown QUINT4X2 [12] 123456");
  EXPECT_EQ(shown(layout(99, {12}, {0})), "w unknown type 99 [12] 123456");
}

TEST(Executorch, ProgramHasConstantsInitialValuesAndBlobs) {
  const Model model = read_well(small_pte());
  EXPECT_EQ(model.version, "ET12");
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_THAT(listing(model), ElementsAre("constant_1 int8 CHAR [2x2] wxyz", "state int8 CHAR [2] st",
                                          "extra uint8 BYTE [8] 0123wxyz"));
  ASSERT_THAT(model.parts, SizeIs(2));
  EXPECT_EQ(model.parts[1].path, "delegates/0.Xnnpack");
  EXPECT_EQ(test::text_of(**model.parts[1].source.get()), "xnn..");
  EXPECT_EQ(metadata_of(model, "methods"),
            "[{\"name\":\"forward\",\"inputs\":1,\"outputs\":1,\"values\":4,\"operators\":[\"aten::add.out\"],"
            "\"delegates\":[\"Xnnpack\"]}]");
}

TEST(Executorch, ProgramWithoutAHeaderHasInlineData) {
  const Ref delegate = table({{0, text("Qnn")}, {1, table({{0, scalar(int8_t{0})}, {1, scalar(0U)}})}});
  const Ref forward = method("forward", {value(kChar, {4}, {0}, 1)}, {{7, tables({delegate})}});
  const Model model =
      read_well(old_pte({forward}, {{2, tables({buffer(""), buffer("data")})}, {3, tables({buffer("blob")})}}));
  EXPECT_THAT(listing(model), ElementsAre("constant_1 int8 CHAR [4] data"));
  EXPECT_EQ(test::text_of(**model.parts.at(1).source.get()), "blob");
}

TEST(Executorch, MethodsShareConstants) {
  const auto forward = [](std::string_view name) { return method(name, {value(kChar, {4}, {0}, 1)}); };
  const Model model =
      read_well(pte({forward("one"), forward("two")}, {{4, tables({segment(0, 4)})}, {5, offsets(0, {0, 0})}}, "data"));
  EXPECT_THAT(listing(model), ElementsAre("constant_1 int8 CHAR [4] data"));
}

TEST(Executorch, WrongReferencesOfAProgramAreRefused) {
  const auto shown = [](Ref tensor, std::map<int, Slot> more) {
    more.insert({4, tables({segment(0, 4)})});
    const Model model = read_well(pte({method("forward", {std::move(tensor)})}, std::move(more), "data"));
    EXPECT_THAT(listing(model), SizeIs(1));
    return model.warnings.empty() ? "no warning" : model.warnings[0];
  };
  const Ref one = value(kChar, {4}, {0}, 1);
  const Ref allocation = table({{0, scalar(1U)}});
  EXPECT_THAT(shown(one, {}), HasSubstr("has offset 1, and its segment has 0"));
  EXPECT_THAT(shown(one, {{5, offsets(0, {0, 5})}}), HasSubstr("is at 5 of a segment of 4 bytes"));
  EXPECT_THAT(shown(one, {{5, offsets(0, {0, 1})}}), HasSubstr("has 3 bytes, and its shape needs 4"));
  EXPECT_THAT(shown(one, {{5, offsets(9, {0, 0})}}), HasSubstr("is in segment 9, and the file has 1"));
  EXPECT_THAT(shown(one, {{2, tables({buffer("")})}}), HasSubstr("has buffer 1, and the file has 1"));
  EXPECT_THAT(shown(value(kChar, {4}, {0}, 1, {{6, allocation}}), {}), HasSubstr("is in mutable segment 0"));
}

TEST(Executorch, TensorsInOtherFilesAreCounted) {
  const Ref extra = table({{1, text("linear.weight")}, {2, scalar(int8_t{1})}});
  const Model model = read_well(pte({method("forward", {value(kChar, {4}, {0}, 0, {{9, extra}})})}, {}, ""));
  EXPECT_THAT(model.tensors, IsEmpty());
  EXPECT_EQ(metadata_of(model, "external_tensors"), "1");
}

TEST(Executorch, RefusesFilesWithoutAHeaderOrTables) {
  EXPECT_EQ(error_of(""), "executorch: no file identifier FT01 or ET12");
  EXPECT_EQ(error_of("    FT99"), "executorch: no file identifier FT01 or ET12");
  EXPECT_THAT(error_of("    FT01"), HasSubstr("executorch: "));
  EXPECT_THAT(error_of("    ET12"), HasSubstr("are not inside its 8"));
  std::string bytes = small_ptd();
  EXPECT_EQ(error_of(bytes.replace(8, 4, "FH99")), "executorch: no extended header FH01 of at least 40 bytes");
  bytes = small_ptd();
  EXPECT_EQ(error_of(bytes.replace(12, 4, bytes_of(39U))), "executorch: no extended header FH01 of at least 40 bytes");
  bytes = small_pte();
  EXPECT_EQ(error_of(bytes.replace(12, 4, bytes_of(23U))), "executorch: an extended header of 23 bytes, less than 24");
}

}  // namespace
}  // namespace weightfs::executorch_test
