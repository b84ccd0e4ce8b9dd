#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/completeness.h"
#include "formats/format.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::safetensors_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Result<Model> read(std::string bytes) {
  return read_as("safetensors", Container{"m.safetensors", in_memory(std::move(bytes)), nullptr});
}

Model read_well(std::string bytes) { return well(read(std::move(bytes))); }

std::string error_of(std::string bytes) { return error_in(read(std::move(bytes))); }

// The error of a file with this header and no data.
std::string error_of_header(std::string_view header) { return error_of(safetensors_file(header)); }

// The error of a file with one tensor "a" of these fields and one byte.
std::string error_of_fields(std::string_view fields) {
  return error_of(safetensors_file(fmt::format("{}{}}}}}", R"({"a":{)", fields), "x"));
}

// A header of these entries.
std::string header_of(const std::vector<std::string>& entries) {
  std::string header;
  for (const std::string& entry : entries) header += fmt::format("{}{}", header.empty() ? '{' : ',', entry);
  return header + '}';
}

TEST(Safetensors, IsReadAsModel) {
  const Model model = read_well(small_safetensors());
  EXPECT_EQ(model.format, "safetensors");
  EXPECT_EQ(model.version, "");
  EXPECT_THAT(listing(model), ElementsAre("w float32 F32 [2x1] wwwwWWWW", "empty int64 I64 [0] ", "s uint8 U8 [] s",
                                          "f4 float4_e2m1fn F4 [4] ff"));
  EXPECT_EQ(to_json(model.metadata), R"({
  "format": "pt",
  "modelspec.title": "Tiny",
  "safetensors": {
    "header_length": 274
  }
}
)");
  EXPECT_EQ(to_json(model.common), "{\n  \"name\": \"Tiny\",\n  \"framework\": \"pt\"\n}\n");
  EXPECT_THAT(model.warnings, IsEmpty());
  ASSERT_EQ(model.parts.size(), 1u);
  EXPECT_EQ(model.parts[0].path, "m.safetensors");
  EXPECT_EQ(text_of(**model.parts[0].source.get()), small_safetensors());
}

TEST(Safetensors, ReadsEveryDTypeOfTheReference) {
  const std::vector<std::tuple<std::string, std::string, size_t>> kEight = {{"BOOL", "bool", 8},
                                                                            {"F4", "float4_e2m1fn", 4},
                                                                            {"F6_E2M3", "float6_e2m3fn", 6},
                                                                            {"F6_E3M2", "float6_e3m2fn", 6},
                                                                            {"U8", "uint8", 8},
                                                                            {"I8", "int8", 8},
                                                                            {"F8_E5M2", "float8_e5m2", 8},
                                                                            {"F8_E4M3", "float8_e4m3fn", 8},
                                                                            {"F8_E8M0", "float8_e8m0fnu", 8},
                                                                            {"F8_E4M3FNUZ", "float8_e4m3fnuz", 8},
                                                                            {"F8_E5M2FNUZ", "float8_e5m2fnuz", 8},
                                                                            {"I16", "int16", 16},
                                                                            {"U16", "uint16", 16},
                                                                            {"F16", "float16", 16},
                                                                            {"BF16", "bfloat16", 16},
                                                                            {"I32", "int32", 32},
                                                                            {"U32", "uint32", 32},
                                                                            {"F32", "float32", 32},
                                                                            {"C64", "complex64", 64},
                                                                            {"F64", "float64", 64},
                                                                            {"I64", "int64", 64},
                                                                            {"U64", "uint64", 64}};
  for (const auto& [stored, name, bits] : kEight) {
    const Model model = read_well(SafetensorsBuilder().tensor("a", stored, "2,4", std::string(bits, 'x')).build());
    EXPECT_THAT(listing(model), ElementsAre(fmt::format("a {} {} [2x4] {}", name, stored, std::string(bits, 'x'))));
    EXPECT_THAT(model.warnings, IsEmpty());
  }
}

TEST(Safetensors, ListsTensorsInTheOrderOfTheHeader) {
  const std::string header =
      header_of({safetensors_entry("late", "U8", "1", 1, 2), safetensors_entry("none", "U8", "0", 1, 1),
                 safetensors_entry("early", "U8", "1", 0, 1)});
  EXPECT_THAT(listing(read_well(safetensors_file(header, "el"))),
              ElementsAre("late uint8 U8 [1] l", "none uint8 U8 [0] ", "early uint8 U8 [1] e"));
}

