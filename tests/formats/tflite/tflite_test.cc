#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/values/json.h"
#include "formats/completeness.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/tflite_reading.h"

namespace weightfs::tflite_test {
namespace {

using namespace test::tflite;
using test::listing;
using test::ZipBuilder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A file of these tensors, whose buffer 1 has eight bytes.
std::string file_with(std::vector<Ref> tensors) {
  return file_of(model({subgraph(std::move(tensors))}, {empty_buffer(), buffer("12345678")}));
}

bool is_json(const std::string& text) { return parse_json(*in_memory(text), 0, text.size()).has_value(); }

TEST(Tflite, IsDetectedByItsIdentifier) {
  const auto match = [](const std::string& bytes) { return matches_tflite(test::probe_of(bytes)); };
  EXPECT_EQ(match(small_tflite()), Match::yes);
  EXPECT_EQ(match("    TFL3"), Match::yes);
  EXPECT_EQ(match("    TFL2"), Match::no);
  EXPECT_EQ(match("TFL3"), Match::no);
  EXPECT_EQ(match(""), Match::no);
}

// A file with a zip behind the FlatBuffer is not a zip.
TEST(Tflite, IsDetectedBeforeTheZipAtItsEnd) {
  const auto model = read_model(Container{"m", in_memory(small_tflite())});
  ASSERT_TRUE(model);
  EXPECT_EQ(model->format, "tflite");
}

TEST(Tflite, SmallModelIsShown) {
  const Model model = read_well(small_tflite(), {{"weights.bin", "0123"}});
  EXPECT_THAT(listing(model),
              ElementsAre("w float32 FLOAT32 [2] \1\2\3\4\5\6\7\x08", "q int4 INT4 [3] \x21\x03",
                          testing::StartsWith("s string STRING [2] "), "sparse unknown INT8 [9] \1\2\3\4\5\6\7\x08",
                          "ext int8 INT8 [2] 12", "w float32 FLOAT32 [2] \1\2\3\4\5\6\7\x08"));
  EXPECT_EQ(model.tensors[0].scope, "");
  EXPECT_EQ(model.tensors[5].scope, "subgraphs/body");
  EXPECT_EQ(model.version, "3");
  EXPECT_EQ(text_in(model.common, "description"), "a model");
  EXPECT_THAT(test::json_at(model.common, "code"), HasSubstr("custom operator Mine"));
  EXPECT_EQ(metadata_of(model, "operators"), R"({"CONV_2D":1,"CUSTOM:Mine":1})");
  EXPECT_EQ(metadata_of(model, "inputs"), R"([{"name":"x","dtype":"float32","shape":[1,2]}])");
  EXPECT_EQ(metadata_of(model, "signatures"), R"([{"key":"serve","subgraph":0,"inputs":{"x":0},"outputs":{"x":0}}])");
  EXPECT_EQ(metadata_of(model, "entries"), R"([{"name":"min_runtime_version","buffer":4,"nbytes":8,"text":"1.5.0"}])");
  EXPECT_EQ(metadata_of(model, "quantization"),
            R"([{"name":"q","subgraph":0,"id":2,"scale":[0.5],"zero_point":[1],"quantized_dimension":0}])");
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("\"sparse\": sparse; its 8 bytes")));
}

TEST(Tflite, GraphHasALineForEachTensorAndOperator) {
  const std::string graph = document_of(read_well(small_tflite()), "graph.json");
  EXPECT_TRUE(is_json(graph)) << graph;
  EXPECT_THAT(graph, HasSubstr("\n{\"id\":0,\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[1,2],\"buffer\":0}"));
  EXPECT_THAT(graph, HasSubstr("\"nbytes\":2,\"scale\":[0.5],\"zero_point\":[1],\"quantized_dimension\":0}"));
  EXPECT_THAT(graph, HasSubstr("\n{\"op\":\"CONV_2D\",\"inputs\":[0,1],\"outputs\":[1]}"));
  EXPECT_THAT(graph, HasSubstr("\n{\"op\":\"CUSTOM:Mine\",\"inputs\":[0,-1],\"outputs\":[1]}"));
}

