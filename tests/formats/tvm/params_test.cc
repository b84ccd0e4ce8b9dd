#include "formats/tvm/params.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "base/values/json.h"
#include "tests/builders/params_builder.h"
#include "tests/support/memory_folder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::params_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Result<Model> read(std::string bytes, const Files& beside = {}) {
  return read_as("tvm-params",
                 Container{"mod.params", in_memory(std::move(bytes)), std::make_shared<MemoryFolder>(beside)});
}

Model read_well(std::string bytes, const Files& beside = {}) { return well(read(std::move(bytes), beside)); }

std::string error_of(std::string bytes) { return error_in(read(std::move(bytes))); }

std::string error_of(const ArrayHeader& header, std::string_view data = "") {
  return error_of(ParamsBuilder().array("w", header, data).build());
}

TEST(TvmParams, ReadsEveryArrayInTheOrderOfTheFile) {
  const std::string bytes = small_params();
  const Model model = read_well(bytes);
  EXPECT_EQ(model.format, "tvm-params");
  EXPECT_EQ(model.version, "");
  EXPECT_THAT(listing(model), ElementsAre("w float32 float32 [2x2] " + std::string(16, 'w'), "a/b int8 int8 [] s",
                                          "empty int8 int8 [0x3] ", "mask bool bool [3] " + std::string("\1\0\1", 3)));
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_TRUE(model.metadata.empty());
  ASSERT_EQ(model.parts.size(), 1U);
  EXPECT_EQ(model.parts[0].path, "mod.params");
  EXPECT_EQ(model.tensors[0].source.whole(), *model.parts[0].source.peek());
}

// One scalar of int8, `7`, by the bytes that TVM 0.14 writes.
TEST(TvmParams, ReadsTheBytesThatTvmWrites) {
  const std::string bytes(
      "\xB7\x9C\x04\x05\x4F\x8D\xE5\xF7"
      "\0\0\0\0\0\0\0\0"
      "\1\0\0\0\0\0\0\0"
      "\1\0\0\0\0\0\0\0"
      "v"
      "\1\0\0\0\0\0\0\0"
      "\x3F\xA1\xB4\x96\xF0\x40\x5E\xDD"
      "\0\0\0\0\0\0\0\0"
      "\1\0\0\0"
      "\0\0\0\0"
      "\0\0\0\0"
      "\0\x08\1\0"
      "\1\0\0\0\0\0\0\0"
      "7",
      82);
  EXPECT_THAT(listing(read_well(bytes)), ElementsAre("v int8 int8 [] 7"));
}

TEST(TvmParams, EmptyListHasNoTensors) {
  const std::string bytes = ParamsBuilder().build();
  EXPECT_EQ(bytes.size(), 32U);
  EXPECT_THAT(read_well(bytes).tensors, IsEmpty());
  EXPECT_THAT(read_well(bytes).warnings, IsEmpty());
}

TEST(TvmParams, TypesOfAllCodesAreKnown) {
  struct Row {
    uint8_t code, bits;
    std::string name;
  };
  const std::vector<Row> rows = {{0, 8, "int8"},           {0, 16, "int16"},
                                 {0, 32, "int32"},         {0, 64, "int64"},
                                 {1, 8, "uint8"},          {1, 16, "uint16"},
                                 {1, 32, "uint32"},        {1, 64, "uint64"},
                                 {2, 16, "float16"},       {2, 32, "float32"},
                                 {2, 64, "float64"},       {4, 16, "bfloat16"},
                                 {5, 64, "complex64"},     {5, 128, "complex128"},
                                 {1, 1, "bool"},           {0, 4, "int4"},
                                 {1, 4, "uint4"},          {0, 2, "int2"},
                                 {1, 2, "uint2"},          {9, 8, "float8_e4m3b11fnuz"},
                                 {10, 8, "float8_e4m3fn"}, {11, 8, "float8_e4m3fnuz"},
                                 {12, 8, "float8_e5m2"},   {13, 8, "float8_e5m2fnuz"},
                                 {14, 8, "float8_e8m0fnu"}};
  for (const auto& [code, bits, name] : rows) {
    const std::string data(3 * ((size_t{bits} + 7) / 8), 'x');
    const Model model = read_well(ParamsBuilder().array("a", tvm_type(code, bits), {3}, data).build());
    EXPECT_THAT(listing(model), ElementsAre(fmt::format("a {} {} [3] {}", name, name, data)));
    EXPECT_THAT(model.warnings, IsEmpty()) << name;
  }
}

