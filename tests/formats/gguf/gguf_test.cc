#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/gguf_reading.h"
#include "tests/support/probe.h"

namespace weightfs::gguf_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Gguf, TruncatedFileIsDetectedByMagic) {
  EXPECT_EQ(matches_gguf(probe_of("GGUF\3")), Match::yes);
  EXPECT_EQ(matches_gguf(probe_of("GGUF")), Match::yes);
  EXPECT_EQ(matches_gguf(probe_of("GGU")), Match::no);
  EXPECT_EQ(matches_gguf(probe_of("FUGG\3")), Match::no);
}

TEST(Gguf, IsReadAsModel) {
  const Model model = read_well(small_gguf());
  EXPECT_EQ(model.format, "gguf");
  EXPECT_EQ(model.version, "3");
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_THAT(listing(model), ElementsAre("w float32 F32 [2x4] " + std::string(32, 'w'),
                                          "q q4_0 Q4_0 [32] " + std::string(18, 'q'), "scalar int8 I8 [] s"));
  ASSERT_EQ(model.parts.size(), 1u);
  EXPECT_EQ(model.parts[0].path, "m.gguf");
  EXPECT_EQ(text_of(**model.parts[0].source.get()), small_gguf());
}

TEST(Gguf, MetadataKeepsKeys) {
  EXPECT_EQ(to_json(metadata_with_facts(read_well(small_gguf()))), R"({
  "general.architecture": "llama",
  "general.name": "Tiny",
  "general.file_type": 15,
  "llama.attention.layer_norm_rms_epsilon": 1e-06,
  "flag": true,
  "numbers": [
    -1,
    2
  ],
  "words": [
    "a",
    "b"
  ],
  "nested": [
    [
      1,
      2
    ],
    []
  ],
  "gguf": {
    "version": 3,
    "byte_order": "little",
    "alignment": 32,
    "data_offset": 480,
    "tensor_count": 3,
    "kv_count": 8
  }
}
)");
}

TEST(Gguf, CommonFieldsAreShown) {
  GgufBuilder b;
  b.string("general.name", "N")
      .string("general.license", "mit")
      .u32("general.url", 7)
      .u32("general.file_type", 1024 + 7);
  EXPECT_EQ(to_json(read_well(b.build()).common),
            "{\n  \"name\": \"N\",\n  \"license\": \"mit\",\n  \"file_type\": \"Q8_0 (guessed)\"\n}\n");
  EXPECT_EQ(to_json(read_well(GgufBuilder().u32("general.file_type", 15).build()).common),
            "{\n  \"file_type\": \"Q4_K_M\"\n}\n");
  EXPECT_EQ(to_json(read_well(GgufBuilder().u32("general.file_type", 57).build()).common),
            "{\n  \"file_type\": 57\n}\n");
}

TEST(Gguf, ReadsEveryVersionInEitherByteOrder) {
  const auto expected = listing(read_well(small_gguf()));
  for (const uint32_t version : {1u, 2u, 3u})
    for (const auto order : {std::endian::little, std::endian::big}) {
      const Model model = read_well(small_gguf(version, order));
      EXPECT_EQ(model.version, std::to_string(version));
      EXPECT_EQ(listing(model), expected);
      EXPECT_EQ(json_of(model, "numbers"), "[\n  -1,\n  2\n]\n");
      EXPECT_EQ(json_of(model, "words"), "[\n  \"a\",\n  \"b\"\n]\n");
      EXPECT_THAT(model.warnings, IsEmpty());
    }
}

TEST(Gguf, RefusesOtherVersions) {
  for (const uint32_t version : {0u, 4u, 0x10000u, 0xFFFFFFFFu}) {
    const auto model = read(small_gguf(version));
    ASSERT_FALSE(model) << version;
    EXPECT_EQ(model.error().code, Code::unsupported);
    EXPECT_THAT(model.error().message, HasSubstr("1 to 3 are supported"));
  }
}

TEST(Gguf, MarksBigEndianTensors) {
  GgufBuilder b(3, std::endian::big);
  b.tensor("f", {1}, 0, b.number(1.5F)).tensor("h", {1}, 1, "hh").tensor("b", {1}, 30, "bb").tensor("i", {1}, 24, "i");
  const Model model = read_well(b.build());
  ASSERT_EQ(model.tensors.size(), 4u);
  EXPECT_EQ(model.tensors[0].dtype->npy_descr, ">f4");
  EXPECT_EQ(model.tensors[0].dtype->name, "float32");
  EXPECT_EQ(model.tensors[1].dtype->npy_descr, ">f2");
  EXPECT_EQ(model.tensors[2].dtype->npy_descr, "") << "NumPy has no bfloat16";
  EXPECT_EQ(model.tensors[3].dtype->npy_descr, "|i1");
  EXPECT_EQ(text_of(model.tensors[0].source), b.number(1.5F)) << "the bytes stay as they are";
  EXPECT_EQ(dtype_named("float32")->npy_descr, "<f4");
}

