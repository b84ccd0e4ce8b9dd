#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tflite_reading.h"

namespace weightfs::tflite_limits_test {
namespace {

using namespace test::tflite;
using testing::HasSubstr;

// A file of these tensors, whose buffer 1 has eight bytes.
std::string file_with(std::vector<Ref> subgraphs, std::map<int, Slot> more = {}) {
  return file_of(model(std::move(subgraphs), {empty_buffer(), buffer("12345678")}, std::move(more)));
}

// 200 subgraphs that are one table of tensors that are one table: 2.5 million tensors in a small file.
TEST(TfliteLimits, SharedTablesAreCountedAtEachUse) {
  for (const uint32_t buffer_of_tensor : {0U, 1U}) {
    const Ref graph = subgraph(std::vector<Ref>(12'500, tensor("w", {8}, kInt8, buffer_of_tensor)));
    const std::string file = file_with(std::vector<Ref>(200, graph));
    EXPECT_LT(file.size(), 100'000u);
    EXPECT_THAT(error_of(file), HasSubstr("bytes, counted at each use"));
  }
}

TEST(TfliteLimits, SharedNamesAreCountedAtEachUse) {
  const Ref one = tensor(std::string(60'000, 'n'), {8}, kInt8, 1);
  EXPECT_EQ(error_of(file_with({subgraph({one, one})})), "no error");
  EXPECT_THAT(error_of(file_with({subgraph({one, one, one, one})})), HasSubstr("counted at each use"));
}

// An operator code's name is written for each operator that has it.
TEST(TfliteLimits, SharedOperatorCodesAreCountedAtEachUse) {
  const Ref code = table({{0, scalar(int8_t{32})}, {1, text(std::string(60'000, 'c'))}});
  const Ref graph = subgraph({}, {{3, tables(std::vector<Ref>(10, call(0, {}, {})))}});
  EXPECT_THAT(error_of(file_with({graph}, {{1, tables({code})}})), HasSubstr("counted at each use"));
}

TEST(TfliteLimits, SharedListsAreCountedAtEachUse) {
  const Ref inputs = list(std::vector<int32_t>(10'000, 1));
  const Ref one = table({{1, inputs}, {2, inputs}});
  EXPECT_THAT(error_of(file_with({subgraph({}, {{3, tables({one, one, one})}})})), HasSubstr("counted at each use"));
  const Ref scales = table({{2, list(std::vector<float>(10'000, 1))}});
  std::vector<Ref> tensors;
  for (int i = 0; i < 10; ++i) tensors.push_back(tensor("w", {8}, kInt8, 1, {{4, scales}}));
  EXPECT_THAT(error_of(file_with({subgraph(tensors)})), HasSubstr("counted at each use"));
}

// Inputs are described in metadata.json, unless they are long.
TEST(TfliteLimits, LongInputsAreOnlyInTheGraph) {
  const Ref graph = subgraph({tensor(std::string(60'000, 'n'), {8}, kInt8, 0)}, {{1, list<int32_t>({0, 0, 0})}});
  const Model model = read_well(file_with({graph}));
  EXPECT_EQ(metadata_of(model, "inputs"), "\"3 tensors: see graph.json\"");
}

TEST(TfliteLimits, LongNamesAreRefused) {
  EXPECT_THAT(error_of(file_of(model({subgraph({tensor(std::string(65'536, 'n'), {8}, kInt8, 0)})}, {}))),
              HasSubstr("has 65536 bytes, more than 65535"));
}

}  // namespace
}  // namespace weightfs::tflite_limits_test