TEST(Tflite, ZeroCopyTensorsAreSlicesOfTheFile) {
  const SourcePtr bytes = in_memory(small_tflite());
  const auto model = read(bytes);
  ASSERT_TRUE(model);
  for (const TensorView& tensor : model->tensors)
    EXPECT_EQ(tensor.source.refused() ? bytes : tensor.source.whole(), bytes) << tensor.name;
}

TEST(Tflite, AssociatedFilesAndNamedBuffersAreParts) {
  const Model model = read_well(small_tflite(), {{"weights.bin", "0123"}});
  std::vector<std::string> paths;
  for (const Part& part : model.parts) paths.push_back(part.path);
  EXPECT_THAT(
      paths, ElementsAre("labels.txt", "inner.safetensors", "m.tflite", "weights.bin", "metadata/min_runtime_version"));
  EXPECT_EQ(test::text_of(**model.parts[0].source.get()), "cat\ndog\n");
  EXPECT_EQ(model.stored_bytes, small_tflite().size());
}

TEST(Tflite, CutAssociatedFilesMakeTheModelIncomplete) {
  const std::string whole = small_tflite();
  for (size_t size = whole.find("PK\3\4") + 4; size < whole.size(); ++size)
    EXPECT_EQ(to_sentence(completeness_of(read_well(whole.substr(0, size), {{"weights.bin", "0123"}}))),
              "1 file cannot be read: associated files: the zip behind the model has no end")
        << size;
}

TEST(Tflite, BufferBehindTheEndMakesTheModelIncompleteIfNoTensorHasIt) {
  std::string file = file_of(model({subgraph({tensor("w", {2}, kInt8, 1)})}, {buffer("unused"), buffer("ww")}));
  const auto lack = [](const std::string& bytes) { return to_sentence(completeness_of(read_well(bytes))); };
  EXPECT_EQ(lack(file), "");
  file.at(file.find("unused") - 3) = 1;  // the list has 256 elements more
  EXPECT_THAT(lack(file), HasSubstr("the model is incomplete: the last buffer: the list at"));
}

// The FlatBuffer of a file, which has text and padding at its end.
TEST(Tflite, CutFilesAreRefusedOrIncomplete) {
  const std::string whole = small_tflite();
  constexpr size_t kAlignment = 8;
  for (size_t size = 8; size < whole.find("PK\3\4") - kAlignment; ++size) {
    const auto model = read(in_memory(whole.substr(0, size)));
    EXPECT_TRUE(!model || !completeness_of(*model).is_complete()) << size;
  }
}

TEST(Tflite, ModelsAmongTheAssociatedFilesAreNested) {
  ZipBuilder zip;
  zip.stored("inner.safetensors", test::SafetensorsBuilder().tensor("t", "U8", "1", "x").build());
  const auto model = std::make_shared<const Model>(read_well(file_with({}) + zip.build()));
  ASSERT_TRUE(model->nested);
  const auto nested = model->nested(model);
  ASSERT_TRUE(nested);
  ASSERT_THAT(*nested, SizeIs(1));  // not the file itself
  EXPECT_EQ((*nested)[0].model.get().value()->format, "safetensors");
}

TEST(Tflite, DamagedZipAtTheEndIsAWarning) {
  ZipBuilder zip;
  zip.stored("a", "a");
  std::string bytes = zip.build();
  bytes[bytes.find("PK\1\2") + 10] = '\x7F';  // flags: the directory still begins where the end record says
  const Model model = read_well(file_with({tensor("w", {8}, kInt8, 1)}) + bytes.substr(0, bytes.size()));
  EXPECT_THAT(listing(model), SizeIs(1));
}

TEST(Tflite, OffsetBuffersAreInTheFile) {
  std::string bytes = file_of(
      model({subgraph({tensor("w", {4}, kInt8, 1), tensor("one", {4}, kInt8, 2), tensor("end", {4}, kInt8, 3),
                       tensor("wraps", {4}, kInt8, 4)})},
            {empty_buffer(), buffer_at(2000, 4), buffer_at(1, 4), buffer_at(2002, 4), buffer_at(UINT64_MAX - 1, 4)}));
  ASSERT_LT(bytes.size(), 2000u);
  bytes.resize(2000, '\0');
  const Model model = read_well(bytes + "data");
  // An offset of 1 stands for none.
  EXPECT_THAT(listing(model),
              ElementsAre("w int8 INT8 [4] data", "end int8 INT8 [4] refused", "wraps int8 INT8 [4] refused"));
  EXPECT_THAT(model.warnings, SizeIs(2));
}

