// The options of operators in graph.json.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/values/json.h"
#include "formats/tflite/option_tables.h"
#include "tests/support/tflite_reading.h"

namespace weightfs::options_test {
namespace {

using namespace test::tflite;
using testing::HasSubstr;

// An operator with options.
Ref call_with(std::map<int, Slot> slots) {
  slots.insert({{0, scalar(0U)}, {1, list<int32_t>({0})}});
  return table(std::move(slots));
}

Ref with_options(uint8_t number, std::map<int, Slot> fields) {
  return call_with({{3, scalar(number)}, {4, table(std::move(fields))}});
}

Ref with_options_2(uint8_t number, std::map<int, Slot> fields) {
  return call_with({{11, scalar(number)}, {12, table(std::move(fields))}});
}

std::string file_with(std::vector<Ref> calls) {
  return file_of(model({subgraph({}, {{3, tables(std::move(calls))}})}, {empty_buffer()},
                       {{1, tables({table({{3, scalar(3)}})})}}));
}

// What graph.json has after the outputs of the only operator.
std::string shown(Ref call) {
  const std::string graph = document_of(read_well(file_with({std::move(call)})), "graph.json");
  EXPECT_TRUE(parse_json(*in_memory(graph), 0, graph.size()).has_value()) << graph;
  const std::string before = R"("inputs":[0],"outputs":[])";
  const size_t begin = graph.find(before);
  const size_t end = graph.rfind("}]}]}\n");
  if (begin == graph.npos || end == graph.npos) return graph;
  return graph.substr(begin + before.size(), end - begin - before.size());
}

TEST(TfliteOptions, FieldsAreShownByNameWithTheirDefaults) {
  EXPECT_EQ(shown(with_options(1, {{0, scalar(int8_t{1})}, {1, scalar(2)}, {3, scalar(int8_t{3})}})),
            R"(,"builtin_options_type":"Conv2DOptions","builtin_options":{"padding":"VALID","stride_w":2,"stride_h":0,)"
            R"("fused_activation_function":"RELU6","dilation_w_factor":1,"dilation_h_factor":1,)"
            R"("quantized_bias_type":"FLOAT32"})");
  EXPECT_EQ(shown(with_options(9, {{0, scalar(0.25F)}})),
            R"(,"builtin_options_type":"SoftmaxOptions","builtin_options":{"beta":0.25})");
  EXPECT_EQ(
      shown(with_options(37, {{0, scalar(int8_t{2})}, {1, scalar(int8_t{9})}})),
      R"(,"builtin_options_type":"CastOptions","builtin_options":{"in_data_type":"INT32","out_data_type":"INT8"})");
  EXPECT_EQ(shown(with_options(17, {{0, list<int32_t>({1, -1})}})),
            R"(,"builtin_options_type":"ReshapeOptions","builtin_options":{"new_shape":[1,-1]})");
  EXPECT_EQ(shown(with_options(11, {})), R"(,"builtin_options_type":"AddOptions","builtin_options":)"
                                         R"({"fused_activation_function":"NONE","pot_scale_int16":true})");
  EXPECT_EQ(shown(with_options(114, {{0, scalar(int64_t{-5})}})),
            R"(,"builtin_options_type":"RandomOptions","builtin_options":{"seed":-5,"seed2":0})");
  EXPECT_EQ(shown(with_options(115, {{0, list<float>({0.5F, 2})}})),
            R"(,"builtin_options_type":"BucketizeOptions","builtin_options":{"boundaries":[0.5,2.0]})");
  EXPECT_EQ(shown(with_options(16, {{0, scalar(4'000'000'000U)}})),
            R"(,"builtin_options_type":"CallOptions","builtin_options":{"subgraph":4000000000})");
}

TEST(TfliteOptions, DeprecatedFieldsAreNotShown) {
  EXPECT_EQ(shown(with_options(15, {{0, scalar(7)}, {2, scalar(uint8_t{1})}})),
            R"(,"builtin_options_type":"ResizeBilinearOptions","builtin_options":)"
            R"({"align_corners":true,"half_pixel_centers":false})");
}

TEST(TfliteOptions, SecondUnionIsShown) {
  EXPECT_EQ(shown(with_options_2(12, {{0, list<int64_t>({0})}, {4, list<uint32_t>({0, 2, 7})}})),
            R"(,"builtin_options_2_type":"StablehloDotGeneralOptions","builtin_options_2":{)"
            R"("lhs_batching_dimensions":[0],"rhs_batching_dimensions":[],"lhs_contracting_dimensions":[],)"
            R"("rhs_contracting_dimensions":[],"precision_config":["DEFAULT","HIGHEST",7]})");
  EXPECT_EQ(shown(with_options_2(8, {{0, scalar(4U)}, {1, scalar(99U)}})),
            R"(,"builtin_options_2_type":"StablehloCompareOptions","builtin_options_2":{)"
            R"("comparison_direction":"STABLEHLO_COMPARISON_DIRECTION_LE","compare_type":99})");
  const std::string convolution = shown(with_options_2(4, {{4, list<uint8_t>({1, 0})}, {15, scalar(int64_t{3})}}));
  EXPECT_THAT(convolution, HasSubstr(R"("window_reversal":[true,false],)"));
  EXPECT_THAT(convolution, HasSubstr(R"("batch_group_count":3,"precision_config":[]})"));
}

// The bytes are for programs: their place in the file is shown.
TEST(TfliteOptions, TextsAreShownAndBytesByTheirPlace) {
  const Ref composite = with_options_2(21, {{0, text("odml.\"rms\"")}, {2, bytes_list("\1\2\3")}});
  EXPECT_THAT(shown(composite),
              testing::MatchesRegex(R"re(.*"name":"odml.\\"rms\\"","decomposition_subgraph_index":0,)re"
                                    R"re("composite_attributes":."offset":[0-9]+,"nbytes":3.,)re"
                                    R"re("composite_attributes_format":"FLEXBUFFERS","version":0.)re"));
  EXPECT_THAT(shown(with_options(111, {{0, text(std::string(65'536, 'c'))}})),
              testing::MatchesRegex(R"re(.*"container":."offset":[0-9]+,"nbytes":65536.,"shared_name":"".)re"));
}

TEST(TfliteOptions, CustomOptionsAreShownByTheirPlace) {
  const std::string inside = file_with({call_with({{5, bytes_list("custom")}})});
  const std::string place = fmt::format(R"("custom_options":{{"offset":{},"nbytes":6}})", inside.find("custom"));
  EXPECT_THAT(document_of(read_well(inside), "graph.json"), HasSubstr(place));
  EXPECT_EQ(shown(call_with({{9, scalar(uint64_t{8})}, {10, scalar(uint64_t{4})}})),
            R"(,"custom_options":{"offset":8,"nbytes":4})");
  EXPECT_THAT(shown(call_with({{9, scalar(UINT64_MAX)}, {10, scalar(uint64_t{4})}})),
              HasSubstr(R"(,"custom_options":{"problem":)"));
}

TEST(TfliteOptions, UnknownTablesAndTablesWithoutFieldsAreOnlyNamed) {
  EXPECT_EQ(shown(with_options(127, {{0, scalar(1)}})), R"(,"builtin_options_type":127)");
  EXPECT_EQ(shown(with_options_2(24, {{0, scalar(1)}})), R"(,"builtin_options_2_type":24)");
  EXPECT_EQ(shown(with_options(22, {})), R"(,"builtin_options_type":"PadOptions")");
  EXPECT_EQ(shown(call_with({{3, scalar(uint8_t{1})}})), R"(,"builtin_options_type":"Conv2DOptions")") << "no table";
  EXPECT_EQ(shown(call_with({{4, table({})}})), "") << "a table of no member";
}

TEST(TfliteOptions, UnknownValuesOfEnumsAreNumbers) {
  EXPECT_THAT(shown(with_options(1, {{0, scalar(int8_t{-1})}, {3, scalar(int8_t{6})}, {6, scalar(int8_t{120})}})),
              testing::AllOf(HasSubstr(R"("padding":-1,)"), HasSubstr(R"("fused_activation_function":6,)"),
                             HasSubstr(R"("quantized_bias_type":120})")));
}

// The numbers of the schema's unions, of which flatc generates constants.
TEST(TfliteOptions, MembersHaveTheNumbersOfTheSchema) {
  const auto name = [](const tflite::OptionTable* found) { return found == nullptr ? "" : std::string(found->name); };
  using tflite::builtin_options;
  using tflite::builtin_options_2;
  EXPECT_EQ(name(builtin_options(0)), "");
  EXPECT_EQ(name(builtin_options(8)), "FullyConnectedOptions");
  EXPECT_EQ(name(builtin_options(14)), "LSTMOptions");
  EXPECT_EQ(name(builtin_options(27)), "ReducerOptions");
  EXPECT_EQ(name(builtin_options(49)), "TransposeConvOptions");
  EXPECT_EQ(name(builtin_options(101)), "BatchMatMulOptions");
  EXPECT_EQ(name(builtin_options(116)), "GeluOptions");
  EXPECT_EQ(name(builtin_options(126)), "RightShiftOptions");
  EXPECT_EQ(name(builtin_options(127)), "");
  EXPECT_EQ(name(builtin_options_2(1)), "StablehloConcatenateOptions");
  EXPECT_EQ(name(builtin_options_2(21)), "StableHLOCompositeOptions");
  EXPECT_EQ(name(builtin_options_2(23)), "StablehloCaseOptions");
  EXPECT_EQ(name(builtin_options_2(255)), "");
}

TEST(TfliteOptions, SharedOptionsAreCountedAtEachUse) {
  const Ref shape = list(std::vector<int32_t>(10'000, 1));
  const Ref one = with_options(17, {{0, shape}});
  EXPECT_EQ(error_of(file_with({one, one})), "no error");
  EXPECT_THAT(error_of(file_with({one, one, one, one})), HasSubstr("counted at each use"));
  const Ref empty = with_options(1, {});
  EXPECT_THAT(error_of(file_with(std::vector<Ref>(2000, empty))), HasSubstr("counted at each use"));
}

TEST(TfliteOptions, OptionsOutsideOfTheFileAreRefused) {
  const std::string file = file_with({with_options(17, {{0, list<int32_t>({7, 7, 7})}})});
  std::string damaged = file;
  const size_t shape = file.find(std::string("\3\0\0\0\7\0\0\0", 8));
  ASSERT_NE(shape, file.npos);
  damaged[shape + 3] = '\x7F';
  EXPECT_EQ(error_of(file), "no error");
  EXPECT_THAT(error_of(damaged), HasSubstr("elements of 4 bytes"));
}

}  // namespace
}  // namespace weightfs::options_test
