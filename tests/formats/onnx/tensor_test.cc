// The values of a TensorProto: types, fields, encodings, and what is refused.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/completeness.h"
#include "tests/support/onnx_reading.h"

namespace weightfs::tensor_test {
namespace {

using namespace test::onnx;
using test::varint;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(OnnxTensor, RawDataOfEachTypeHasItsSize) {
  const std::vector<std::pair<const char*, size_t>> types = {
      {"float32", 24},      {"uint8", 6},
      {"int8", 6},          {"uint16", 12},
      {"int16", 12},        {"int32", 24},
      {"int64", 48},        {"", 0},
      {"bool", 6},          {"float16", 12},
      {"float64", 48},      {"uint32", 24},
      {"uint64", 48},       {"complex64", 48},
      {"complex128", 96},   {"bfloat16", 12},
      {"float8_e4m3fn", 6}, {"float8_e4m3fnuz", 6},
      {"float8_e5m2", 6},   {"float8_e5m2fnuz", 6},
      {"uint4", 3},         {"int4", 3},
      {"float4_e2m1fn", 3}, {"float8_e8m0fnu", 6},
      {"uint2", 2},         {"int2", 2},
  };
  for (size_t i = 0; i < types.size(); ++i) {
    if (i + 1 == kString) continue;
    const std::string bytes(types[i].second, 'x');
    std::string hex;
    for (size_t each = 0; each < bytes.size(); ++each) hex += "78";
    EXPECT_EQ(line_of(raw("w", i + 1, {2, 3}, bytes)), fmt::format("{} [2x3] {}", types[i].first, hex));
    EXPECT_THAT(warning_of(raw("w", i + 1, {2, 3}, bytes + "x")), HasSubstr("bytes of raw data"));
  }
}

TEST(OnnxTensor, RawDataIsARangeOfTheFile) {
  const std::string file = model(graph({raw("w", kUint8, {4}, "data")})).build();
  const Model model = read_well(file);
  EXPECT_EQ(model.tensors[0].source.whole()->size(), file.size());
  EXPECT_EQ(model.tensors[0].source.offset(), file.find("data"));
}

TEST(OnnxTensor, OnePackedChunkOfFloatsIsARangeOfTheFile) {
  const std::string file = model(graph({tensor("w", kFloat, {1}).bytes(4, "data")})).build();
  EXPECT_EQ(read_well(file).tensors[0].source.offset(), file.find("data"));
}

TEST(OnnxTensor, TypedFieldsAreDecoded) {
  EXPECT_EQ(line_of(tensor("w", kFloat, {2}).bytes(4, "abcdefgh")), "float32 [2] 6162636465666768");
  EXPECT_EQ(line_of(tensor("w", kFloat, {2}).real(4, 1).bytes(4, "abcd")), "float32 [2] 0000803f61626364");
  EXPECT_EQ(line_of(tensor("w", kComplex64, {1}).real(4, 1).real(4, 2)), "complex64 [1] 0000803f00000040");
  EXPECT_EQ(line_of(tensor("w", kDouble, {1}).fixed64(10, 0x41)), "float64 [1] 4100000000000000");
  EXPECT_EQ(line_of(tensor("w", kInt64, {2}).number(7, 1).bytes(7, "\2")),
            "int64 [2] 01000000000000000200000000000000");
  EXPECT_EQ(line_of(tensor("w", kUint32, {1}).number(11, 0xFFFFFFFF)), "uint32 [1] ffffffff");
  EXPECT_EQ(line_of(tensor("w", kFloat8, {2}).bytes(5, "\1\2")), "float8_e4m3fn [2] 0102");
  EXPECT_EQ(line_of(tensor("w", kInt4, {3}).bytes(5, "\x21\3")), "int4 [3] 2103");
}

// A negative int32 takes ten bytes; only the low 32 bits count, so the five-byte form means the same.
TEST(OnnxTensor, NegativeNumbersOfBothLengthsAreRead) {
  EXPECT_EQ(line_of(tensor("w", kInt8, {2}).number(5, ~0ULL).number(5, 0xFFFFFFFE)), "int8 [2] fffe");
  EXPECT_EQ(line_of(tensor("w", kInt32, {1}).number(5, ~0ULL)), "int32 [1] ffffffff");
}

TEST(OnnxTensor, FieldsMayComeInAnyOrderAndTheLastCounts) {
  Message early;
  early.bytes(9, "old").bytes(9, "abcd").bytes(8, "first").number(2, kInt8).number(2, kUint8).number(1, 2);
  early.bytes(99, "unknown").group(50, Message().number(1, 1)).bytes(8, "last").bytes(1, "\2");
  EXPECT_THAT(lines_of(read_well(model(graph({early})).build())), ElementsAre(":last uint8 [2x2] 61626364"));
}

TEST(OnnxTensor, RawDataTakesPrecedenceOverTypedFields) {
  EXPECT_EQ(line_of(tensor("w", kUint8, {1}).number(5, 1).bytes(9, "r")), "uint8 [1] 72");
}

TEST(OnnxTensor, ScalarsAndEmptyTensorsAreServed) {
  EXPECT_EQ(line_of(raw("w", kFloat, {}, "abcd")), "float32 [] 61626364");
  EXPECT_EQ(line_of(tensor("w", kFloat, {3, 0})), "float32 [3x0] ");
  EXPECT_EQ(line_of(tensor("w", kInt64, {0})), "int64 [0] ");
}

TEST(OnnxTensor, StringsAreTextsAndLines) {
  const Model read =
      read_well(model(graph({tensor("w", kString, {3}).bytes(6, "a").bytes(6, "").bytes(6, "\xFF\n")})).build());
  EXPECT_THAT(lines_of(read), ElementsAre(":w string [3] 610a0aff0a0a"));
  EXPECT_THAT(*read.per_tensor->strings.at(0).get().value(), ElementsAre("a", "", "\xEF\xBF\xBD\n"));
  EXPECT_EQ(warning_of(tensor("w", kString, {2}).bytes(6, "a")), "tensor \"w\": 1 strings, 2 needed: refused");
  EXPECT_EQ(warning_of(tensor("w", kString, {1ULL << 40, 1ULL << 40})), "tensor \"w\": its shape overflows: refused");
}

TEST(OnnxTensor, BrokenTensorIsRefusedAndTheOthersServed) {
  const Model read = read_well(model(graph({raw("w", kFloat, {2}, "abcd"), raw("good", kUint8, {1}, "g")})).build());
  EXPECT_THAT(lines_of(read), ElementsAre(":w float32 [2] refused", ":good uint8 [1] 67"));
  EXPECT_THAT(read.warnings, ElementsAre("tensor \"w\": 4 bytes of raw data, 8 needed: refused"));
}

TEST(OnnxTensor, ValuesThatWereStrippedAreMissing) {
  for (const auto& stripped : {tensor("w", kFloat, {2}), raw("w", kFloat, {2}, "")}) {
    const Model read = read_well(model(graph({stripped})).build());
    EXPECT_THAT(read.warnings, ElementsAre("tensor \"w\": its values were stripped: no data, 8 bytes needed: refused"));
    EXPECT_EQ(completeness_of(read).reason->code, Code::not_found);
  }
  EXPECT_EQ(line_of(raw("w", kFloat, {0}, "")), "float32 [0] ");
}

TEST(OnnxTensor, ValuesThatDoNotMatchTheShapeAreRefused) {
  EXPECT_THAT(warning_of(tensor("w", kFloat, {2}).bytes(4, "abcd")), HasSubstr("2 numbers needed"));
  EXPECT_THAT(warning_of(tensor("w", kInt8, {1}).bytes(5, "ab" + std::string(20, 'x'))), HasSubstr("1 numbers needed"));
  EXPECT_THAT(warning_of(tensor("w", kInt8, {99}).bytes(5, "ab")), HasSubstr("99 numbers needed"));
  EXPECT_THAT(warning_of(raw("w", kFloat, {1ULL << 32, 1ULL << 32}, "")), HasSubstr("overflows 64 bits"));
  EXPECT_THAT(warning_of(raw("w", kFloat, {1ULL << 62}, "")), HasSubstr("overflows 64 bits"));
}

TEST(OnnxTensor, WrongNumberOfVarintsIsRefusedOrFailsTheRead) {
  EXPECT_EQ(warning_of(tensor("w", kInt8, {2}).bytes(5, "abc")), "tensor \"w\": 3 numbers, 2 needed: refused");
  const Model read = read_well(model(graph({tensor("w", kInt8, {900'000}).bytes(5, std::string(1'100'000, 'x')),
                                            tensor("v", kInt8, {2}).bytes(5, "abc")}))
                                   .build());
  EXPECT_THAT(read.warnings, ElementsAre("tensor \"v\": 3 numbers, 2 needed: refused"));
  EXPECT_EQ(read.tensors[0].nbytes(), 900'000U);
  EXPECT_EQ(read_text(read.tensors[0].source, 899'999, 1).error().code, Code::io);
}

TEST(OnnxTensor, InvalidDimensionsAreRefused) {
  EXPECT_EQ(warning_of(tensor("w", kFloat, {~0ULL, 2})), "tensor \"w\": dimension -1: refused");
  EXPECT_EQ(warning_of(tensor("w", kFloat, {}).bytes(1, std::string(100'000, '\1'))),
            "tensor \"w\": more than 1024 dimensions: refused");
}

TEST(OnnxTensor, SegmentIsRefused) {
  EXPECT_EQ(warning_of(raw("w", kUint8, {1}, "x").message(3, Message().number(1, 0))),
            "tensor \"w\": it is a segment of a tensor: refused");
}

TEST(OnnxTensor, UnknownTypeIsShownAsBytes) {
  EXPECT_EQ(line_of(raw("w", 99, {2}, "abc")), "unknown [2] 616263");
  EXPECT_EQ(warning_of(raw("w", 99, {2}, "abc")), "tensor \"w\": type unknown(99) is unknown; shown as bytes");
  EXPECT_EQ(warning_of(tensor("w", 0, {2})), "tensor \"w\": no data of a known type: refused");
}

TEST(OnnxTensor, OtherDataLocationIsReadAsInline) {
  EXPECT_EQ(line_of(raw("w", kUint8, {1}, "x").number(14, 7)), "uint8 [1] 78");
}

TEST(OnnxTensor, FieldOfAnotherWireTypeIsUnknown) {
  EXPECT_EQ(line_of(raw("w", kUint8, {1}, "x").fixed32(2, kFloat).fixed64(1, 5)), "uint8 [1] 78");
  EXPECT_THAT(warning_of(tensor("w", kFloat, {1}).number(4, 1)), HasSubstr("no data"));
}

}  // namespace
}  // namespace weightfs::tensor_test