TEST(Tflite, OneBadTensorDoesNotRefuseTheFile) {
  const Model model =
      read_well(file_with({tensor("short", {9}, kInt8, 1), tensor("negative", {-8}, kInt8, 1),
                           tensor("wraps", {1 << 30, 1 << 30, 1 << 30}, kFloat32, 1), tensor("missing", {8}, kInt8, 2),
                           tensor("good", {2}, kFloat32, 1), tensor("rank", std::vector<int32_t>(1025, 1), kInt8, 1)}));
  EXPECT_THAT(listing(model), ElementsAre("short int8 INT8 [9] refused", "negative int8 INT8 [] refused",
                                          HasSubstr("refused"), "missing int8 INT8 [8] refused",
                                          "good float32 FLOAT32 [2] 12345678", "rank int8 INT8 [] refused"));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"short\": has 8 bytes, and its shape needs 9",
                                          "tensor \"negative\": has a dimension of -8",
                                          "tensor \"wraps\": has a shape of more than 2^64 bytes",
                                          "tensor \"missing\": has buffer 2, and the file has 2",
                                          "tensor \"rank\": has 1025 dimensions, more than 1024"));
}

TEST(Tflite, TypesThatAreNotNumbersAreShownAsBytes) {
  const Model model =
      read_well(file_with({tensor("r", {1}, kResource, 1), tensor("new", {2}, 99, 1), tensor("odd", {2}, -1, 1)}));
  EXPECT_THAT(listing(model), ElementsAre("r unknown RESOURCE [1] 12345678", "new unknown type 99 [2] 12345678",
                                          "odd unknown type -1 [2] 12345678"));
}

TEST(Tflite, PackedTypesRoundUpToWholeBytes) {
  const Ref graph = subgraph({tensor("int4", {3, 5}, kInt4, 1), tensor("int2", {3, 11}, kInt2, 2)});
  const Model model =
      read_well(file_of(test::tflite::model({graph}, {empty_buffer(), buffer("12345678"), buffer("123456789")})));
  EXPECT_THAT(listing(model), ElementsAre("int4 int4 INT4 [3x5] 12345678", "int2 int2 INT2 [3x11] 123456789"));
}

TEST(Tflite, StringTensorsHaveTheirTexts) {
  const auto texts = [](std::string bytes, const std::vector<int32_t>& shape) -> std::string {
    const Model model = read_well(
        file_of(test::tflite::model({subgraph({tensor("s", shape, kString, 1)})}, {empty_buffer(), buffer(bytes)})));
    const auto strings = model.per_tensor->strings.at(0).get();
    if (!strings) return strings.error().message;
    std::string out;
    for (const std::string& text : **strings) out += "<" + text + ">";
    return out;
  };
  EXPECT_EQ(texts(strings({"a", "", "\xC3\xA9\xFF"}), {3, 1}), "<a><><\xC3\xA9\xEF\xBF\xBD>");
  EXPECT_EQ(texts(strings({}), {0}), "");
  EXPECT_THAT(texts(strings({"a"}), {2}), HasSubstr("has 1 strings"));
  EXPECT_THAT(texts(bytes_of(-1), {1}), HasSubstr("has -1 strings"));
  EXPECT_THAT(texts(bytes_of(1'000'000), {1'000'000}), HasSubstr("a count of 1000000"));
  EXPECT_THAT(texts(bytes_of(1) + bytes_of(12) + bytes_of(13), {1}), HasSubstr("has string 1 at 13"));
  EXPECT_THAT(texts(bytes_of(1) + bytes_of(12) + bytes_of(11), {1}), HasSubstr("has string 1 at 11"));
}