TEST(Safetensors, AcceptsAnyName) {
  SafetensorsBuilder b;
  for (const char* name : {"", ".", "..", "../../etc/passwd", "/abs", "a", "a/b", R"(a\u0000b)", R"(\ud83d\ude00)"})
    b.tensor(name, "U8", "", "x");
  const Model model = read_well(b.build());
  std::vector<std::string> names;
  for (const TensorView& tensor : model.tensors) names.emplace_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("", ".", "..", "../../etc/passwd", "/abs", "a", "a/b", std::string("a\0b", 3), "😀"));
}

TEST(Safetensors, AcceptsHeaderWithoutTensors) {
  EXPECT_THAT(read_well(safetensors_file("{}")).tensors, IsEmpty());
  EXPECT_THAT(read_well(safetensors_file(R"({"__metadata__":{}})")).tensors, IsEmpty());
}

TEST(Safetensors, AcceptsWhiteSpaceAroundHeader) {
  EXPECT_THAT(read_well(safetensors_file(" \t\r\n{} \t\r\n")).tensors, IsEmpty());
}

TEST(Safetensors, IgnoresUnknownFields) {
  const std::string header = R"({"a":{"x":[{"dtype":1},[2]],"dtype":"U8","y":{"shape":{}},"shape":[],"z":null,)"
                             R"("data_offsets":[0,1],"more":-1.5}})";
  EXPECT_THAT(listing(read_well(safetensors_file(header, "x"))), ElementsAre("a uint8 U8 [] x"));
}

// Framing.

TEST(Safetensors, RefusesAFileWithoutALength) {
  EXPECT_EQ(error_of(""), "safetensors: 0 bytes, 8 needed for the length of the header");
  EXPECT_EQ(error_of("1234567"), "safetensors: 7 bytes, 8 needed for the length of the header");
}

TEST(Safetensors, RefusesAHeaderBeyondTheFile) {
  EXPECT_EQ(error_of(length_prefix(3) + "{}"), "safetensors: the header is 3 bytes long, the file has 2 after it");
  EXPECT_EQ(error_of(length_prefix(100'000'000) + "{}"),
            "safetensors: the header is 100,000,000 bytes long, the file has 2 after it");
}

TEST(Safetensors, RefusesHeaderBeyondLimit) {
  EXPECT_EQ(error_of(length_prefix(100'000'001) + "{}"), "safetensors: header of 100000001 bytes, 100000000 at most");
  EXPECT_EQ(error_of(length_prefix(UINT64_MAX) + "{}"),
            "safetensors: header of 18446744073709551615 bytes, 100000000 at most");
}

// JSON as serde_json takes it.

TEST(Safetensors, RefusesInvalidJson) {
  for (const char* header :
       {"", " ", "{", "{}}", "{} x", "\xEF\xBB\xBF{}", "{\"a\xFF\":1}", "{\"\xC0\xAF\":1}", R"({"\ud800":1})",
        R"({"\udc00\ud800":1})", "{\"a\nb\":1}", "{'a':1}", R"({"__metadata__":{"a":"b",}})",
        R"({"__metadata__":{"a":01}})", R"({"a":NaN})", "{}//", "{/**/}"})
    EXPECT_THAT(error_of_header(header), HasSubstr("JSON")) << header;
}

TEST(Safetensors, RefusesNulAfterHeader) {
  EXPECT_THAT(error_of_header(std::string_view("{}\0", 3)), HasSubstr("NUL"));
  EXPECT_THAT(error_of_header(std::string_view("{}\0 ", 4)), HasSubstr("NUL"));
  EXPECT_THAT(error_of_header(std::string_view("{}\0\0\0\0\0\0", 8)), HasSubstr("NUL"));
  EXPECT_THAT(error_of_header(std::string_view("\0{}", 3)), HasSubstr("JSON"));
}

TEST(Safetensors, RefusesNonObject) {
  EXPECT_EQ(error_of_header("[]"), "safetensors: header: a list where an object must be");
  EXPECT_EQ(error_of_header("1"), "safetensors: header: a number where an object must be");
  EXPECT_EQ(error_of_header("null"), "safetensors: header: null where an object must be");
}