// Codes 6 to 8 were float8 in the TVM that wrote the Model Library Format; newer ones have other meanings for them.
TEST(TvmParams, AcceptsBothFloat8CodesWithOneWarning) {
  ParamsBuilder b;
  b.array("a", tvm_type(6, 8), {1}, "a").array("b", tvm_type(7, 8), {1}, "b").array("c", tvm_type(8, 8), {1}, "c");
  const Model model = read_well(b.build());
  EXPECT_THAT(listing(model), ElementsAre("a float8_e4m3fn e4m3_float8 [1] a", "b float8_e5m2 e5m2_float8 [1] b",
                                          "c float8_e4m3 float8_e4m3 [1] c"));
  EXPECT_THAT(model.warnings,
              ElementsAre("3 tensors have type codes 6 to 8, whose meaning changed in TVM; read as float8"));
}

TEST(TvmParams, UnknownTypesAreShownAsBytes) {
  ParamsBuilder b;
  b.array("h", tvm_type(3, 64), {1}, "12345678").array("c", tvm_type(129, 12), {2}, "1234");
  b.array("f", tvm_type(17, 4), {2}, "12").array("d", tvm_type(2, 80), {1}, "1234567890");
  const Model model = read_well(b.build());
  EXPECT_THAT(listing(model), ElementsAre("h unknown handle64 [1] 12345678", "c unknown code129_12 [2] 1234",
                                          "f unknown code17_4 [2] 12", "d unknown float80 [1] 1234567890"));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"h\": type handle64 is unknown; shown as bytes",
                                          "tensor \"c\": type code129_12 is unknown; shown as bytes",
                                          "tensor \"f\": type code17_4 is unknown; shown as bytes",
                                          "tensor \"d\": type float80 is unknown; shown as bytes"));
}

// TVM forgets the lanes when it writes: of a float32x4 only as many bytes as of a float32.
TEST(TvmParams, VectorTypesAreShownAsBytes) {
  ParamsBuilder b;
  b.array("fits", tvm_type(2, 32, 4), {2}, "12345678").array("whole", tvm_type(2, 32, 4), {1}, "0123456789abcdef");
  b.array("bits", tvm_type(1, 1, 8), {2}, "xy").array("none", tvm_type(0, 8, 0), {1}, "z");
  const Model model = read_well(b.build());
  EXPECT_THAT(listing(model),
              ElementsAre("fits unknown float32x4 [2] 12345678", "whole unknown float32x4 [1] 0123456789abcdef",
                          "bits unknown uint1x8 [2] xy", "none unknown int8x0 [1] z"));
  EXPECT_THAT(model.warnings,
              ElementsAre("tensor \"whole\": 16 bytes, but its shape and dtype float32x4 need 4; shown as bytes"));
}

TEST(TvmParams, TensorOfWrongSizeIsShownAsBytes) {
  const Model model =
      read_well(ParamsBuilder().array("a", kTvmFloat32, {2}, "12345").array("b", kTvmInt8, {1}, "b").build());
  EXPECT_THAT(listing(model), ElementsAre("a unknown float32 [2] 12345", "b int8 int8 [1] b"));
  EXPECT_THAT(model.warnings,
              ElementsAre("tensor \"a\": 5 bytes, but its shape and dtype float32 need 8; shown as bytes"));
}

// TVM 0.6 and before took bits / 8, which of a bool is nothing.
TEST(TvmParams, ShowsTheEmptyBoolsOfOldFiles) {
  const Model model = read_well(ParamsBuilder().array("a", tvm_type(1, 1), {2}, "").build());
  EXPECT_THAT(listing(model), ElementsAre("a unknown bool [2] "));
  EXPECT_THAT(model.warnings,
              ElementsAre("tensor \"a\": 0 bytes, but its shape and dtype bool need 2; shown as bytes"));
}

