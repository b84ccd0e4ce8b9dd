#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/model_text.h"
#include "tests/support/tflite_reading.h"

namespace weightfs::tflite_external_test {
namespace {

using namespace test::tflite;
using test::listing;
using testing::ElementsAre;
using testing::HasSubstr;

// An external buffer of four bytes at `offset` of the file `name`.
std::string file_beside(std::string_view name, uint64_t offset, std::map<int, Slot> more = {}) {
  more.insert({{0, scalar(1U)}, {1, scalar(0U)}, {2, scalar(offset)}, {3, scalar(uint64_t{4})}});
  return file_of(model({subgraph({tensor("w", {4}, kInt8, 0, {{10, scalar(1U)}})})}, {empty_buffer()},
                       {{8, tables({table({{0, text(name)}})})}, {9, tables({table(std::move(more))})}}));
}

std::string shown(const std::string& bytes, const test::Files& beside = {{"w.bin", "0123456789"}}) {
  const Model model = read_well(bytes, beside);
  std::string out = listing(model).at(0);
  for (const std::string& warning : model.warnings) out += "; " + warning;
  return out;
}

TEST(TfliteExternal, BytesAreARangeOfTheFile) {
  EXPECT_EQ(shown(file_beside("w.bin", 2)), "w int8 INT8 [4] 2345");
  EXPECT_EQ(shown(file_beside("w.bin", 6, {{4, text("unpacked")}})), "w int8 INT8 [4] 6789");
}

TEST(TfliteExternal, RangeOutsideOfTheFileIsRefused) {
  EXPECT_THAT(shown(file_beside("w.bin", 7)), HasSubstr("refused"));
  EXPECT_THAT(shown(file_beside("w.bin", UINT64_MAX - 1)), HasSubstr("refused"));
}

// Folder::open refuses a slash; the folder of this test has no such file.
TEST(TfliteExternal, MissingFileIsAWarning) {
  EXPECT_THAT(shown(file_beside("../w.bin", 0)), HasSubstr("is in the file \"../w.bin\""));
  EXPECT_THAT(shown(file_beside("", 0)), HasSubstr("refused"));
  EXPECT_THAT(shown(file_beside("w.bin", 0), {}), HasSubstr("is in the file \"w.bin\""));
}

TEST(TfliteExternal, WrongReferencesAreRefused) {
  EXPECT_THAT(shown(file_beside("w.bin", 0, {{0, scalar(2U)}})), HasSubstr("has external buffer 1, which is missing"));
  EXPECT_THAT(shown(file_beside("w.bin", 0, {{1, scalar(9U)}})), HasSubstr("has a file with number 9"));
  EXPECT_THAT(shown(file_beside("w.bin", 0, {{4, text("zstd")}})), HasSubstr("has the packing \"zstd\""));
}

TEST(TfliteExternal, SpecialFileRefusesOnlyItsTensors) {
  const Container container{"m.tflite", in_memory(file_beside("fifo", 0)),
                            std::make_shared<test::MemoryFolder>(test::Files{}, "fifo")};
  const Model model = test::well(read_as("tflite", container));
  EXPECT_THAT(listing(model), ElementsAre(HasSubstr("refused")));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("is in the file \"fifo\": not a regular file")));
}

TEST(TfliteExternal, ModelWithoutAFolderIsShown) {
  const auto model = read_as("tflite", Container{"m.tflite", in_memory(file_beside("w.bin", 0))});
  ASSERT_TRUE(model);
  EXPECT_THAT(model->warnings, ElementsAre(HasSubstr("no files are beside the model")));
}

}  // namespace
}  // namespace weightfs::tflite_external_test
