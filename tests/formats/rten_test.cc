#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>

#include "base/json.h"
#include "base/text.h"
#include "formats/format.h"
#include "formats/rten_image.h"
#include "tests/support/rten_builder.h"

namespace weightfs {
namespace {

using namespace test::rten;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Result<Model> read(SourcePtr bytes) { return read_rten(Container{"m.rten", std::move(bytes), nullptr}); }

// The model, or an empty one and a failed test.
Model read_well(std::string bytes) {
  auto model = read(in_memory(std::move(bytes)));
  if (model) return std::move(*model);
  ADD_FAILURE() << model.error().message;
  return {};
}

std::string error_of(std::string bytes) {
  const auto model = read(in_memory(std::move(bytes)));
  return model ? "no error" : model.error().message;
}

std::string text_of(const Source& source) { return read_text(source, 0, source.size()).value_or("unreadable"); }

std::string graph_of(const Model& model) {
  const auto rendered = model.documents.at(0).source.get();
  return rendered ? text_of(**rendered) : rendered.error().message;
}

// One line per tensor: scope, name, dtype, stored dtype, shape, bytes.
std::vector<std::string> listing(const Model& model) {
  std::vector<std::string> lines;
  for (const Tensor& t : model.tensors) {
    std::string shape;
    for (const uint64_t size : t.shape) shape += str(shape.empty() ? "" : "x", size);
    lines.push_back(str(t.scope, ":", t.name, " ", t.dtype->name, " ", t.stored_dtype, " [", shape, "] ",
                        t.source.refused() ? "refused" : text_of(t.source)));
  }
  return lines;
}

std::string metadata_of(const Model& model, std::string_view key) {
  const Value* value = model.metadata.find(key);
  return value == nullptr ? "missing" : to_json_line(*value);
}

// An operator's attributes as graph.json has them.
std::string attributes(uint8_t type, uint8_t tag, Ref attrs) {
  const std::string json =
      graph_of(read_well(version2(model_of(graph({op("o", type, {}, {}, tag, std::move(attrs))})))));
  const size_t begin = json.find("\"attrs\":");
  return begin == std::string::npos ? "none" : json.substr(begin + 8, json.size() - begin - 8 - 4);
}

// A model of one constant.
std::string file_of(Ref constant, std::string_view tensors = "datadata") {
  return version2(model_of(graph({node("w", kConstant, std::move(constant))})), tensors);
}

// A model of a chain of `count` graphs, each the branch of an If in the one before.
Ref nested(int count) {
  Ref inner = graph({});
  for (int i = 1; i < count; ++i) inner = graph({op("if", 104, {}, {}, 39, table({{0, inner}}))});
  return model_of(inner);
}

TEST(Rten, IsKnownByItsMagicOrByAPlausibleFlatBuffer) {
  const auto match = [](const std::string& bytes) { return matches_rten(bytes, bytes.size()); };
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

TEST(Rten, LeavesAFlatBufferWhoseRootIsBeyondTheHeadOpen) {
  EXPECT_EQ(matches_rten(bytes_of(uint32_t{8192}) + std::string(4092, '\0'), 10000), Match::maybe);
  EXPECT_EQ(matches_rten(bytes_of(uint32_t{8194}) + std::string(4092, '\0'), 10000), Match::no);
  EXPECT_EQ(matches_rten(bytes_of(uint32_t{8192}) + std::string(4092, '\0'), 8192), Match::no);
  EXPECT_EQ(matches_rten(bytes_of(uint32_t{8192}) + std::string(4092, '\0'), uint64_t{1} << 31), Match::no);
}

TEST(Rten, BecomesAModel) {
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

TEST(Rten, RendersTheGraphANodePerLine) {
  EXPECT_EQ(graph_of(read_well(small_rten())),
            R"({"inputs":[1],"outputs":[1],"captures":null,"nodes":[
  {"id":0,"name":"w","kind":"constant","dtype":"int8","shape":[3],"storage":"inline","offset":1152,"nbytes":3},
  {"id":1,"name":"x","kind":"value","dtype":"float32","shape":["batch",4]},
  {"id":2,"name":"if","kind":"operator","op":"If","inputs":[1,0],"outputs":[1],"attrs":{"then_branch":{"inputs":[],"outputs":[0],"captures":null,"nodes":[
    {"id":0,"name":"w","kind":"constant","dtype":"float32","shape":[2],"storage":"external","offset":1216,"nbytes":8}]},"else_branch":null}},
  {"id":3,"name":"pad","kind":"operator","op":"Pad","inputs":[0],"outputs":[1],"attrs":{"mode":"Reflect"}}]}
)");
}

TEST(Rten, ReadsVersion1WithoutAMagicNumber) {
  const Model v1 = read_well(
      version1(model_of(graph({node("w", kConstant, inline_data({4}, kUInt8, list<uint8_t>({'d', 'a', 't', 'a'})))}))));
  EXPECT_EQ(v1.version, "1");
  EXPECT_THAT(listing(v1), ElementsAre(":w uint8 UInt8 [4] data"));
  EXPECT_EQ(metadata_of(v1, "header"), "missing");
}

TEST(Rten, AcceptsTheFileIdentifierThatNoWriterStores) {
  std::string file = version1(model_of(graph({})));
  file.replace(4, 4, "RTEN");
  EXPECT_EQ(matches_rten(file, file.size()), Match::maybe);
  EXPECT_EQ(error_of(file), "no error");
}

TEST(Rten, KnowsTheFourTypesOfInlineAndOfExternalTensors) {
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

TEST(Rten, TakesTheTypeOfInlineDataFromItsUnionAndAnOffsetBeforeInlineData) {
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

TEST(Rten, TakesSectionsInAnyOrderOverlappingAndUnaligned) {
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
            str("rten: header: model_data_offset is 31, not between 32 and the file's size, ", 32 + size));
  EXPECT_THAT(error_of(header(33 + size, 0, 32) + flat), HasSubstr("model_data_offset is"));
  EXPECT_EQ(error_of(header(32, size + 1, 32) + flat),
            str("rten: header: model_data_len is ", size + 1, ", and ", size, " bytes follow model_data_offset"));
  EXPECT_THAT(error_of(header(32, UINT64_MAX, 32) + flat), HasSubstr("model_data_len is 18446744073709551615"));
  EXPECT_THAT(error_of(header(32, size, 0) + flat), HasSubstr("tensor_data_offset is 0"));
  EXPECT_THAT(error_of(header(32, size, UINT64_MAX) + flat), HasSubstr("tensor_data_offset is 18446744073709551615"));
  EXPECT_EQ(error_of(header(32, 0, 32) + flat), "rten: model data of 0 bytes; a FlatBuffer has 12 to 2147483646");
  EXPECT_EQ(error_of(header(32, size, 32 + size) + flat), "no error");
}

TEST(Rten, WantsSchemaVersion1) {
  for (const int32_t version : {0, 2, -1}) {
    const Ref root = table({{0, scalar(version)}, {1, graph({})}});
    EXPECT_EQ(error_of(version2(root)), str("rten: schema version ", version, ", not 1"));
  }
  EXPECT_EQ(error_of(version2(table({{1, graph({})}}))), "rten: schema version 0, not 1");
  EXPECT_THAT(error_of(version2(table({{0, scalar(int32_t{1})}}))), HasSubstr("has no graph"));
}

TEST(Rten, RefusesATensorThatLiesAndNoOther) {
  const auto warning = [](const Ref& constant) {
    const Model model = read_well(version2(
        model_of(graph({node("w", kConstant, constant), node("good", kConstant, external_data({4}, kTypeInt8, 4))})),
        "datadata"));
    EXPECT_TRUE(model.tensors.at(0).source.refused());
    EXPECT_EQ(listing(model).at(1), ":good int8 Int8 [4] data");
    EXPECT_THAT(graph_of(model), HasSubstr("\"problem\":"));
    return model.warnings.size() == 1 ? model.warnings[0] : str(model.warnings.size(), " warnings");
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

TEST(Rten, HasNoTensorSectionInVersion1) {
  const Model v1 = read_well(version1(model_of(graph({node("w", kConstant, external_data({1}, kTypeInt8, 0))}))));
  EXPECT_TRUE(v1.tensors.at(0).source.refused());
  EXPECT_THAT(v1.warnings, ElementsAre(R"(tensor "w": has a data_offset, and a version 1 file has no tensor section)"));
}

TEST(Rten, KeepsNamesAsTheyAre) {
  const Ref data = inline_data({1}, kInt8, list<int8_t>({'x'}));
  const Model model = read_well(version2(
      model_of(graph({node(std::map<int, Slot>{}, kConstant, data), node("", kConstant, data),
                      node("a", kConstant, data), node("a", kConstant, data), node("../\xFF\n", kConstant, data)}))));
  EXPECT_THAT(listing(model), ElementsAre(": int8 Int8 [1] x", ": int8 Int8 [1] x", ":a int8 Int8 [1] x",
                                          ":a int8 Int8 [1] x", ":../\xFF\n int8 Int8 [1] x"));
  EXPECT_THAT(graph_of(model), HasSubstr(R"({"id":0,"name":null,)"));
  EXPECT_THAT(graph_of(model), HasSubstr("{\"id\":4,\"name\":\"../\xEF\xBF\xBD\\n\","));
}

TEST(Rten, TellsTheTensorsOfSubgraphsApartByTheirScope) {
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

TEST(Rten, ShowsWhatTheRuntimeWouldRefuseAndSaysSo) {
  const Model model = read_well(version2(model_of(
      graph({op("new", 200, {}, {}), op("ahead", 0, {-1, 2}, {}), op("out", 0, {0}, {9}), node("odd", 7, table({}))},
            {4}, {5}))));
  EXPECT_THAT(model.warnings,
              ElementsAre("input 4: is none of the graph's 4 nodes", "output 5: is none of the graph's 4 nodes",
                          R"(node 0 "new": is an operator unknown(200))",
                          R"(node 1 "ahead": has input 2, which is not before it)",
                          R"(node 2 "out": has output 9, which is none of the graph's 4 nodes)",
                          R"(node 3 "odd": is of kind unknown(7))"));
  EXPECT_EQ(graph_of(model), R"json({"inputs":[4],"outputs":[5],"captures":null,"nodes":[
  {"id":0,"name":"new","kind":"operator","op":"unknown(200)","inputs":[],"outputs":[],"problem":"is an operator unknown(200)"},
  {"id":1,"name":"ahead","kind":"operator","op":"Add","inputs":[-1,2],"outputs":[],"problem":"has input 2, which is not before it"},
  {"id":2,"name":"out","kind":"operator","op":"Add","inputs":[0],"outputs":[9],"problem":"has output 9, which is none of the graph's 4 nodes"},
  {"id":3,"name":"odd","kind":"unknown(7)","problem":"is of kind unknown(7)"}]}
)json");
  EXPECT_EQ(metadata_of(model, "inputs"), "[]");
  EXPECT_EQ(metadata_of(model, "operators"), R"json({"Add":2,"unknown(200)":1})json");
}

TEST(Rten, ShowsShapesAsFarAsTheyAreKnown) {
  const Ref no_shape = node("v", kValue, table({}));
  const Model model = read_well(version2(
      model_of(graph({no_shape, value("s", {}, 0), value("d", {dim("n"), dim(0), dim(3)}, 2), value("t", {}, 9)}))));
  EXPECT_EQ(graph_of(model), R"json({"inputs":[],"outputs":[],"captures":null,"nodes":[
  {"id":0,"name":"v","kind":"value","dtype":null,"shape":null},
  {"id":1,"name":"s","kind":"value","dtype":"int32","shape":[]},
  {"id":2,"name":"d","kind":"value","dtype":"int8","shape":["n",0,3]},
  {"id":3,"name":"t","kind":"value","dtype":"unknown(9)","shape":[]}]}
)json");
}

TEST(Rten, AcceptsAGraphWithoutAnything) {
  const Model model = read_well(version2(model_of(table({}))));
  EXPECT_THAT(model.tensors, IsEmpty());
  EXPECT_EQ(graph_of(model), "{\"inputs\":null,\"outputs\":null,\"captures\":null,\"nodes\":[]}\n");
  EXPECT_EQ(metadata_of(model, "inputs"), "[]");
}

TEST(Rten, ShowsTheEightStringsOfMetadataThatAreThere) {
  std::map<int, Slot> strings;
  for (int slot = 0; slot < 8; ++slot) strings[slot] = text(str("s", slot));
  EXPECT_EQ(metadata_of(read_well(version2(model_of(graph({}), {{2, table(strings)}}))), "rten"),
            R"({"onnx_hash":"s0","description":"s1","license":"s2","commit":"s3","code_repository":"s4",)"
            R"("model_repository":"s5","run_id":"s6","run_url":"s7"})");
  const Model odd = read_well(version2(model_of(graph({}), {{2, table({{1, text("")}, {2, text("\xFF")}})}})));
  EXPECT_EQ(metadata_of(odd, "rten"), "{\"description\":\"\",\"license\":\"\xEF\xBF\xBD\"}");
  EXPECT_EQ(to_json_line(odd.common), "{\"license\":\"\xEF\xBF\xBD\"}");
  EXPECT_EQ(metadata_of(read_well(version2(model_of(graph({})))), "rten"), "missing");
}

TEST(Rten, KeepsManyInputsOutOfTheMetadata) {
  const std::vector<uint32_t> many(2000, 0);
  const Model model = read_well(version2(model_of(graph({value("x", {}, 1)}, many))));
  EXPECT_EQ(metadata_of(model, "inputs"), R"("2000 nodes: see graph.json")");
  const Ref wide = value("x", std::vector<Ref>(1000, dim(std::string(1000, 'd'))), 1);
  EXPECT_EQ(metadata_of(read_well(version2(model_of(graph({wide}, {0, 0, 0})))), "inputs"),
            R"("3 nodes: see graph.json")");
}

TEST(Rten, NumbersOperatorsAndAttributesAsTheFormatDoes) {
  const std::map<uint8_t, std::string> names{{0, "Add"},
                                             {1, "ArgMin"},
                                             {34, "Pad"},
                                             {69, "Round"},
                                             {99, "RandomNormalLike"},
                                             {104, "If"},
                                             {116, "Loop"},
                                             {128, "GlobalMaxPool"},
                                             {144, "ReduceLogSumExp"},
                                             {145, "unknown(145)"},
                                             {255, "unknown(255)"}};
  std::vector<Ref> nodes;
  for (const auto& [number, name] : names) nodes.push_back(op("o", number, {}, {}));
  const std::string json = graph_of(read_well(version2(model_of(graph(nodes)))));
  for (const auto& [number, name] : names) EXPECT_THAT(json, HasSubstr("\"op\":\"" + name + "\""));
}

TEST(Rten, ShowsAttributesWithTheirDefaults) {
  EXPECT_EQ(attributes(0, 0, nullptr), "none");
  EXPECT_EQ(attributes(7, 5, table({})), R"({"axis":0})");
  EXPECT_EQ(attributes(7, 5, table({{0, scalar(int32_t{-2})}})), R"({"axis":-2})");
  EXPECT_EQ(attributes(115, 48, table({})), "{}");
  EXPECT_EQ(attributes(10, 8, table({})),
            R"({"strides":null,"auto_pad":"NotSet","pads":null,"groups":1,"output_padding":null,"dilations":null})");
  EXPECT_EQ(attributes(142, 62, table({})), R"({"axis":-1,"p":2})");
  EXPECT_EQ(attributes(127, 54, table({})), R"({"onesided":true})");
  EXPECT_EQ(attributes(52, 21, table({{0, list<uint32_t>({1, 0})}})), R"({"perm":[1,0]})");
  EXPECT_EQ(attributes(103, 38, table({{0, text("ij->ji")}})), R"({"equation":"ij->ji"})");
  EXPECT_EQ(attributes(5, 4, table({{0, scalar(uint8_t{1})}})), R"({"to":"Float"})");
  EXPECT_EQ(attributes(5, 4, table({{0, scalar(uint8_t{77})}})), R"json({"to":"unknown(77)"})json");
}

TEST(Rten, TellsAnAbsentAttributeFromADefault) {
  EXPECT_EQ(attributes(42, 45, table({})), R"({"start":null,"end":null})");
  EXPECT_EQ(attributes(42, 45, table({{1, scalar(int32_t{0})}})), R"({"start":null,"end":0})");
  EXPECT_EQ(attributes(113, 47, table({})), R"({"dtype":null,"k":0})");
  EXPECT_EQ(attributes(113, 47, table({{0, scalar(uint8_t{0})}})), R"({"dtype":"Int32","k":0})");
}

TEST(Rten, WritesFloatsAsAPersonWould) {
  const auto epsilon = [](float number) { return attributes(4, 3, table({{0, scalar(number)}})); };
  EXPECT_EQ(epsilon(1e-5f), R"({"epsilon":1e-05})");
  EXPECT_EQ(epsilon(0.1f), R"({"epsilon":0.1})");
  EXPECT_EQ(epsilon(std::numeric_limits<float>::quiet_NaN()), R"({"epsilon":"NaN"})");
  EXPECT_EQ(epsilon(-std::numeric_limits<float>::infinity()), R"({"epsilon":"-Infinity"})");
}

TEST(Rten, ShowsAUnionWithItsMembersName) {
  const auto fill = [](uint8_t tag, Slot number) {
    return attributes(8, 6, table({{0, scalar(tag)}, {1, table({{0, std::move(number)}})}}));
  };
  EXPECT_EQ(fill(1, scalar(int32_t{7})), R"({"value":{"IntScalar":{"value":7}}})");
  EXPECT_EQ(fill(2, scalar(2.5f)), R"({"value":{"FloatScalar":{"value":2.5}}})");
  EXPECT_EQ(fill(9, scalar(2.5f)), R"json({"value":"unknown(9)"})json");
}

TEST(Rten, NamesAttributesOfALaterSchemaByTheirTag) {
  EXPECT_EQ(attributes(150, 63, table({{0, scalar(int32_t{1})}})), R"({"unknown_attrs":63})");
}

TEST(Rten, RefusesATableWithoutARequiredField) {
  EXPECT_THAT(error_of(version2(model_of(graph({op("o", 31, {}, {}, 15, table({}))})))),
              HasSubstr("the MaxPoolAttrs at"));
  EXPECT_THAT(error_of(file_of(table({{4, scalar(uint64_t{0})}}))), HasSubstr("has no shape"));
  EXPECT_THAT(error_of(file_of(table({{0, list<uint32_t>({})}, {1, scalar(uint8_t{kInt8})}, {2, table({})}}))),
              HasSubstr("the Int8Data at"));
}

TEST(Rten, NestsFifteenGraphsUnderTheMainOneAndNoMore) {
  EXPECT_EQ(error_of(version2(nested(16))), "no error");
  EXPECT_EQ(error_of(version2(nested(17))), "rten: model data: tables nested deeper than 64");
}

// Eight branches that are one graph, thirteen times over: 8^13 graphs in a few kilobytes.
TEST(Rten, CountsSharedGraphsEachTime) {
  Ref shared = graph({});
  for (int i = 0; i < 13; ++i) {
    const Ref both = table({{0, shared}, {1, shared}});
    shared = graph(std::vector<Ref>(4, op("if", 104, {}, {}, 39, both)));
  }
  const std::string file = version2(model_of(shared));
  EXPECT_LT(file.size(), 8192u);
  EXPECT_EQ(error_of(file), "rten: model data: more than 4000000 tables, counted at each use");
}

TEST(Rten, CountsSharedTextEachTime) {
  const std::string name(rten::kLongestList, 'n');
  const auto named = [&](size_t count) {
    return version2(model_of(graph(std::vector<Ref>(count, value(name, {}, 0)))));
  };
  EXPECT_EQ(error_of(named(2)), "no error");
  EXPECT_EQ(error_of(named(257)),
            "rten: model data: more than 268435456 bytes of lists and strings, counted at each use");
}

TEST(Rten, BoundsListsAndStrings) {
  const std::vector<uint32_t> longest(rten::kLongestList, 0);
  std::vector<uint32_t> longer = longest;
  longer.push_back(0);
  EXPECT_EQ(error_of(version2(model_of(graph({value("x", {}, 0)}, longest)))), "no error");
  EXPECT_EQ(error_of(version2(model_of(graph({value("x", {}, 0)}, longer)))),
            "rten: model data: inputs of 1048577 elements, more than 1048576");
  EXPECT_EQ(error_of(version2(model_of(graph({value(std::string(rten::kLongestList + 1, 'x'), {}, 0)})))),
            "rten: model data: a string of 1048577 elements, more than 1048576");
}

TEST(Rten, RendersAGraphOfManyNodes) {
  const Model model = read_well(version2(model_of(graph(std::vector<Ref>(50'000, value("x", {}, 0))))));
  const std::string json = graph_of(model);
  EXPECT_EQ(std::count(json.begin(), json.end(), '\n'), 50'001);
  EXPECT_TRUE(parse_json(*in_memory(json), 0, json.size()));
}

TEST(Rten, SaysOnlySoMuchAboutAFileFullOfLies) {
  const Ref bad = node("w", kConstant, external_data({99}, kTypeInt8, 0));
  const Model model = read_well(version2(model_of(graph(std::vector<Ref>(5000, bad)))));
  EXPECT_THAT(model.tensors, SizeIs(5000));
  EXPECT_LE(model.warnings.size(), 1001u);
  EXPECT_THAT(model.warnings.back(), HasSubstr("more"));
}

// Bytes with holes, which counts what is read of them.
class Holey final : public Source {
 public:
  explicit Holey(Pieces pieces) : pieces_(std::move(pieces)) {}
  uint64_t size() const override { return pieces_.size; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (broken) return failure(Code::io, "broken");
    const size_t count = offset >= size() ? 0 : static_cast<size_t>(std::min<uint64_t>(out.size(), size() - offset));
    std::fill_n(out.begin(), count, std::byte{0});
    for (const auto& [begin, piece] : pieces_.at)
      for (size_t i = 0; i < piece.size(); ++i)
        if (begin + i >= offset && begin + i < offset + count)
          out[begin + i - offset] = static_cast<std::byte>(piece[i]);
    bytes_read += count;
    return count;
  }

  mutable std::atomic<uint64_t> bytes_read = 0;
  std::atomic<bool> broken = false;

 private:
  Pieces pieces_;
};

// A version 1 file of 1.5 GiB of weights, with structure before, between and after.
Pieces large_version1() {
  const auto constant = [](const char* name, uint32_t count) {
    return node(name, kConstant, inline_data({count}, kFloat, hole(count, sizeof(float))));
  };
  return FlatBufferLayout(model_of(graph({constant("a", 1 << 28), constant("b", 1 << 27), constant("c", 3)}))).take();
}

TEST(Rten, LeavesWeightsUnread) {
  const auto source = std::make_shared<Holey>(large_version1());
  ASSERT_GT(source->size(), uint64_t{3} << 29);
  const auto model = read(source);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_LE(source->bytes_read, 10 * rten::kPage);
  ASSERT_THAT(model->tensors, SizeIs(3));
  EXPECT_EQ(model->tensors[0].nbytes(), uint64_t{1} << 30);
  EXPECT_EQ(model->tensors[1].nbytes(), uint64_t{1} << 29);
  EXPECT_THAT(graph_of(*model), HasSubstr(R"("name":"c","kind":"constant","dtype":"float32","shape":[3])"));
  EXPECT_LE(source->bytes_read, 20 * rten::kPage);
}

TEST(Rten, ReadsNoFlatBufferOfTwoGigabytes) {
  Pieces pieces = large_version1();
  pieces.size = (uint64_t{1} << 31) - 2;
  EXPECT_TRUE(read(std::make_shared<Holey>(pieces)));
  pieces.size += 1;
  EXPECT_EQ(read(std::make_shared<Holey>(pieces)).error().message,
            "rten: model data of 2147483647 bytes; a FlatBuffer has 12 to 2147483646");
}

TEST(Rten, TellsWhatTheSourceCannotRead) {
  const auto source = std::make_shared<Holey>(large_version1());
  const auto model = read(source);
  source->broken = true;
  const auto again = read(source);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::io);
  EXPECT_EQ(graph_of(*model), "broken");
}

// Whatever a file says: it is refused, or all that it says can be read.
void survive(std::string bytes) {
  const auto model = read(in_memory(std::move(bytes)));
  if (!model) {
    EXPECT_THAT(model.error().message, testing::StartsWith("rten: "));
    return;
  }
  for (const Tensor& tensor : model->tensors)
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
}  // namespace weightfs