TEST(TvmParams, ShowsAShapeBeyond64BitsAsBytes) {
  const Model model = read_well(ParamsBuilder().array("a", kTvmInt8, {1ULL << 32, 1ULL << 32}, "").build());
  EXPECT_THAT(listing(model), ElementsAre("a unknown int8 [4294967296x4294967296] "));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("0 bytes, but its shape and dtype int8 overflow 64 bits")));
}

TEST(TvmParams, AcceptsAnyName) {
  const std::vector<std::string> names = {"", ".", "../up", "a", "a/b", std::string("\0\xFF", 2), "é中"};
  ParamsBuilder b;
  for (const std::string& name : names) b.array(name, kTvmInt8, {}, "x");
  const Model model = read_well(b.build());
  ASSERT_EQ(model.tensors.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(model.tensors[i].name, names[i]);
}

TEST(TvmParams, LastOfDuplicateNamesIsKept) {
  ParamsBuilder b;
  b.array("a", kTvmInt8, {}, "1").array("b", kTvmInt8, {}, "2").array("a", kTvmInt8, {}, "3");
  const Model model = read_well(b.array("c", kTvmInt8, {}, "4").array("a", kTvmInt8, {}, "5").build());
  EXPECT_THAT(listing(model), ElementsAre("b int8 int8 [] 2", "c int8 int8 [] 4", "a int8 int8 [] 5"));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"a\" appears twice; the last is shown",
                                          "tensor \"a\" appears twice; the last is shown"));
}

TEST(TvmParams, IgnoresReservedFields) {
  ArrayHeader header{kTvmInt8, {}, 1};
  header.reserved = UINT64_MAX;
  header.device_number = 7;
  std::string bytes = ParamsBuilder().array("a", header, "x").build();
  bytes[8] = '\xFF';
  EXPECT_THAT(listing(read_well(bytes)), ElementsAre("a int8 int8 [] x"));
}

TEST(TvmParams, AcceptsTrailingBytesWithWarning) {
  const Model model = read_well(ParamsBuilder().array("a", kTvmInt8, {}, "x").build() + "end");
  EXPECT_THAT(listing(model), ElementsAre("a int8 int8 [] x"));
  EXPECT_THAT(model.warnings, ElementsAre("3 bytes after the last array"));
}

// TVM accepts such a file and leaves the rest of the array uninitialized.
TEST(TvmParams, TruncatedLastTensorIsRefusedAlone) {
  const std::string whole =
      ParamsBuilder().array("a", kTvmInt8, {}, "x").array("b", kTvmFloat32, {2}, "12345678").build();
  for (const size_t missing : {1U, 7U, 8U}) {
    const Model model = read_well(whole.substr(0, whole.size() - missing));
    EXPECT_THAT(listing(model), ElementsAre("a int8 int8 [] x", "b float32 float32 [2] refused"));
    EXPECT_THAT(model.warnings,
                ElementsAre(fmt::format("tensor \"b\": 8 bytes of data, {} left in the file: refused", 8 - missing)));
  }
}

TEST(TvmParams, TruncationInEarlierArrayIsRefused) {
  const std::string whole =
      ParamsBuilder().array("a", ArrayHeader{kTvmInt8, {200}, 200}, "x").array("b", kTvmInt8, {}, "y").build();
  EXPECT_EQ(error_of(whole), "tvm-params: tensor \"a\": 200 bytes of data, 42 left");
}

TEST(TvmParams, RefusesWrongMagicNumbers) {
  std::string bytes = small_params();
  bytes[0] ^= 1;
  EXPECT_EQ(error_of(bytes), "tvm-params: no magic number of a list of arrays");
  ArrayHeader header{kTvmInt8, {}, 1};
  header.magic = kParamsMagic;
  EXPECT_EQ(error_of(header, "x"), "tvm-params: tensor \"w\": no magic number of an array");
}

TEST(TvmParams, RefusesArraysThatAreNotOnTheCpu) {
  for (const uint32_t device : {0U, 2U, 0x80000001U}) {
    ArrayHeader header{kTvmInt8, {}, 1};
    header.device = device;
    EXPECT_EQ(error_of(header, "x"), fmt::format("tvm-params: tensor \"w\": on a device of type {}, 1 (CPU) expected",
                                                 static_cast<int32_t>(device)));
  }
}