// One with the name of another, one without a name, one whose name has a slash.
TEST(Tflite, SubgraphsHaveADirectoryEach) {
  const auto named = [](std::string_view name) { return subgraph({tensor("w", {8}, kInt8, 1)}, {{4, text(name)}}); };
  const Model model = read_well(file_of(test::tflite::model(
      {named("main"), named("body"), named("body"), named(""), named("../up"), named(std::string(256, 'n'))},
      {empty_buffer(), buffer("12345678")})));
  std::vector<std::string> scopes;
  for (const TensorView& tensor : model.tensors) scopes.emplace_back(tensor.scope);
  EXPECT_THAT(scopes, ElementsAre("", "subgraphs/body", "subgraphs/2", "subgraphs/3", "subgraphs/4", "subgraphs/5"));
}

TEST(Tflite, WarningsNameTheSubgraphInPrintableText) {
  const Ref body = subgraph({tensor("w", {9}, kInt8, 1)}, {{4, text("bo\tdy\xFF")}});
  const Model model =
      read_well(file_of(test::tflite::model({subgraph({}), body}, {empty_buffer(), buffer("12345678")})));
  EXPECT_THAT(model.warnings,
              ElementsAre("tensor \"w\" (subgraphs/bo\\x09dy\\xff): has 8 bytes, and its shape needs 9"));
}

TEST(Tflite, ManyQuantizationParametersAreInADocument) {
  const Ref many = quantization(std::vector<float>(1000, 0.25F), std::vector<int64_t>(1000, 3), 1);
  const Model model =
      read_well(file_with({tensor("q", {8}, kInt8, 1, {{4, many}}), tensor("x", {8}, kInt8, 0, {{4, many}})}));
  EXPECT_EQ(metadata_of(model, "quantization"), R"({"count":1,"path":"metadata/quantization.json"})");
  const std::string document = document_of(model, "metadata/quantization.json");
  EXPECT_TRUE(is_json(document)) << document;
  EXPECT_THAT(document, HasSubstr("{\"id\":0,\"name\":\"q\",\"subgraph\":0,\"scale\":[0.25,0.25,"));
  EXPECT_THAT(document, testing::Not(HasSubstr("\"x\"")));
}

TEST(Tflite, OperatorsOfTensorFlowThatReadFilesAreCode) {
  const auto code_of_op = [](const std::string& name) {
    const Ref custom = table({{0, scalar(int8_t{32})}, {1, text(name)}, {3, scalar(32)}});
    const Model model = read_well(
        file_of(test::tflite::model({subgraph({}, {{3, tables({call(0, {}, {})})}})}, {}, {{1, tables({custom})}})));
    return test::json_at(model.common, "code");
  };
  EXPECT_THAT(code_of_op("FlexWriteFile"), HasSubstr("operator FlexWriteFile"));
  EXPECT_EQ(code_of_op("FlexErf"), "missing");
}

TEST(Tflite, OperatorCodesOfTwoGenerationsAreNamed) {
  const auto operators_of = [](std::vector<Ref> codes, std::vector<Ref> calls) {
    const Model model = read_well(file_of(
        test::tflite::model({subgraph({}, {{3, tables(std::move(calls))}})}, {}, {{1, tables(std::move(codes))}})));
    return metadata_of(model, "operators") + (model.warnings.empty() ? "" : model.warnings[0]);
  };
  const auto code = [](int8_t old_number, int32_t number) {
    return table({{0, scalar(old_number)}, {3, scalar(number)}});
  };
  const Ref old_code = table({{0, scalar(int8_t{3})}});
  const std::vector<Ref> calls = {call(0, {}, {})};
  EXPECT_EQ(operators_of({old_code}, calls), "{\"CONV_2D\":1}");
  EXPECT_EQ(operators_of({code(127, 150)}, calls), "{\"GELU\":1}");
  EXPECT_EQ(operators_of({code(127, 999)}, calls), "{\"unknown(999)\":1}");
  EXPECT_EQ(operators_of({}, {call(4, {}, {})}), "{}operator 0 of subgraph 0: has operator code 4, and the file has 0");
}

TEST(Tflite, RefusesFilesThatAreNotFlatBuffers) {
  EXPECT_EQ(error_of(""), "tflite: no file identifier TFL3");
  EXPECT_EQ(error_of("    TFL2"), "tflite: no file identifier TFL3");
  EXPECT_THAT(error_of(bytes_of(8U) + "TFL3"), HasSubstr("tflite: 4 bytes at offset 8 are not inside its 8"));
}

}  // namespace
}  // namespace weightfs::tflite_test