// Values are read to depth 100, where serde_json goes to 127: an unknown field of the entry at depth 2 may be 98 deep.
TEST(Safetensors, ReadsValuesToDepth100) {
  const auto file = [](size_t deep) {
    const std::string header = fmt::format("{}{}{}{}", R"({"a":{"x":)", std::string(deep, '['), std::string(deep, ']'),
                                           R"(,"dtype":"U8","shape":[],"data_offsets":[0,1]}})");
    return safetensors_file(header, "x");
  };
  EXPECT_EQ(error_of(file(98)), "no error");
  EXPECT_EQ(error_of(file(99)), "safetensors: header: JSON nested deeper than 100");
  EXPECT_EQ(error_of(file(1'000'000)), "safetensors: header: JSON nested deeper than 100");
}

// Entries.

TEST(Safetensors, RefusesNonObjectEntry) {
  EXPECT_EQ(error_of_header(R"({"a":[]})"), "safetensors: header: tensor \"a\": a list where an object must be");
  EXPECT_EQ(error_of_header(R"({"a":"b"})"), "safetensors: header: tensor \"a\": a string where an object must be");
}

TEST(Safetensors, RefusesEntryWithMissingField) {
  EXPECT_THAT(error_of_fields(R"("shape":[1],"data_offsets":[0,1])"), HasSubstr(R"(tensor "a": no dtype)"));
  EXPECT_THAT(error_of_fields(R"("dtype":"U8","data_offsets":[0,1])"), HasSubstr(R"(tensor "a": no shape)"));
  EXPECT_THAT(error_of_fields(R"("dtype":"U8","shape":[1])"), HasSubstr(R"(tensor "a": no data_offsets)"));
}

TEST(Safetensors, RefusesDuplicateField) {
  EXPECT_THAT(error_of_fields(R"("dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1])"),
              HasSubstr(R"(tensor "a": dtype appears twice)"));
  EXPECT_THAT(error_of_fields(R"("dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1])"),
              HasSubstr(R"(tensor "a": shape appears twice)"));
}

TEST(Safetensors, RefusesNumbersThatAreNotPlainIntegers) {
  for (const char* number : {"1.0", "1e0", "-0", "-1", "\"1\"", "null", "true", "[1]", "18446744073709551616"}) {
    EXPECT_THAT(
        error_of_fields(fmt::format("{}{}{}", R"("dtype":"U8","shape":[)", number, R"(],"data_offsets":[0,1])")),
        HasSubstr("tensor \"a\": shape: "))
        << number;
    EXPECT_THAT(error_of_fields(fmt::format("{}{}]", R"("dtype":"U8","shape":[1],"data_offsets":[0,)", number)),
                HasSubstr("tensor \"a\": data_offsets: "))
        << number;
  }
}

TEST(Safetensors, RefusesOtherThanTwoOffsets) {
  for (const char* offsets : {"[]", "[0]", "[0,1,1]", "0", "{}"})
    EXPECT_THAT(error_of_fields(fmt::format("{}{}", R"("dtype":"U8","shape":[1],"data_offsets":)", offsets)),
                HasSubstr("tensor \"a\": data_offsets"))
        << offsets;
}

TEST(Safetensors, ErrorsNameFoundAndExpected) {
  EXPECT_EQ(error_of_fields(R"("dtype":8)"),
            "safetensors: header: tensor \"a\": dtype: a number where a string must be");
  EXPECT_EQ(error_of_fields(R"("dtype":"U8","shape":["1"])"),
            "safetensors: header: tensor \"a\": shape: a string where a list of whole numbers must be");
  for (const char* number : {"18446744073709551616", "-1", "0.5"})
    EXPECT_EQ(error_of_fields(fmt::format("{}{}]", R"("dtype":"U8","shape":[)", number)),
              "safetensors: header: tensor \"a\": shape: a number that is not an integer below 2^64 where a list of "
              "whole numbers must be");
}

// Rules about all entries together.

TEST(Safetensors, RefusesHoles) {
  EXPECT_EQ(error_of(safetensors_file(header_of({safetensors_entry("a", "U8", "1", 1, 2)}), "xx")),
            "safetensors: tensor \"a\": bytes [1, 2) where byte 0 is next");
}

TEST(Safetensors, RefusesOverlap) {
  EXPECT_EQ(error_of(safetensors_file(
                header_of({safetensors_entry("a", "U8", "2", 0, 2), safetensors_entry("b", "U8", "2", 1, 3)}), "xxx")),
            "safetensors: tensor \"b\": bytes [1, 3) where byte 2 is next");
}

TEST(Safetensors, RefusesSharedBytes) {
  EXPECT_EQ(error_of(safetensors_file(
                header_of({safetensors_entry("a", "U8", "2", 0, 2), safetensors_entry("b", "U8", "2", 0, 2)}), "xx")),
            "safetensors: tensor \"b\": bytes [0, 2) where byte 2 is next");
}