TEST(TvmParams, RefusesNegativeSizes) {
  EXPECT_EQ(error_of(ArrayHeader{kTvmInt8, {1ULL << 63}, 0}),
            "tvm-params: tensor \"w\": a dimension of size -9223372036854775808");
  EXPECT_EQ(error_of(ArrayHeader{kTvmInt8, {1}, UINT64_MAX}), "tvm-params: tensor \"w\": data of size -1");
}

// Limits.

TEST(TvmParams, BoundsTheDimensions) {
  const std::vector<uint64_t> most(kMaxDimensions, 0);
  EXPECT_EQ(read_well(ParamsBuilder().array("a", kTvmInt8, most, "").build()).tensors[0].shape.size(), 1024U);
  EXPECT_EQ(error_of(ArrayHeader{kTvmInt8, std::vector<uint64_t>(kMaxDimensions + 1, 0), 0}),
            "tvm-params: tensor \"w\": 1025 dimensions, at most 1024");
  ArrayHeader header{kTvmInt8, {}, 0};
  header.dimensions = 0x80000000;
  EXPECT_EQ(error_of(header), "tvm-params: tensor \"w\": -2147483648 dimensions, at most 1024");
  header.dimensions = 1000;
  EXPECT_THAT(error_of(header), HasSubstr("tensor \"w\": a count of 1000 at "));
}

TEST(TvmParams, CountsAreBoundedByRemainingBytes) {
  EXPECT_EQ(error_of(ParamsBuilder().array("a", kTvmInt8, {}, "x").build(2, 2)),
            "tvm-params: a count of 2 at 24, 58 bytes left");
  for (const uint64_t count : {1ULL << 32, 1ULL << 61, ~0ULL})
    EXPECT_EQ(error_of(ParamsBuilder().build(count, count)),
              fmt::format("tvm-params: a count of {} at 24, 8 bytes left", count));
}

TEST(TvmParams, RefusesMoreNamesThanArrays) {
  const ParamsBuilder two = ParamsBuilder().array("a", kTvmInt8, {}, "x").array("b", kTvmInt8, {}, "y");
  EXPECT_EQ(error_of(two.build(2, 1)), "tvm-params: 2 names for 1 arrays");
  EXPECT_EQ(error_of(two.build(2, ~0ULL)), "tvm-params: 2 names for 18446744073709551615 arrays");
}

