#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/format.h"
#include "tests/builders/ctranslate2_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::ctranslate2_test {
namespace {

using namespace test::ctranslate2;
using test::error_in;
using test::listing;
using test::little;
using test::metadata_of;
using test::well;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

Result<Model> read(const std::string& bytes) { return read_as("ctranslate2", {"model.bin", in_memory(bytes)}); }

TEST(Ctranslate2, VariablesAreRangesOfTheFile) {
  const Model model = well(read(small_ctranslate2()));
  EXPECT_EQ(model.format, "ctranslate2");
  EXPECT_EQ(model.version, "6");
  EXPECT_THAT(listing(model), ElementsAre("layer/weight int8 int8 [2x3] abcdef", "layer/bias float16 float16 [2] bias",
                                          "heads int16 int16 [] \xFE\xFF", "short int8 int8 [4] refused"));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("3 bytes, which is not the size of its shape")));
}

TEST(Ctranslate2, SpecificationSettingsAndAliasesAreMetadata) {
  const Model model = well(read(small_ctranslate2()));
  EXPECT_EQ(metadata_of(model, "spec"), "\"TransformerSpec\"");
  EXPECT_EQ(metadata_of(model, "revision"), "7");
  EXPECT_EQ(metadata_of(model, "settings"), R"({"heads":-2})");
  EXPECT_EQ(metadata_of(model, "aliases"), R"({"tied":"layer/weight"})");
}

TEST(Ctranslate2, OldVersionsHaveSizesOfItems) {
  const Model first = well(read(little(1, 4) + little(1, 4) + old_variable("a/b", {2}, 4, 2, "aaaabbbb")));
  EXPECT_THAT(listing(first), ElementsAre("a/b float32 float32 [2] aaaabbbb"));
  const Model third = well(read(header(3) + little(1, 4) + old_variable("a", {}, 2, 1, "xy") + little(0, 4)));
  EXPECT_THAT(listing(third), ElementsAre("a int16 int16 [] xy"));
}

TEST(Ctranslate2, CutFilesHaveTheirWholeVariables) {
  const std::string whole = small_ctranslate2();
  const Model model = well(read(whole.substr(0, whole.find("bias", whole.find("layer/bias") + 10) + 2)));
  EXPECT_THAT(model.tensors, SizeIs(1));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("the file was cut")));
  EXPECT_EQ(model.lacks->missing_tensors, 3U);
}

TEST(Ctranslate2, InvalidFilesAreRefused) {
  const auto error = [](const std::string& variables) { return error_in(read(header(6) + variables)); };
  EXPECT_EQ(error_in(read(header(99))), "ctranslate2: version 99, 1 to 6 are read");
  EXPECT_THAT(error(little(UINT32_MAX, 4)), HasSubstr("a count of 4294967295"));
  EXPECT_EQ(error(little(1, 4) + variable("w", {}, 77, "")), "ctranslate2: variable \"w\": type 77");
  EXPECT_THAT(error(little(1, 4) + text("w") + "\xFF" + std::string(100, '\1')), HasSubstr("ends at byte"));
  EXPECT_THAT(error(little(1, 4) + little(2, 2) + "ab" + std::string(10, '\0')), HasSubstr("has no end"));
}

TEST(Ctranslate2, IsDetectedByItsSpecification) {
  const auto match = [](const std::string& bytes) { return matches_ctranslate2(test::probe_of(bytes)); };
  EXPECT_EQ(match(small_ctranslate2()), Match::yes);
  EXPECT_EQ(match(little(2, 4) + text("Other") + little(0)), Match::no);
  EXPECT_EQ(match(little(1, 4) + little(1, 4) + text("a/b")), Match::maybe);
  EXPECT_EQ(match(little(1, 4) + little(1, 4) + old_variable("a/b", {2, 3}, 4, 6, "cut")), Match::yes);
  EXPECT_EQ(match(little(1, 4) + little(1, 4) + old_variable("a/b", {2, 3}, 4, 5, "other")), Match::maybe);
  EXPECT_EQ(match(little(1, 4) + little(1, 4) + "\1\0\xFF"), Match::no);
}

// Before CTranslate2 1.10 the name was that of a converter (TransformerBase), or empty.
TEST(Ctranslate2, IsDetectedByItsFirstVariableIfItsSpecificationHasAnotherName) {
  const auto match = [](const std::string& bytes) { return matches_ctranslate2(test::probe_of(bytes)); };
  for (const char* spec : {"TransformerBase", "TransformerBigRelative", "", "x"}) {
    const std::string old = header(2, spec) + little(1, 4) + old_variable("a", {2, 3}, 4, 6, std::string(24, 'x'));
    EXPECT_EQ(match(old), Match::yes) << spec;
    EXPECT_EQ(well(read_as("ctranslate2", {"model.bin", in_memory(old)})).tensors.size(), 1u);
    EXPECT_EQ(match(header(3, spec) + little(1, 4) + old_variable("a", {}, 1, 1, "x")), Match::yes);
    EXPECT_EQ(match(header(5, spec) + little(1, 4) + variable("a", {2}, 0, "12345678")), Match::yes);
    EXPECT_EQ(match(header(5, spec) + little(1, 4) + variable("a", {2}, 0, "1234567")), Match::no);
    EXPECT_EQ(match(header(2, spec) + little(1, 4) + old_variable("a", {2, 3}, 3, 6, "")), Match::no);
    EXPECT_EQ(match(header(2, spec) + little(1, 4) + old_variable("", {}, 4, 1, "")), Match::no);
    EXPECT_EQ(match(header(7, spec) + little(1, 4) + variable("a", {2}, 0, "12345678")), Match::no);
    for (size_t size = 0; size + 24 < old.size(); ++size) EXPECT_EQ(match(old.substr(0, size)), Match::no) << size;
  }
}

}  // namespace
}  // namespace weightfs::ctranslate2_test
