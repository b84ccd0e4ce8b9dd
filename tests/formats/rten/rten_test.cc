#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/format.h"
#include "tests/support/probe.h"
#include "tests/support/rten_reading.h"

namespace weightfs::rten_test {
namespace {

using namespace test::rten;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A model of one constant.
std::string file_of(Ref constant, std::string_view tensors = "datadata") {
  return version2(model_of(graph({node("w", kConstant, std::move(constant))})), tensors);
}

TEST(Rten, IsDetectedByMagicOrPlausibleFlatBuffer) {
  const auto match = [](const std::string& bytes) { return matches_rten(test::probe_of(bytes)); };
  EXPECT_EQ(match(small_rten()), Match::yes);
  EXPECT_EQ(match("RTEN"), Match::yes);
  EXPECT_EQ(match(version1(model_of(graph({})))), Match::maybe);
  EXPECT_EQ(match(""), Match::no);
  EXPECT_EQ(match("RTE"), Match::no);
  EXPECT_EQ(match("rten" + small_rten().substr(4)), Match::no);
  EXPECT_EQ(match(std::string(4096, '\xFF')), Match::no);
  EXPECT_EQ(match(std::string(4096, '\0')), Match::no);
  EXPECT_EQ(match(std::string(4096, '\4')), Match::no);
}

TEST(Rten, FlatBufferWithRootBeyondHeadMatchesMaybe) {
  EXPECT_EQ(matches_rten(test::probe_of(bytes_of(uint32_t{8192}) + std::string(4092, '\0'), 10000)), Match::maybe);
  EXPECT_EQ(matches_rten(test::probe_of(bytes_of(uint32_t{8194}) + std::string(4092, '\0'), 10000)), Match::no);
  EXPECT_EQ(matches_rten(test::probe_of(bytes_of(uint32_t{8192}) + std::string(4092, '\0'), 8192)), Match::no);
  EXPECT_EQ(matches_rten(test::probe_of(bytes_of(uint32_t{8192}) + std::string(4092, '\0'), uint64_t{1} << 31)),
            Match::no);
}

TEST(Rten, IsReadAsModel) {
  const Model model = read_well(small_rten());
  EXPECT_EQ(model.format, "rten");
  EXPECT_EQ(model.version, "2");
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_THAT(listing(model),
              ElementsAre(":w int8 Int8 [3] \1\2\3", std::string("2.then_branch:w float32 Float32 [2] ") +
                                                         std::string("\0\0\x80\x3f\0\0\0\x40", 8)));
  EXPECT_EQ(to_json_line(model.common), R"({"description":"a model"})");
  ASSERT_THAT(model.parts, SizeIs(1));
  EXPECT_EQ(model.parts[0].path, "m.rten");
  EXPECT_EQ(text_of(**model.parts[0].source.get()), small_rten());
}

TEST(Rten, ShowsHeaderCountsAndEndsAsMetadata) {
  const Model model = read_well(small_rten());
  EXPECT_EQ(metadata_of(model, "header"),
            R"({"version":2,"model_data_offset":32,"model_data_len":1160,"tensor_data_offset":1216})");
  EXPECT_EQ(metadata_of(model, "schema_version"), "1");
  EXPECT_EQ(metadata_of(model, "rten"), R"({"description":"a model"})");
  EXPECT_EQ(metadata_of(model, "graphs"), "2");
  EXPECT_EQ(metadata_of(model, "nodes"), R"({"constant":2,"operator":2,"value":1})");
  EXPECT_EQ(metadata_of(model, "operators"), R"({"If":1,"Pad":1})");
  EXPECT_EQ(metadata_of(model, "inputs"),
            R"([{"id":1,"name":"x","kind":"value","dtype":"float32","shape":["batch",4]}])");
  EXPECT_EQ(metadata_of(model, "inputs"), metadata_of(model, "outputs"));
}

TEST(Rten, ReadsVersion1WithoutMagicNumber) {
  const Model v1 = read_well(
      version1(model_of(graph({node("w", kConstant, inline_data({4}, kUInt8, list<uint8_t>({'d', 'a', 't', 'a'})))}))));
  EXPECT_EQ(v1.version, "1");
  EXPECT_THAT(listing(v1), ElementsAre(":w uint8 UInt8 [4] data"));
  EXPECT_EQ(metadata_of(v1, "header"), "missing");
}

TEST(Rten, AcceptsFileIdentifier) {
  std::string file = version1(model_of(graph({})));
  file.replace(4, 4, "RTEN");
  EXPECT_EQ(matches_rten(test::probe_of(file)), Match::maybe);
  EXPECT_EQ(error_of(file), "no error");
}

TEST(Rten, ReadsInlineAndExternalTensorsOfAllTypes) {
  const Model model =
      read_well(version2(model_of(graph({node("f", kConstant, inline_data({}, kFloat, list<float>({1}))),
                                         node("i", kConstant, inline_data({}, kInt32, list<int32_t>({0x64636261}))),
                                         node("b", kConstant, inline_data({}, kInt8, list<int8_t>({'b'}))),
                                         node("u", kConstant, inline_data({1, 1}, kUInt8, list<uint8_t>({'u'}))),
                                         node("F", kConstant, external_data({1}, kTypeFloat32, 4)),
                                         node("I", kConstant, external_data({1}, kTypeInt32, 0)),
                                         node("B", kConstant, external_data({2}, kTypeInt8, 3)),
                                         node("U", kConstant, external_data({2, 0, 3}, kTypeUInt8, 8))})),
                         "abcdefgh"));
  EXPECT_THAT(listing(model),
              ElementsAre(std::string(":f float32 Float32 [] \0\0\x80\x3f", 26), ":i int32 Int32 [] abcd",
                          ":b int8 Int8 [] b", ":u uint8 UInt8 [1x1] u", ":F float32 Float32 [1] efgh",
                          ":I int32 Int32 [1] abcd", ":B int8 Int8 [2] de", ":U uint8 UInt8 [2x0x3] "));
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Rten, UnionTagAndOffsetTakePrecedence) {
  const Ref data = table({{0, list<uint8_t>({'i', 'n'})}});
  const auto both = [&](std::map<int, Slot> more) {
    more.insert({{0, list<uint32_t>({2})}, {1, scalar(uint8_t{kUInt8})}, {2, data}});
    return table(std::move(more));
  };
  EXPECT_THAT(listing(read_well(file_of(both({{3, scalar(uint16_t{kTypeInt32})}})))),
              ElementsAre(":w uint8 UInt8 [2] in"));
  EXPECT_THAT(listing(read_well(file_of(both({{3, scalar(uint16_t{kTypeInt8})}, {4, scalar(uint64_t{0})}})))),
              ElementsAre(":w int8 Int8 [2] da"));
}

TEST(Rten, AcceptsSectionsInAnyOrderOverlappingAndUnaligned) {
  const std::string flat = version1(model_of(graph({node("w", kConstant, external_data({4}, kTypeInt8, 1))})));
  const std::string odd = header(33, flat.size(), 32) + "x" + flat;
  EXPECT_EQ(listing(read_well(odd)).at(0), ":w int8 Int8 [4] " + odd.substr(33, 4));
  EXPECT_THAT(listing(read_well(header(64, flat.size(), 32) + "!data" + std::string(27, '\0') + flat + "trailing")),
              ElementsAre(":w int8 Int8 [4] data"));
}

TEST(Rten, ChecksTheHeaderInTheOrderOfTheReference) {
  const std::string flat = version1(model_of(graph({})));
  const auto size = flat.size();
  EXPECT_EQ(error_of(""), "rten: a file of 0 bytes is too short");
  EXPECT_EQ(error_of("RTEN"), "rten: header: ends after 4 bytes, 32 needed");
  EXPECT_EQ(error_of(header(0, 0, 0, 3)), "rten: header: version 3, not 2");
  EXPECT_EQ(error_of(header(31, size, 32) + flat),
            fmt::format("rten: header: model_data_offset is 31, not between 32 and the file's size, {}", 32 + size));
  EXPECT_THAT(error_of(header(33 + size, 0, 32) + flat), HasSubstr("model_data_offset is"));
  EXPECT_EQ(error_of(header(32, size + 1, 32) + flat),
            fmt::format("rten: header: model_data_len is {}, and {} bytes follow model_data_offset", size + 1, size));
  EXPECT_THAT(error_of(header(32, UINT64_MAX, 32) + flat), HasSubstr("model_data_len is 18446744073709551615"));
  EXPECT_THAT(error_of(header(32, size, 0) + flat), HasSubstr("tensor_data_offset is 0"));
  EXPECT_THAT(error_of(header(32, size, UINT64_MAX) + flat), HasSubstr("tensor_data_offset is 18446744073709551615"));
  EXPECT_EQ(error_of(header(32, 0, 32) + flat), "rten: model data of 0 bytes; a FlatBuffer has 12 to 2147483646");
  EXPECT_EQ(error_of(header(32, size, 32 + size) + flat), "no error");
}

TEST(Rten, RequiresSchemaVersion1) {
  for (const int32_t version : {0, 2, -1}) {
    const Ref root = table({{0, scalar(version)}, {1, graph({})}});
    EXPECT_EQ(error_of(version2(root)), fmt::format("rten: schema version {}, not 1", version));
  }
  EXPECT_EQ(error_of(version2(table({{1, graph({})}}))), "rten: schema version 0, not 1");
  EXPECT_THAT(error_of(version2(table({{0, scalar(int32_t{1})}}))), HasSubstr("has no graph"));
}

TEST(Rten, RefusesOnlyInvalidTensors) {
  const auto warning = [](const Ref& constant) {
    const Model model = read_well(version2(
        model_of(graph({node("w", kConstant, constant), node("good", kConstant, external_data({4}, kTypeInt8, 4))})),
        "datadata"));
    EXPECT_TRUE(model.tensors.at(0).source.refused());
    EXPECT_EQ(listing(model).at(1), ":good int8 Int8 [4] data");
    EXPECT_THAT(graph_of(model), HasSubstr("\"problem\":"));
    return model.warnings.size() == 1 ? model.warnings[0] : fmt::format("{} warnings", model.warnings.size());
  };
  EXPECT_EQ(warning(external_data({1}, 9, 0)), R"(tensor "w": has dtype unknown(9))");
  EXPECT_EQ(warning(table({{0, list<uint32_t>({1})}, {4, scalar(uint64_t{0})}})), R"(tensor "w": has no dtype)");
  EXPECT_EQ(warning(table({{0, list<uint32_t>({1})}})), R"(tensor "w": has neither data nor a data_offset)");
  EXPECT_THAT(warning(external_data({9}, kTypeInt8, 0)), HasSubstr("9 bytes at offset 0 of the tensor section"));
  EXPECT_THAT(warning(external_data({0}, kTypeInt8, 9)), HasSubstr("are not inside the file's"));
  EXPECT_THAT(warning(external_data({1}, kTypeInt8, UINT64_MAX)), HasSubstr("1 bytes at offset 18446744073709551615"));
  EXPECT_THAT(warning(external_data({1}, kTypeInt8, UINT64_MAX - 100)), HasSubstr("are not inside"));
  EXPECT_EQ(warning(external_data({1u << 31, 1u << 31, 4}, kTypeInt8, 0)),
            R"(tensor "w": has a shape of more than 2^64 bytes)");
  EXPECT_EQ(warning(external_data({1u << 31, 1u << 31}, kTypeFloat32, 0)),
            R"(tensor "w": has a shape of more than 2^64 bytes)");
  EXPECT_EQ(warning(inline_data({2}, kInt32, list<int32_t>({1}))),
            R"(tensor "w": has 4 bytes of data, and its shape needs 8)");
  EXPECT_EQ(warning(inline_data({}, kInt8, list<int8_t>({}))),
            R"(tensor "w": has 0 bytes of data, and its shape needs 1)");
}

TEST(Rten, RefusesMoreDimensionsThanItsLimit) {
  const auto of_rank = [](size_t rank) { return file_of(external_data(std::vector<uint32_t>(rank, 1), kTypeInt8, 0)); };
  EXPECT_THAT(read_well(of_rank(1024)).warnings, IsEmpty());
  const Model model = read_well(of_rank(1025));
  EXPECT_THAT(model.warnings, ElementsAre(R"(tensor "w": has 1025 dimensions, more than 1024)"));
  EXPECT_THAT(listing(model), ElementsAre(":w int8 Int8 [] refused"));
}

TEST(Rten, HasNoTensorSectionInVersion1) {
  const Model v1 = read_well(version1(model_of(graph({node("w", kConstant, external_data({1}, kTypeInt8, 0))}))));
  EXPECT_TRUE(v1.tensors.at(0).source.refused());
  EXPECT_THAT(v1.warnings, ElementsAre(R"(tensor "w": has a data_offset, and a version 1 file has no tensor section)"));
}

TEST(Rten, KeepsNamesUnchanged) {
  const Ref data = inline_data({1}, kInt8, list<int8_t>({'x'}));
  const Model model = read_well(version2(
      model_of(graph({node(std::map<int, Slot>{}, kConstant, data), node("", kConstant, data),
                      node("a", kConstant, data), node("a", kConstant, data), node("../\xFF\n", kConstant, data)}))));
  EXPECT_THAT(listing(model), ElementsAre(": int8 Int8 [1] x", ": int8 Int8 [1] x", ":a int8 Int8 [1] x",
                                          ":a int8 Int8 [1] x", ":../\xFF\n int8 Int8 [1] x"));
  EXPECT_THAT(graph_of(model), HasSubstr(R"({"id":0,"name":null,)"));
  EXPECT_THAT(graph_of(model), HasSubstr("{\"id\":4,\"name\":\"../\xEF\xBF\xBD\\n\","));
}

TEST(Rten, TensorsOfSubgraphsHaveScopes) {
  const Ref w = node("w", kConstant, inline_data({1}, kInt8, list<int8_t>({'x'})));
  const Ref loop = graph({w, op("l", 116, {}, {}, 49, table({{0, graph({w})}}))});
  const Ref both = table({{0, graph({w})}, {1, loop}});
  const Model model = read_well(version2(model_of(graph({w, op("i", 104, {}, {}, 39, both), w}))));
  EXPECT_THAT(listing(model),
              ElementsAre(":w int8 Int8 [1] x", "1.then_branch:w int8 Int8 [1] x", "1.else_branch:w int8 Int8 [1] x",
                          "1.else_branch/1.body:w int8 Int8 [1] x", ":w int8 Int8 [1] x"));
  EXPECT_EQ(metadata_of(model, "graphs"), "4");
}

TEST(Rten, NamesTheGraphOfARefusedTensor) {
  const Ref bad = node("w", kConstant, external_data({99}, kTypeInt8, 0));
  const Model model = read_well(version2(model_of(graph({op("l", 116, {}, {}, 49, table({{0, graph({bad})}}))}))));
  ASSERT_THAT(model.warnings, SizeIs(1));
  EXPECT_THAT(model.warnings[0], testing::StartsWith(R"(tensor "w" (graph 0.body): 99 bytes)"));
}

TEST(Rten, ShowsPresentMetadataStrings) {
  std::map<int, Slot> strings;
  for (int slot = 0; slot < 8; ++slot) strings[slot] = text(fmt::format("s{}", slot));
  EXPECT_EQ(metadata_of(read_well(version2(model_of(graph({}), {{2, table(strings)}}))), "rten"),
            R"({"onnx_hash":"s0","description":"s1","license":"s2","commit":"s3","code_repository":"s4",)"
            R"("model_repository":"s5","run_id":"s6","run_url":"s7"})");
  const Model odd = read_well(version2(model_of(graph({}), {{2, table({{1, text("")}, {2, text("\xFF")}})}})));
  EXPECT_EQ(metadata_of(odd, "rten"), "{\"description\":\"\",\"license\":\"\xEF\xBF\xBD\"}");
  EXPECT_EQ(to_json_line(odd.common), "{\"license\":\"\xEF\xBF\xBD\"}");
  EXPECT_EQ(metadata_of(read_well(version2(model_of(graph({})))), "rten"), "missing");
}

TEST(Rten, ManyInputsAreOmittedFromMetadata) {
  const std::vector<uint32_t> many(2000, 0);
  const Model model = read_well(version2(model_of(graph({value("x", {}, 1)}, many))));
  EXPECT_EQ(metadata_of(model, "inputs"), R"("2000 nodes: see graph.json")");
  std::vector<Ref> dims;
  for (int i = 0; i < 1000; ++i) dims.push_back(dim(std::string(1000, 'd')));
  const Ref wide = value("x", dims, 1);
  EXPECT_EQ(metadata_of(read_well(version2(model_of(graph({wide}, {0, 0, 0})))), "inputs"),
            R"("3 nodes: see graph.json")");
}

TEST(Rten, RefusesInvalidOffsets) {
  const auto root_at = [](uint32_t root, int32_t to_vtable) {
    return bytes_of(root) + bytes_of(to_vtable) + std::string(24, '\0');
  };
  EXPECT_EQ(error_of(root_at(0, 0)), "rten: model data: the offset at 0 is 0");
  EXPECT_EQ(error_of(root_at(4, 5)), "rten: model data: the Model at 4 has its vtable before the start");
  EXPECT_EQ(error_of(root_at(4, -28)), "rten: model data: 2 bytes at offset 32 are not inside its 32");
  EXPECT_EQ(error_of(root_at(32, 0)), "rten: model data: 4 bytes at offset 32 are not inside its 32");
  EXPECT_EQ(error_of(root_at(UINT32_MAX, 0)), "rten: model data: 4 bytes at offset 4294967295 are not inside its 32");
}

TEST(Rten, VerifierRejectionIsReported) {
  std::string file = version1(model_of(graph({value("name", {}, 0)})));
  file[file.find("name") + 4] = '!';
  EXPECT_THAT(error_of(file), HasSubstr("invalid FlatBuffer"));
  const std::string flat = version1(model_of(graph({})));
  const auto shifted = [&](size_t by) {
    std::string bytes = flat;
    bytes.insert(4, by, '\0');
    return bytes.replace(0, 4, bytes_of(static_cast<uint32_t>(flat[0] + static_cast<char>(by))));
  };
  EXPECT_EQ(error_of(shifted(8)), "no error");
  EXPECT_THAT(error_of(shifted(2)), HasSubstr("invalid FlatBuffer"));
}

TEST(Rten, RefusesATableWithoutARequiredField) {
  EXPECT_THAT(error_of(version2(model_of(graph({op("o", 31, {}, {}, 15, table({}))})))),
              HasSubstr("the MaxPoolAttrs at"));
  EXPECT_THAT(error_of(file_of(table({{4, scalar(uint64_t{0})}}))), HasSubstr("has no shape"));
  EXPECT_THAT(error_of(file_of(table({{0, list<uint32_t>({})}, {1, scalar(uint8_t{kInt8})}, {2, table({})}}))),
              HasSubstr("the Int8Data at"));
}

// Every file is refused or completely readable.
void survive(std::string bytes) {
  const auto model = read(in_memory(std::move(bytes)));
  if (!model) {
    EXPECT_THAT(model.error().message, testing::StartsWith("rten: "));
    return;
  }
  for (const TensorView& tensor : model->tensors)
    EXPECT_NE(tensor.source.refused(), read_text(tensor.source, 0, tensor.nbytes()).has_value());
  const std::string json = graph_of(*model);
  EXPECT_TRUE(parse_json(*in_memory(json), 0, json.size())) << json;
}

TEST(Rten, RefusesEveryTruncationOfItsModelData) {
  const std::string file = small_rten();
  const std::string flat = version1(small_model());
  for (size_t size = 0; size < 32 + flat.size(); ++size) EXPECT_NE(error_of(file.substr(0, size)), "no error") << size;
  for (size_t size = 32 + flat.size(); size < file.size(); ++size) survive(file.substr(0, size));
  for (size_t size = 0; size < flat.size(); ++size) survive(flat.substr(0, size));
}

TEST(Rten, SurvivesEveryFlippedByte) {
  for (const std::string& whole : {small_rten(), version1(small_model())})
    for (size_t at = 0; at < whole.size(); ++at)
      for (const int flip : {0x01, 0x04, 0x40, 0x80, 0xFF}) {
        std::string bytes = whole;
        bytes[at] = static_cast<char>(bytes[at] ^ flip);
        survive(bytes);
      }
}

}  // namespace
}  // namespace weightfs::rten_test