TEST(Safetensors, RefusesEndBeforeBegin) {
  EXPECT_EQ(error_of(safetensors_file(
                header_of({safetensors_entry("a", "U8", "1", 0, 1), safetensors_entry("b", "U8", "1", 1, 0)}), "x")),
            "safetensors: tensor \"b\": bytes [1, 0) where byte 1 is next");
}

TEST(Safetensors, RefusesSizeThatDiffersFromShape) {
  EXPECT_EQ(error_of(SafetensorsBuilder().tensor("a", "F32", "2,2", "four").build()),
            "safetensors: tensor \"a\": 4 bytes, but its shape and dtype F32 need 16");
}

TEST(Safetensors, RefusesOverflow) {
  const char* const kWhy = "overflows 64 bits or does not fill whole bytes";
  EXPECT_THAT(error_of(SafetensorsBuilder().tensor("a", "U8", "4294967296,4294967296", "").build()), HasSubstr(kWhy));
  EXPECT_THAT(error_of(SafetensorsBuilder().tensor("a", "F64", "2305843009213693952", "").build()), HasSubstr(kWhy));
  // As in the reference, a zero dimension after an overflow does not undo it.
  EXPECT_THAT(error_of(SafetensorsBuilder().tensor("a", "U8", "9223372036854775808,4,0", "").build()), HasSubstr(kWhy));
  EXPECT_EQ(error_of(SafetensorsBuilder().tensor("a", "U8", "0,9223372036854775808,4", "").build()), "no error");
}

TEST(Safetensors, RefusesSubByteTensorsOfPartialBytes) {
  EXPECT_THAT(error_of(SafetensorsBuilder().tensor("a", "F4", "3", "xx").build()), HasSubstr("whole bytes"));
  EXPECT_THAT(error_of(SafetensorsBuilder().tensor("a", "F6_E2M3", "6", "xxxxx").build()), HasSubstr("whole bytes"));
  EXPECT_EQ(error_of(SafetensorsBuilder().tensor("a", "F6_E2M3", "2,2", "xxx").build()), "no error");
}

// Downloads are cut: what a cut file holds whole is shown, and the file is incomplete.
TEST(Safetensors, CutFileLacksTheTensorsAtItsEnd) {
  const std::string file = SafetensorsBuilder()
                               .tensor("a", "U8", "2", "xy")
                               .tensor("b", "U8", "3", "123")
                               .tensor("c", "U8", "0", "")
                               .build();
  const Model model = read_well(file.substr(0, file.size() - 1));
  EXPECT_THAT(listing(model), ElementsAre("a uint8 U8 [2] xy", "b uint8 U8 [3] refused", "c uint8 U8 [0] refused"));
  EXPECT_EQ(model.lacks->short_by, 1u);
  EXPECT_THAT(model.warnings, ElementsAre("the file ends 1 byte early: 2 of 3 tensors refused"));
  EXPECT_EQ(to_sentence(completeness_of(model)),
            "the file ends 1 byte early: 2 of 3 tensors refused; interrupted download?");
}

TEST(Safetensors, BytesAfterTheTensorsAreAWarning) {
  const std::string file = SafetensorsBuilder().tensor("a", "U8", "2", "xx").build();
  const Model model = read_well(file + "y");
  EXPECT_THAT(listing(model), ElementsAre("a uint8 U8 [2] xx"));
  EXPECT_THAT(model.warnings, ElementsAre("1 byte after the last tensor"));
  EXPECT_TRUE(completeness_of(model).is_complete());
}

TEST(Safetensors, RefusesTensorBeyondTheFile) {
  const Model model =
      read_well(safetensors_file(header_of({safetensors_entry("a", "U8", "18446744073709551615", 0, UINT64_MAX)})));
  EXPECT_TRUE(model.tensors.is_refused(0));
  EXPECT_EQ(model.lacks->short_by, UINT64_MAX);
}

// The reference keeps the last of two tensors with one name, and notices only the hole that may leave.
TEST(Safetensors, KeepsLastOfDuplicateTensors) {
  const std::string one = safetensors_entry("a", "U8", "1", 0, 1), two = safetensors_entry("a", "I8", "1", 0, 1);
  EXPECT_THAT(listing(read_well(safetensors_file(header_of({one, two}), "x"))), ElementsAre("a int8 I8 [1] x"));
  const std::string beside = safetensors_entry("a", "U8", "1", 1, 2);
  EXPECT_EQ(error_of(safetensors_file(header_of({one, beside}), "xx")),
            "safetensors: tensor \"a\": bytes [1, 2) where byte 0 is next");
}