TEST(Gguf, ReadsEveryTypeOfValue) {
  GgufBuilder b;
  b.key("u8", kU8, "\xFF").key("i8", kI8, "\x80").u16("u16", 65535).key("i16", kI16, b.number<int16_t>(-32768));
  b.u32("u32", 4294967295).i32("i32", -2147483647 - 1).key("u64", kU64, b.number(UINT64_MAX));
  b.key("i64", kI64, b.number(INT64_MIN)).key("f64", kF64, b.number(0.1)).f32("f32", 0.1F);
  b.f32("nan", std::numeric_limits<float>::quiet_NaN()).f32("inf", -std::numeric_limits<float>::infinity());
  b.key("no", kBool, std::string(1, '\0')).string("empty", "");
  const Model model = read_well(b.build());
  const std::vector<std::pair<std::string, std::string>> expected = {{"u8", "255"},
                                                                     {"i8", "-128"},
                                                                     {"u16", "65535"},
                                                                     {"i16", "-32768"},
                                                                     {"u32", "4294967295"},
                                                                     {"i32", "-2147483648"},
                                                                     {"u64", "18446744073709551615"},
                                                                     {"i64", "-9223372036854775808"},
                                                                     {"f64", "0.1"},
                                                                     {"f32", "0.1"},
                                                                     {"nan", "\"NaN\""},
                                                                     {"inf", "\"-Infinity\""},
                                                                     {"no", "false"},
                                                                     {"empty", "\"\""}};
  for (const auto& [key, json] : expected) EXPECT_EQ(json_of(model, key), json + "\n") << key;
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Gguf, AcceptsVocabularyOnlyFile) {
  const std::string bytes = GgufBuilder().string("general.architecture", "llama").build();
  ASSERT_NE(bytes.size() % 32, 0u);
  const Model model = read_well(bytes);
  EXPECT_THAT(model.tensors, IsEmpty());
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Gguf, RefusesInvalidAlignment) {
  EXPECT_EQ(error_of(GgufBuilder().u32("general.alignment", 0).build()),
            "gguf: general.alignment is 0, a power of two up to 1073741824 is needed");
  EXPECT_THAT(error_of(GgufBuilder().u32("general.alignment", 48).build()), HasSubstr("is 48"));
  EXPECT_THAT(error_of(GgufBuilder().u32("general.alignment", 1u << 31).build()), HasSubstr("is 2147483648"));
  EXPECT_THAT(error_of(GgufBuilder().string("general.alignment", "32").build()),
              HasSubstr("is \"\\x2232\\x22\", a power"));
  EXPECT_THAT(error_of(GgufBuilder().i32("general.alignment", -32).build()), HasSubstr("is -32, a power of two"));
  EXPECT_THAT(read_well(GgufBuilder().u16("general.alignment", 32).build()).warnings,
              ElementsAre("general.alignment is of type uint16, not uint32"));
}

TEST(Gguf, BoundsACountBeforeReserving) {
  constexpr uint64_t kMany = uint64_t{1} << 60;
  const std::string padding(128, '\0');
  EXPECT_EQ(error_of(GgufBuilder().announcing(kMany, 0).build() + padding),
            "gguf: tensors: a count of 1152921504606846976 at 24, 128 bytes left");
  EXPECT_THAT(error_of(GgufBuilder().announcing(0, kMany).build() + padding), HasSubstr("metadata: a count of"));
  GgufBuilder b;
  EXPECT_THAT(error_of(b.key("a", kArray, b.array(kU8, kMany, "")).build() + padding),
              HasSubstr("key \"a\": a count of"));
  EXPECT_THAT(error_of(GgufBuilder().key("a", kString, b.count(kMany)).build() + padding),
              HasSubstr("key \"a\": 1152921504606846976 bytes to skip"));
  EXPECT_THAT(error_of("GGUF" + b.number(3u) + b.count(0) + b.count(1) + b.count(kMany) + padding),
              HasSubstr("key 0: a string of 1152921504606846976 bytes"));
}

// Downloads are cut, most often in the list of tokens.
TEST(Gguf, HeaderThatIsCutNamesTheEntry) {
  const std::string file = GgufBuilder()
                               .string("general.architecture", "llama")
                               .string("general.name", "a name")
                               .u32("llama.block_count", 2)
                               .tensor("w", {4}, 24, "1234")
                               .tensor("v", {4}, 24, "1234")
                               .build();
  const auto cut_at = [&](std::string_view text) { return file.substr(0, file.find(text)); };
  EXPECT_EQ(
      error_of(cut_at("a name")),
      fmt::format(
          "gguf: the header ends after {} B: cut in metadata entry 2 of 3 (key \"general.name\": a string of 6 bytes "
          "at {}, 0 left)",
          cut_at("a name").size(), cut_at("a name").size()));
  EXPECT_THAT(error_of(cut_at("llama.block")),
              HasSubstr(": cut in metadata entry 3 of 3 (key 2: a string of 17 bytes"));
  const size_t last = file.rfind('v');
  EXPECT_THAT(error_of(file.substr(0, last)), HasSubstr(": cut in tensor entry 2 of 2 (tensor 1: a string of 1 bytes"));
  EXPECT_THAT(error_of(file.substr(0, last + 3)),
              HasSubstr(": cut in tensor entry 2 of 2 (tensor \"v\": ends at byte"));
}