TEST(TvmParams, BoundsNames) {
  const auto named = [](size_t size) {
    return ParamsBuilder().array(std::string(size, 'n'), kTvmInt8, {}, "x").build();
  };
  EXPECT_EQ(read_well(named(65'535)).tensors.size(), 1U);
  EXPECT_EQ(error_of(named(65'536)), "tvm-params: name 0: 65536 bytes, at most 65535");
  std::string huge = named(3);
  huge.replace(24, 8, little(~0ULL));
  EXPECT_EQ(error_of(huge), "tvm-params: name 0: 18446744073709551615 bytes, at most 65535");
}

// Zeros in holes, as in a sparse file; counts the bytes read.
class Holes final : public Source {
 public:
  Holes(std::string begin, uint64_t size) : begin_(std::move(begin)), size_(size) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const auto count = static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - std::min(offset, size_)));
    for (size_t i = 0; i < count; ++i)
      out[i] =
          offset + i < begin_.size() ? static_cast<std::byte>(begin_[static_cast<size_t>(offset) + i]) : std::byte{};
    read_ += count;
    ++reads_;
    return count;
  }
  uint64_t bytes_read() const { return read_; }
  uint64_t reads() const { return reads_; }

 private:
  std::string begin_;
  uint64_t size_;
  mutable uint64_t read_ = 0;
  mutable uint64_t reads_ = 0;
};

// A file of holes has room for names without end, all of them empty.
TEST(TvmParams, BoundsMemoryOfNamesAndHeaders) {
  const auto file = std::make_shared<Holes>(little(kParamsMagic) + little(0) + little(1ULL << 40), 1ULL << 50);
  const auto params = tvm::read_params(file, *budget_of(file));
  ASSERT_FALSE(params);
  EXPECT_EQ(params.error().message, "names and headers of more than 100000000 bytes");
  EXPECT_LE(file->bytes_read(), 101'000'000U);
}

TEST(TvmParams, SkipsData) {
  std::string begin = ParamsBuilder().array("a", ArrayHeader{kTvmInt8, {1ULL << 40}, 1ULL << 40}, "").build();
  const uint64_t size = begin.size() + (1ULL << 40);
  const auto file = std::make_shared<Holes>(std::move(begin), size);
  const auto params = tvm::read_params(file, *budget_of(file));
  ASSERT_TRUE(params) << params.error().message;
  EXPECT_EQ(params->tensors[0].nbytes(), 1ULL << 40);
  EXPECT_LE(file->reads(), 2U);
}

TEST(TvmParams, ReadsManySmallArraysInFewReads) {
  ParamsBuilder b;
  for (int i = 0; i < 20'000; ++i) b.array(fmt::format("p{}", i), kTvmInt8, {1}, "x");
  const std::string bytes = b.build();
  const auto file = std::make_shared<Holes>(bytes, bytes.size());
  const auto params = tvm::read_params(file, *budget_of(file));
  ASSERT_TRUE(params) << params.error().message;
  EXPECT_EQ(params->tensors.size(), 20'000U);
  EXPECT_EQ(params->tensors[19'999].name, "p19999");
  EXPECT_LE(file->reads(), 2 * bytes.size() / 65'536 + 4);
}

TEST(TvmParams, ReadsOrRefusesEveryTruncation) {
  const std::string whole = small_params();
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto model = read(whole.substr(0, size));
    if (model) {
      EXPECT_EQ(listing(*model).back(), "mask bool bool [3] refused") << size;
      EXPECT_EQ(model->warnings.size(), 1U) << size;
    } else {
      EXPECT_THAT(model.error().message, HasSubstr("tvm-params: ")) << size;
    }
    EXPECT_EQ(model.has_value(), size >= whole.size() - 3) << size;
  }
}

TEST(TvmParams, SurvivesEveryFlippedByte) {
  const std::string whole = small_params();
  for (size_t at = 0; at < whole.size(); ++at)
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      const auto model = read(bytes);
      if (!model) continue;
      for (const std::string& line : listing(*model)) EXPECT_THAT(line, testing::Not(HasSubstr("unreadable")));
      for (const TensorView& t : model->tensors)
        if (t.dtype != &kUnknownDType && !t.source.refused()) {
          EXPECT_EQ(size_in_bytes(*t.dtype, t.shape), t.nbytes());
        }
    }
}

// The files beside it.

constexpr const char* kGraph = R"({"nodes": [{"op": "null"}], "arg_nodes": [0], "heads": [[0, 0, 0]]})";

TEST(TvmParams, GraphFileBesideParamsIsShown) {
  const Model model = read_well(small_params(), {{"mod.json", kGraph}, {"other.json", kGraph}});
  ASSERT_EQ(model.parts.size(), 2U);
  EXPECT_EQ(model.parts[1].path, "mod.json");
  EXPECT_EQ(text_of(**model.parts[1].source.get()), kGraph);
  EXPECT_EQ(to_json_line(model.metadata), R"({"tvm-params":{"graph":"mod.json"}})");
}

TEST(TvmParams, OtherJsonIsNotReadAsGraph) {
  for (const char* json : {"", "{}", "[]", R"({"nodes": 1, "arg_nodes": [], "heads": []})",
                           R"({"a": {"nodes": [], "arg_nodes": [], "heads": []}})"}) {
    const Model model = read_well(small_params(), {{"mod.json", json}});
    EXPECT_EQ(model.parts.size(), 1U) << json;
    EXPECT_TRUE(model.metadata.empty()) << json;
  }
}

TEST(TvmParams, IsDetectedByMagicNumber) {
  EXPECT_EQ(matches_tvm_params(probe_of(small_params())), Match::yes);
  EXPECT_EQ(matches_tvm_params(probe_of("\xB7\x9C\x04\x05", "x.params")), Match::no);
  EXPECT_EQ(matches_tvm_params(probe_of("", "x.params")), Match::no);
}

}  // namespace
}  // namespace weightfs::params_test