TEST(Safetensors, OrderIsKeptWhenDuplicateIsDropped) {
  std::vector<std::string> entries;
  for (const auto& [name, place] :
       std::vector<std::pair<const char*, uint64_t>>{{"a", 9}, {"b", 0}, {"a", 1}, {"c", 2}})
    entries.push_back(safetensors_entry(name, "U8", "1", place, place + 1));
  EXPECT_THAT(listing(read_well(safetensors_file(header_of(entries), "bac"))),
              ElementsAre("b uint8 U8 [1] b", "a uint8 U8 [1] a", "c uint8 U8 [1] c"));
}

// Departures from the reference.

TEST(Safetensors, ListsTensorsOfUnknownDTypesAsBytes) {
  SafetensorsBuilder b;
  b.tensor("a", "F128", "1", "sixteen bytes ..").tensor("b", "f32", "3", "x").tensor("c", "F128", "", "");
  const Model model = read_well(b.build());
  EXPECT_THAT(listing(model),
              ElementsAre("a unknown F128 [1] sixteen bytes ..", "b unknown f32 [3] x", "c unknown F128 [] "));
  for (const TensorView& tensor : model.tensors) EXPECT_EQ(tensor.dtype, &kUnknownDType);
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"a\": dtype \"F128\" is unknown; shown as bytes",
                                          "tensor \"b\": dtype \"f32\" is unknown; shown as bytes",
                                          "tensor \"c\": dtype \"F128\" is unknown; shown as bytes"));
}

TEST(Safetensors, WarningsAreBounded) {
  SafetensorsBuilder b;
  for (int i = 0; i < 150; ++i) b.tensor(fmt::format("t{}", i), fmt::format("D{}", i), "", "x");
  const Model model = read_well(b.build());
  EXPECT_EQ(model.tensors.size(), 150u);
  EXPECT_EQ(model.tensors[149].stored_dtype, "D149");
  ASSERT_EQ(model.warnings.size(), 101u);
  EXPECT_EQ(model.warnings.back(), "... and 50 more");
}

TEST(Safetensors, KeepsNonStringMetadata) {
  const Model model = read_well(SafetensorsBuilder().metadata(R"({"n":1,"s":"x","l":[{"k":null},-1,0.5]})").build());
  EXPECT_THAT(model.warnings, ElementsAre("__metadata__: the value of \"n\" is not a string",
                                          "__metadata__: the value of \"l\" is not a string"));
  EXPECT_EQ(std::get<int64_t>(*model.metadata.find("n")), 1);
  EXPECT_EQ(to_json(*model.metadata.find("l")), "[\n  {\n    \"k\": null\n  },\n  -1,\n  0.5\n]\n");
}

TEST(Safetensors, MetadataIsOptional) {
  EXPECT_EQ(read_well(SafetensorsBuilder().metadata("null").build()).metadata.size(), 1u);
  EXPECT_EQ(read_well(SafetensorsBuilder().metadata("{}").build()).metadata.size(), 1u);
}

TEST(Safetensors, RefusesNonObjectOrDuplicateMetadata) {
  EXPECT_EQ(error_of_header(R"({"__metadata__":[]})"), "safetensors: header: __metadata__ must be an object");
  EXPECT_EQ(error_of_header(R"({"__metadata__":"x"})"), "safetensors: header: __metadata__ must be an object");
  EXPECT_EQ(error_of_header(R"({"__metadata__":{},"__metadata__":{}})"),
            "safetensors: header: __metadata__ appears twice");
}

TEST(Safetensors, KeepsLastOfDuplicateMetadata) {
  const Model model = read_well(SafetensorsBuilder().metadata(R"({"b":"1","a":"2","b":"3"})").build());
  EXPECT_EQ(std::get<std::string>(*model.metadata.find("b")), "3");
  EXPECT_EQ(model.metadata.begin()->first, "b");
  EXPECT_EQ(model.metadata.size(), 3u);
}