TEST(Gguf, BoundsClaimsOfHugeFile) {
  const std::string zeros(size_t{52} << 20, '\0');
  EXPECT_THAT(error_of(GgufBuilder().announcing(0, 65'537).build() + zeros),
              HasSubstr("metadata: 65537 entries, at most 65536 are read"));
  EXPECT_THAT(error_of(GgufBuilder().announcing(2'097'153, 0).build() + zeros),
              HasSubstr("tensors: 2097153 entries, at most 2097152 are read"));
  EXPECT_THAT(error_of(GgufBuilder().list("w", std::vector<uint64_t>(1025), 0, 0).build()),
              HasSubstr("1025 dimensions, at most 1024"));
  EXPECT_THAT(error_of(GgufBuilder().string(std::string(65'536, 'k'), "").build()), HasSubstr("a name of 65536 bytes"));
}

TEST(Gguf, RefusesUnknownValueType) {
  EXPECT_EQ(error_of(GgufBuilder().key("x", 13, "\0\0\0\0").build()),
            "gguf: key \"x\": value type 13, 0 to 12 are supported");
  GgufBuilder b;
  EXPECT_THAT(error_of(b.key("x", kArray, b.array(13, 0, "")).build()), HasSubstr("value type 13"));
}

TEST(Gguf, BoundsTheDepthOfNestedArrays) {
  GgufBuilder b;
  std::string value = b.array(kU8, 1, "\7");
  for (int depth = 2; depth <= 16; ++depth) value = b.array(kArray, 1, value);
  EXPECT_THAT(read_well(GgufBuilder().key("deep", kArray, value).build()).warnings, IsEmpty());
  value = b.array(kArray, 1, value);
  EXPECT_THAT(error_of(GgufBuilder().key("deep", kArray, value).build()), HasSubstr("nested deeper than 16"));
}

TEST(Gguf, KeepsFirstOfDuplicateKeys) {
  const Model model = read_well(GgufBuilder().u32("k", 1).u32("k", 2).build());
  EXPECT_EQ(json_of(model, "k"), "1\n");
  EXPECT_THAT(model.warnings, ElementsAre("duplicate key \"k\"; the first value is used"));
}

// A directory of many models keeps none of them.
TEST(Gguf, FactsAreMadeWhenShown) {
  const Model model = read_well(GgufBuilder().build());
  EXPECT_TRUE(model.metadata.empty());
  EXPECT_THAT(json_of(model, "gguf"), HasSubstr("\"data_offset\": 24"));
}

TEST(Gguf, MetadataKeyGgufIsKept) {
  const Model model = read_well(GgufBuilder().u32("gguf", 42).build());
  EXPECT_EQ(json_of(model, "gguf"),
            "{\n  \"version\": 3,\n  \"byte_order\": \"little\",\n  \"alignment\": 32,\n  \"data_offset\": 44,\n"
            "  \"tensor_count\": 0,\n  \"kv_count\": 1,\n  \"value\": 42\n}\n");
}

TEST(Gguf, IrregularMetadataAddsWarning) {
  const Model model = read_well(GgufBuilder().key("b", kBool, "\2").string("t", "\xFF").u32("", 5).build());
  EXPECT_EQ(json_of(model, "b"), "true\n");
  EXPECT_EQ(json_of(model, "t"), "\"\uFFFD\"\n");
  EXPECT_EQ(json_of(model, ""), "5\n");
  EXPECT_THAT(model.warnings, ElementsAre("key \"b\": bool is neither 0 nor 1; read as true",
                                          "key \"t\": text that is not UTF-8", "key 2 is empty"));
}

// Reads everything that a mount could request.
void use(const Result<Model>& model) {
  if (!model) return;
  for (const TensorView& tensor : model->tensors) {
    ASSERT_NE(tensor.dtype, nullptr);
    if (!tensor.source.refused()) {
      ASSERT_EQ(text_of(tensor.source).size(), tensor.nbytes());
    }
  }
  for (const Document& document : model->documents) (void)document.source.get();
  EXPECT_FALSE(to_json(metadata_with_facts(*model)).empty());
}

TEST(Gguf, SurvivesEveryTruncation) {
  for (const uint32_t version : {1u, 3u}) {
    const std::string whole = small_gguf(version);
    for (size_t size = 0; size < whole.size(); ++size) {
      const auto model = read(whole.substr(0, size));
      // The header alone is refused unless it is whole; after it, tensors are missing.
      if (model) {
        EXPECT_EQ(model->tensors.size(), 3u) << size;
      }
      use(model);
    }
  }
}

TEST(Gguf, SurvivesEveryFlippedByte) {
  const std::string whole = small_gguf();
  for (size_t at = 0; at < whole.size(); ++at)
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      use(read(bytes));
    }
}

}  // namespace
}  // namespace weightfs::gguf_test