TEST(Safetensors, MetadataKeyOfOwnFieldsIsKept) {
  const Model model = read_well(SafetensorsBuilder().metadata(R"({"safetensors":"mine"})").build());
  EXPECT_EQ(to_json_line(*model.metadata.find("safetensors")), R"({"header_length":39,"value":"mine"})");
  EXPECT_EQ(model.metadata.size(), 1u);
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Safetensors, CommonFieldsAreStrings) {
  const std::string metadata =
      R"({"format":[1,2],"modelspec.title":{},"modelspec.license":null,"modelspec.author":"me"})";
  const Model model = read_well(SafetensorsBuilder().metadata(metadata).build());
  EXPECT_EQ(to_json_line(model.common), R"({"author":"me"})");
}

// Attacks.

TEST(Safetensors, BoundsTheValuesOfMetadata) {
  std::string metadata = R"({"x":[)";
  for (int i = 0; i < 65'534; ++i) metadata += "[],";  // and the list itself
  EXPECT_EQ(error_of(SafetensorsBuilder().metadata(metadata + "0]}").build()), "no error");
  EXPECT_EQ(error_of(SafetensorsBuilder().metadata(metadata + "0,0]}").build()),
            "safetensors: header: __metadata__ holds more than 65536 values");
}

TEST(Safetensors, BoundsTheDimensions) {
  std::string shape = "0";
  for (int i = 1; i < 1024; ++i) shape += ",1";
  EXPECT_EQ(read_well(SafetensorsBuilder().tensor("a", "U8", shape, "").build()).tensors[0].shape.size(), 1024u);
  EXPECT_EQ(error_of(SafetensorsBuilder().tensor("a", "U8", shape + ",1", "").build()),
            "safetensors: header: tensor \"a\": shape: more than 1024 dimensions");
}

TEST(Safetensors, AcceptsManyDuplicateTensors) {
  std::vector<std::string> entries(100'000, safetensors_entry("", "U8", "0", 0, 0));
  entries.push_back(safetensors_entry("", "I8", "0", 0, 0));
  EXPECT_THAT(listing(read_well(safetensors_file(header_of(entries)))), ElementsAre(" int8 I8 [0] "));
}

TEST(Safetensors, ReportsIoErrorAsIoError) {
  const auto broken = lazy(1000, Later<SourcePtr>([]() -> Result<SourcePtr> { return failure(Code::io, "gone"); }));
  const auto model = read_as("safetensors", Container{"m", broken, nullptr});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::io);
}

TEST(Safetensors, EveryTruncationIsRefusedOrIncomplete) {
  const std::string whole = small_safetensors();
  EXPECT_TRUE(completeness_of(read_well(whole)).is_complete());
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto model = read_as("safetensors", Container{"m", in_memory(whole.substr(0, size)), nullptr});
    if (model)
      EXPECT_FALSE(completeness_of(*model).is_complete()) << size;
    else
      EXPECT_THAT(model.error().message, HasSubstr("safetensors: ")) << size;
  }
}

TEST(Safetensors, SurvivesEveryFlippedByte) {
  const std::string whole = small_safetensors();
  for (size_t at = 0; at < whole.size(); ++at)
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      if (const auto model = read(bytes)) {
        for (const std::string& line : listing(*model)) EXPECT_THAT(line, testing::Not(HasSubstr("unreadable")));
      }
    }
}

// Detection.

Match match(std::string_view file) { return matches_safetensors(probe_of(file)); }

TEST(Safetensors, IsDetectedByLengthAndBrace) {
  EXPECT_EQ(match(small_safetensors()), Match::yes);
  EXPECT_EQ(match(safetensors_file(" \n{}")), Match::yes);
  EXPECT_EQ(match(safetensors_file(std::string(5000, ' ') + "{}")), Match::maybe);
}

TEST(Safetensors, TruncatedDownloadIsDetected) {
  EXPECT_EQ(match(length_prefix(5000) + "{\"a\":"), Match::yes);
  EXPECT_EQ(match(length_prefix(UINT64_MAX) + "{\"a\":"), Match::yes);
}

TEST(Safetensors, IsNotDetectedInOtherFiles) {
  EXPECT_EQ(match(""), Match::no);
  EXPECT_EQ(match("{"), Match::no);
  EXPECT_EQ(match(length_prefix(2)), Match::no);
  EXPECT_EQ(match(safetensors_file("[]")), Match::no);
  EXPECT_EQ(match(safetensors_file("   ")), Match::no);
  EXPECT_EQ(match(length_prefix(0) + "{}"), Match::no);
  EXPECT_EQ(match(R"({"net": {"layers": 1}})"), Match::no);
  EXPECT_EQ(match(R"({"nét":{"layers": 1}})"), Match::no);
}

}  // namespace
}  // namespace weightfs::safetensors_test
