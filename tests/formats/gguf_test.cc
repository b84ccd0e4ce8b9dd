#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "base/json.h"
#include "base/text.h"
#include "formats/format.h"
#include "tests/support/gguf_builder.h"

namespace weightfs {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Result<Model> read(std::string bytes) { return read_gguf(Container{"m.gguf", in_memory(std::move(bytes)), nullptr}); }

// The model, or an empty one and a failed test.
Model read_well(std::string bytes) {
  auto model = read(std::move(bytes));
  if (model) return std::move(*model);
  ADD_FAILURE() << model.error().message;
  return {};
}

std::string error_of(std::string bytes) {
  const auto model = read(std::move(bytes));
  return model ? "no error" : model.error().message;
}

std::string text_of(const Source& source) { return read_text(source, 0, source.size()).value_or("unreadable"); }

std::string json_of(const Model& model, std::string_view key) {
  const Value* value = model.metadata.find(key);
  return value == nullptr ? "missing" : to_json(*value);
}

// One line per tensor: name, dtype, stored dtype, shape, bytes.
std::vector<std::string> listing(const Model& model) {
  std::vector<std::string> lines;
  for (const Tensor& t : model.tensors) {
    std::string shape;
    for (const uint64_t size : t.shape) shape += str(shape.empty() ? "" : "x", size);
    lines.push_back(str(t.name, " ", t.dtype->name, " ", t.stored_dtype, " [", shape, "] ",
                        t.source.refused() ? "refused" : text_of(t.source)));
  }
  return lines;
}

class MemoryFolder final : public Folder {
 public:
  explicit MemoryFolder(std::map<std::string, std::string, std::less<>> files) : files_(std::move(files)) {}
  Result<std::vector<std::string>> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : files_) names.push_back(name);
    return names;
  }
  Result<SourcePtr> open(std::string_view name) const override {
    const auto found = files_.find(name);
    if (found == files_.end() || found->second == "unreadable") return failure(Code::io, "no way");
    return in_memory(found->second);
  }

 private:
  std::map<std::string, std::string, std::less<>> files_;
};

TEST(Gguf, IsKnownByItsMagicEvenWhenCutShort) {
  EXPECT_EQ(matches_gguf("GGUF\3", 5), Match::yes);
  EXPECT_EQ(matches_gguf("GGUF", 4), Match::yes);
  EXPECT_EQ(matches_gguf("GGU", 3), Match::no);
  EXPECT_EQ(matches_gguf("FUGG\3", 5), Match::no);
}

TEST(Gguf, BecomesAModel) {
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

TEST(Gguf, ShowsItsMetadataUnderItsOwnKeys) {
  EXPECT_EQ(to_json(read_well(small_gguf()).metadata), R"({
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

TEST(Gguf, ShowsWhatModelsHaveInCommon) {
  GgufBuilder b;
  b.string("general.name", "N")
      .string("general.license", "mit")
      .u32("general.url", 7)
      .u32("general.file_type", 1024 + 7);
  EXPECT_EQ(to_json(read_well(b.build()).common),
            "{\n  \"name\": \"N\",\n  \"license\": \"mit\",\n  \"file_type\": \"Q8_0 (guessed)\"\n}\n");
  EXPECT_EQ(to_json(read_well(GgufBuilder().u32("general.file_type", 15).build()).common),
            "{\n  \"file_type\": \"Q4_K_M\"\n}\n");
  EXPECT_EQ(to_json(read_well(GgufBuilder().u32("general.file_type", 35).build()).common),
            "{\n  \"file_type\": 35\n}\n");
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
    EXPECT_THAT(model.error().message, HasSubstr("1 to 3 are known"));
  }
}

TEST(Gguf, SaysOfBigEndianTensorsThatTheyAre) {
  GgufBuilder b(3, std::endian::big);
  b.tensor("f", {1}, 0, b.number(1.5F)).tensor("h", {1}, 1, "hh").tensor("b", {1}, 30, "bb").tensor("i", {1}, 24, "i");
  const Model model = read_well(b.build());
  ASSERT_EQ(model.tensors.size(), 4u);
  EXPECT_EQ(model.tensors[0].dtype->npy_descr, ">f4");
  EXPECT_EQ(model.tensors[0].dtype->name, "float32");
  EXPECT_EQ(model.tensors[1].dtype->npy_descr, ">f2");
  EXPECT_EQ(model.tensors[2].dtype->npy_descr, "") << "a view of bfloat16 would be taken for little-endian";
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

TEST(Gguf, KnowsTheSizeOfEveryTensorType) {
  // Number, elements in a block, bytes: sizeof of the structs in ggml-common.h.
  struct Size {
    uint32_t type;
    uint64_t block;
    size_t bytes;
  };
  constexpr Size kSizes[] = {
      {0, 1, 4},      {1, 1, 2},      {2, 32, 18},   {3, 32, 20},    {4, 32, 17},    {6, 32, 22},    {7, 32, 24},
      {8, 32, 34},    {9, 32, 36},    {10, 256, 84}, {11, 256, 110}, {12, 256, 144}, {13, 256, 176}, {14, 256, 210},
      {15, 256, 292}, {16, 256, 66},  {17, 256, 74}, {18, 256, 98},  {19, 256, 50},  {20, 32, 18},   {21, 256, 110},
      {22, 256, 82},  {23, 256, 136}, {24, 1, 1},    {25, 1, 2},     {26, 1, 4},     {27, 1, 8},     {28, 1, 8},
      {29, 256, 56},  {30, 1, 2},     {31, 32, 18},  {32, 32, 18},   {33, 32, 18},   {34, 256, 54},  {35, 256, 66},
      {36, 32, 18},   {37, 32, 18},   {38, 32, 18},  {39, 32, 17},   {40, 64, 36},   {41, 128, 18},  {42, 64, 18}};
  GgufBuilder b;
  for (const Size& size : kSizes)
    b.tensor(std::to_string(size.type), {2 * size.block, 3}, size.type, std::string(6 * size.bytes, 'x'));
  const Model model = read_well(b.build());
  ASSERT_EQ(model.tensors.size(), std::size(kSizes));
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    EXPECT_EQ(model.tensors[i].nbytes(), 6 * kSizes[i].bytes) << kSizes[i].type;
    EXPECT_EQ(model.tensors[i].dtype->block, kSizes[i].block) << kSizes[i].type;
  }
}

TEST(Gguf, WarnsOfTypesThatAreNotWhatTheySeem) {
  const Model model = read_well(
      GgufBuilder().tensor("o", {32}, 4, std::string(17, 'x')).tensor("r", {32}, 31, std::string(18, 'x')).build());
  EXPECT_THAT(listing(model), ElementsAre("o mxfp4 ggml-4 [32] " + std::string(17, 'x'),
                                          "r q4_0_4_4 Q4_0_4_4 [32] " + std::string(18, 'x')));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("1 tensor of type 4: the number that Ollama gave MXFP4"),
                                          HasSubstr("1 tensor of type 31: a type that ggml had in 2024")));
}

TEST(Gguf, BoundsATensorOfUnknownTypeByTheNextOne) {
  GgufBuilder b;
  b.list("last", {1}, 99, 64).list("first", {1}, 99, 0).list("middle", {8}, 0, 32);
  const Model model = read_well(b.data(std::string(32, 'a') + std::string(32, 'b') + "ccc").build());
  EXPECT_THAT(listing(model),
              ElementsAre("last unknown ggml-99 [1] ccc", "first unknown ggml-99 [1] " + std::string(32, 'a'),
                          "middle float32 F32 [8] " + std::string(32, 'b')));
  EXPECT_THAT(model.warnings,
              ElementsAre("2 tensors of type 99: not a known type; its bytes are taken to reach to the next tensor",
                          "tensors are stored in another order than they are listed in"));
  EXPECT_EQ(model.tensors[0].stored_dtype.data(), model.tensors[1].stored_dtype.data()) << "one spelling for all";
}

TEST(Gguf, TakesAFileOfVocabularyOnly) {
  const std::string bytes = GgufBuilder().string("general.architecture", "llama").build();
  ASSERT_NE(bytes.size() % 32, 0u);
  const Model model = read_well(bytes);
  EXPECT_THAT(model.tensors, IsEmpty());
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(Gguf, TakesALastTensorWithoutPaddingAndATensorWithoutElements) {
  EXPECT_THAT(read_well(GgufBuilder().list("w", {3}, 24, 0).data("www").build()).warnings, IsEmpty());
  EXPECT_THAT(read_well(GgufBuilder().tensor("a", {0, 5}, 0, "").tensor("b", {4}, 24, "bbbb").build()).warnings,
              IsEmpty());
}

TEST(Gguf, FollowsTheAlignmentThatIsGiven) {
  GgufBuilder b;
  b.padded_to(256).u32("general.alignment", 256).tensor("a", {1}, 24, "a").tensor("b", {1}, 24, "b");
  const Model model = read_well(b.build());
  EXPECT_THAT(listing(model), ElementsAre("a int8 I8 [1] a", "b int8 I8 [1] b"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

// ggml's writer stores the key and pads to 32 all the same: the tensors' section begins 32 bytes before it should.
GgufBuilder aligned_to_64(size_t tensor_size, size_t padding) {
  GgufBuilder b;
  b.padded_to(padding)
      .u32("general.alignment", 64)
      .string("f", "0123456789abcdef")
      .tensor("a", {tensor_size}, 24, std::string(tensor_size, 'a'));
  return b.tensor("b", {tensor_size}, 24, std::string(tensor_size, 'b'));
}

TEST(Gguf, FindsTheTensorsOfAFileWhoseWriterForgotItsAlignment) {
  for (const size_t size : {24u, 64u, 128u}) {
    ASSERT_EQ((aligned_to_64(size, 32).header().size() + 31) / 32 % 2, 1u) << "else nothing is shifted";
    const Model model = read_well(aligned_to_64(size, 32).build());
    EXPECT_EQ(listing(model).at(0), str("a int8 I8 [", size, "] ", std::string(size, 'a')));
    EXPECT_EQ(listing(model).at(1), str("b int8 I8 [", size, "] ", std::string(size, 'b')));
    EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("general.alignment is 64 but the tensors are laid out by 32")));
  }
}

TEST(Gguf, BelievesAnAlignmentEvenWhenTheFileIsCut) {
  const std::string whole = aligned_to_64(64, 64).build();
  const Model model = read_well(whole.substr(0, whole.size() - 20));
  EXPECT_THAT(listing(model), ElementsAre("a int8 I8 [64] " + std::string(64, 'a'), "b int8 I8 [64] refused"));
}

TEST(Gguf, RefusesAnAlignmentThatIsNone) {
  EXPECT_EQ(error_of(GgufBuilder().u32("general.alignment", 0).build()),
            "gguf: general.alignment is 0, a power of two up to 1073741824 is needed");
  EXPECT_THAT(error_of(GgufBuilder().u32("general.alignment", 48).build()), HasSubstr("is 48"));
  EXPECT_THAT(error_of(GgufBuilder().u32("general.alignment", 1u << 31).build()), HasSubstr("is 2147483648"));
  EXPECT_THAT(error_of(GgufBuilder().string("general.alignment", "32").build()), HasSubstr("no such number"));
  EXPECT_THAT(error_of(GgufBuilder().i32("general.alignment", -32).build()), HasSubstr("no such number"));
  EXPECT_THAT(read_well(GgufBuilder().u16("general.alignment", 32).build()).warnings,
              ElementsAre("general.alignment is of type uint16, not uint32"));
}

TEST(Gguf, BoundsACountBeforeReserving) {
  constexpr uint64_t kMany = uint64_t{1} << 60;
  const std::string padding(128, '\0');
  EXPECT_EQ(error_of(GgufBuilder().announcing(kMany, 0).build() + padding),
            "gguf: tensors: a count of 1152921504606846976 at 24 where 128 bytes are left");
  EXPECT_THAT(error_of(GgufBuilder().announcing(0, kMany).build() + padding), HasSubstr("metadata: a count of"));
  GgufBuilder b;
  EXPECT_THAT(error_of(b.key("a", kArray, b.array(kU8, kMany, "")).build() + padding),
              HasSubstr("key \"a\": a count of"));
  EXPECT_THAT(error_of(GgufBuilder().key("a", kString, b.count(kMany)).build() + padding),
              HasSubstr("key \"a\": 1152921504606846976 bytes to skip"));
  EXPECT_THAT(error_of("GGUF" + b.number(3u) + b.count(0) + b.count(1) + b.count(kMany) + padding),
              HasSubstr("key 0: a string of 1152921504606846976 bytes"));
}

TEST(Gguf, BoundsWhatAHugeFileMayClaim) {
  const std::string zeros(size_t{52} << 20, '\0');
  EXPECT_THAT(error_of(GgufBuilder().announcing(0, 65'537).build() + zeros),
              HasSubstr("metadata: 65537 entries, at most 65536 are read"));
  EXPECT_THAT(error_of(GgufBuilder().announcing(2'097'153, 0).build() + zeros),
              HasSubstr("tensors: 2097153 entries, at most 2097152 are read"));
  EXPECT_THAT(error_of(GgufBuilder().list("w", std::vector<uint64_t>(65), 0, 0).build()),
              HasSubstr("65 dimensions, at most 64"));
  EXPECT_THAT(error_of(GgufBuilder().string(std::string(65'536, 'k'), "").build()), HasSubstr("a name of 65536 bytes"));
}

TEST(Gguf, RefusesAValueTypeThatItCannotStepOver) {
  EXPECT_EQ(error_of(GgufBuilder().key("x", 13, "\0\0\0\0").build()),
            "gguf: key \"x\": value type 13, 0 to 12 are known");
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

TEST(Gguf, KeepsTheFirstOfTwoKeys) {
  const Model model = read_well(GgufBuilder().u32("k", 1).u32("k", 2).build());
  EXPECT_EQ(json_of(model, "k"), "1\n");
  EXPECT_THAT(model.warnings, ElementsAre("key \"k\" is there more than once: the first counts"));
}

TEST(Gguf, GivesAKeyOfItsOwnNameAPlaceAmongTheFacts) {
  const Model model = read_well(GgufBuilder().u32("gguf", 42).build());
  EXPECT_EQ(json_of(model, "gguf"),
            "{\n  \"version\": 3,\n  \"byte_order\": \"little\",\n  \"alignment\": 32,\n  \"data_offset\": 44,\n"
            "  \"tensor_count\": 0,\n  \"kv_count\": 1,\n  \"value\": 42\n}\n");
}

TEST(Gguf, ShowsOddMetadataWithAWarning) {
  const Model model = read_well(GgufBuilder().key("b", kBool, "\2").string("t", "\xFF").u32("", 5).build());
  EXPECT_EQ(json_of(model, "b"), "true\n");
  EXPECT_EQ(json_of(model, "t"), "\"\uFFFD\"\n");
  EXPECT_EQ(json_of(model, ""), "5\n");
  EXPECT_THAT(model.warnings, ElementsAre("key \"b\": a bool that is neither 0 nor 1 is taken for true",
                                          "key \"t\": text that is not UTF-8", "key 2 is empty"));
}

TEST(Gguf, KeepsATensorWhoseRangeCannotBe) {
  constexpr uint64_t kHuge = uint64_t{1} << 40;
  GgufBuilder b;
  b.tensor("good", {4}, 24, "good")
      .list("past", {64}, 0, 32)
      .list("far", {1}, 24, kHuge)
      .list("wrap", {1}, 24, UINT64_MAX - 31);
  // The product is 0 modulo 2^64, which ggml takes for an empty tensor.
  b.list("product", {kHuge, kHuge}, 0, 32).list("sum", {uint64_t{1} << 62, 2}, 1, 32).list("row", {33}, 2, 32);
  const Model model = read_well(b.build());
  EXPECT_THAT(listing(model), ElementsAre("good int8 I8 [4] good", "past float32 F32 [64] refused",
                                          "far int8 I8 [1] refused", "wrap int8 I8 [1] refused", HasSubstr("refused"),
                                          HasSubstr("refused"), HasSubstr("refused")));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"past\": 0 bytes left, 256 needed",
                                          "tensor \"far\": offset 1099511627776 is outside the file",
                                          "tensor \"wrap\": offset 18446744073709551584 is outside the file",
                                          "tensor \"product\": its dimensions make more bytes than 64 bits can count",
                                          "tensor \"sum\": its dimensions make more bytes than 64 bits can count",
                                          "tensor \"row\": rows of 33 elements are no whole blocks of 32"));
}

TEST(Gguf, ShowsAnOddLayoutWithAWarning) {
  GgufBuilder b;
  b.list("a", {8}, 24, 0)
      .list("b", {40}, 24, 64)
      .list("c", {8}, 24, 96)
      .list("d", {1}, 24, 129)
      .data(std::string(170, 'x'));
  EXPECT_THAT(read_well(b.build()).warnings,
              ElementsAre("tensor \"d\": offset 129 is not a multiple of 32", "tensor \"b\": 32 unused bytes before it",
                          "tensor \"c\": overlaps the one before by 8 bytes", "tensor \"d\": 1 unused bytes before it",
                          "10 bytes after the last tensor"));
}

TEST(Gguf, ShowsNamesAsTheyAre) {
  const std::string longest(63, 'n');
  GgufBuilder b;
  for (const auto& name :
       {std::string("../../x"), std::string("a/b"), std::string(), std::string("\xFF\0", 2), longest, longest + "n"})
    b.tensor(name, {1}, 24, "x");
  const Model model = read_well(b.tensor("five", {1, 1, 1, 1, 1}, 24, "x").build());
  EXPECT_EQ(model.tensors[0].name, "../../x");
  EXPECT_EQ(model.tensors[3].name, std::string("\xFF\0", 2));
  EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("a name of 64 bytes, ggml takes 63"),
                                          "tensor \"five\": 5 dimensions, ggml takes 4"));
}

TEST(Gguf, KeepsTensorsOfOneNameAndWarns) {
  const Model model =
      read_well(GgufBuilder().tensor("w", {1}, 24, "1").tensor("v", {1}, 24, "v").tensor("w", {1}, 24, "2").build());
  EXPECT_THAT(listing(model), ElementsAre("w int8 I8 [1] 1", "v int8 I8 [1] v", "w int8 I8 [1] 2"));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"w\": there are 2 of that name"));
}

TEST(Gguf, BoundsItsWarnings) {
  GgufBuilder b;
  for (int i = 0; i < 1500; ++i) b.list(std::to_string(i), {1}, 24, uint64_t{1} << 40);
  const Model model = read_well(b.build());
  ASSERT_EQ(model.warnings.size(), 1001u);
  EXPECT_EQ(model.warnings.back(), "... and 500 more");
}

TEST(Gguf, MakesADocumentOfALongList) {
  GgufBuilder b;
  std::string words, floats;
  for (int i = 0; i < 1025; ++i) {
    words += b.text(i == 0 ? std::string_view("\"\n\xFF") : std::string_view("w"));
    floats += b.number(i == 1 ? std::numeric_limits<float>::infinity() : 0.1F * static_cast<float>(i));
  }
  b.key("tokenizer.ggml.tokens", kArray, b.array(kString, 1025, words)).key("s", kArray, b.array(kF32, 1025, floats));
  b.key("bytes", kArray, b.array(kU8, 1024, std::string(1024, '\1')));
  const Model model = read_well(b.build());
  EXPECT_EQ(json_of(model, "tokenizer.ggml.tokens"),
            "{\n  \"count\": 1025,\n  \"type\": \"string\",\n  \"path\": \"metadata/tokenizer.ggml.tokens.json\"\n}\n");
  EXPECT_TRUE(std::holds_alternative<List>(*model.metadata.find("bytes"))) << "1024 elements are still a page";
  ASSERT_EQ(model.documents.size(), 2u);
  EXPECT_EQ(model.documents[0].path, "metadata/tokenizer.ggml.tokens.json");
  const std::string tokens = text_of(**model.documents[0].source.get());
  EXPECT_TRUE(tokens.starts_with("[\n  \"\\\"\\n\uFFFD\",\n  \"w\",\n")) << tokens.substr(0, 40);
  EXPECT_TRUE(tokens.ends_with("  \"w\"\n]\n"));
  const SourcePtr scores = *model.documents[1].source.get();
  EXPECT_TRUE(text_of(*scores).starts_with("[\n  0.0,\n  \"Infinity\",\n  0.2,\n")) << text_of(*scores).substr(0, 40);
  EXPECT_EQ(std::get<List>(*parse_json(*scores, 0, scores->size())).size(), 1025u);
}

TEST(Gguf, CountsTheElementsOfNestedArraysTogether) {
  GgufBuilder b;
  std::string inner;
  for (int i = 0; i < 600; ++i) inner += b.array(kU8, 1, "\5");
  b.key("n", kArray, b.array(kArray, 600, inner));
  const Model model = read_well(b.build());
  EXPECT_EQ(json_of(model, "n"), "{\n  \"count\": 1200,\n  \"type\": \"array\",\n  \"path\": \"metadata/n.json\"\n}\n");
  EXPECT_TRUE(text_of(**model.documents.at(0).source.get()).starts_with("[\n  [5],\n  [5],\n"));
}

TEST(Gguf, MakesADocumentOfATextTooLongForAPage) {
  const std::string text((16 << 20) + 1, 'x');
  const Model model = read_well(GgufBuilder().string("t", text).string("u", "short").build());
  EXPECT_EQ(json_of(model, "t"),
            "{\n  \"nbytes\": 16777217,\n  \"type\": \"string\",\n  \"path\": \"metadata/t.json\"\n}\n");
  EXPECT_EQ(json_of(model, "u"), "\"short\"\n") << "what was not kept takes no room";
  EXPECT_EQ((*model.documents.at(0).source.get())->size(), text.size() + 3);
}

TEST(Gguf, ShowsNoDocumentBeyondItsLimit) {
  GgufBuilder b;
  const std::string list = b.array(kU8, 40 << 20, std::string(40 << 20, '\0'));
  const Model model = read_well(b.key("one", kArray, list).key("two", kArray, list).build());
  EXPECT_EQ(model.documents.size(), 1u);
  EXPECT_EQ(json_of(model, "two"), "{\n  \"count\": 41943040,\n  \"type\": \"uint8\"\n}\n");
  EXPECT_THAT(model.warnings, ElementsAre("key \"two\": 41943052 bytes are too many to be shown"));
}

TEST(Gguf, NamesDocumentsSafely) {
  GgufBuilder b;
  const std::string list = b.array(kU8, 1025, std::string(1025, '\0'));
  for (const auto& key :
       {std::string("../a%"), std::string("."), std::string(), std::string("\n\xFF"), std::string(201, 'k')})
    b.key(key, kArray, list);
  std::vector<std::string> paths;
  for (const Document& document : read_well(b.build()).documents) paths.push_back(document.path);
  EXPECT_THAT(paths, ElementsAre("metadata/..%2Fa%25.json", "metadata/%key-1.json", "metadata/%key-2.json",
                                 "metadata/%0A%FF.json", "metadata/%key-4.json"));
}

TEST(Gguf, RendersADocumentOfABigEndianFile) {
  GgufBuilder b(1, std::endian::big);
  std::string list;
  for (uint16_t i = 0; i < 1025; ++i) list += b.number(i);
  const Model model = read_well(b.key("n", kArray, b.array(kU16, 1025, list)).build());
  EXPECT_TRUE(text_of(**model.documents.at(0).source.get()).ends_with("  1023,\n  1024\n]\n"));
}

// A shard of three, with a tensor or none.
std::string shard(uint16_t number, std::string_view tensor, uint16_t count = 3, int32_t tensors = 2) {
  GgufBuilder b;
  if (number == 0) b.string("general.name", "Whole");
  b.u16("split.no", number).u16("split.count", count).i32("split.tensors.count", tensors);
  if (!tensor.empty()) b.tensor(tensor, {1}, 24, std::to_string(number));
  return b.build();
}

using Files = std::map<std::string, std::string, std::less<>>;

Result<Model> read_beside(const std::string& name, const Files& files) {
  return read_gguf(Container{name, in_memory(files.at(name)), std::make_shared<MemoryFolder>(files)});
}

const Files kShards = {{"m-00001-of-00003.gguf", shard(0, "")},
                       {"m-00002-of-00003.gguf", shard(1, "a")},
                       {"m-00003-of-00003.gguf", shard(2, "b")},
                       {"other.gguf", "not a shard"}};

TEST(GgufSplit, IsOneModelByWhicheverShardItIsOpened) {
  for (const char* name : {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    const auto model = read_beside(name, kShards);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_THAT(listing(*model), ElementsAre("a int8 I8 [1] 1", "b int8 I8 [1] 2"));
    EXPECT_EQ(json_of(*model, "general.name"), "\"Whole\"\n");
    EXPECT_THAT(json_of(*model, "gguf"), HasSubstr("\"split\": {\n    \"count\": 3,\n    \"present\": 3\n  }"));
    EXPECT_THAT(model->warnings, IsEmpty());
    ASSERT_EQ(model->parts.size(), 3u);
    EXPECT_EQ(model->parts[0].path, "m-00001-of-00003.gguf");
    EXPECT_EQ(text_of(**model->parts[2].source.get()), shard(2, "b"));
  }
}

TEST(GgufSplit, ShowsWhatIsThereAndNamesWhatIsMissing) {
  Files files = kShards;
  files.erase("m-00001-of-00003.gguf");
  const auto model = read_beside("m-00003-of-00003.gguf", files);
  ASSERT_TRUE(model);
  EXPECT_THAT(listing(*model), ElementsAre("a int8 I8 [1] 1", "b int8 I8 [1] 2"));
  EXPECT_EQ(model->version, "3");
  EXPECT_EQ(model->parts.size(), 2u);
  EXPECT_THAT(model->warnings, ElementsAre("\"m-00001-of-00003.gguf\": missing"));
}

TEST(GgufSplit, StaysWhenAShardIsBroken) {
  Files files = kShards;
  files["m-00001-of-00003.gguf"] = "unreadable";
  files["m-00002-of-00003.gguf"] = "GGUF";
  const auto model = read_beside("m-00003-of-00003.gguf", files);
  ASSERT_TRUE(model);
  EXPECT_THAT(listing(*model), ElementsAre("b int8 I8 [1] 2"));
  EXPECT_EQ(model->parts.size(), 2u) << "the broken file can be looked at";
  EXPECT_THAT(model->warnings,
              ElementsAre("\"m-00001-of-00003.gguf\": no way", HasSubstr("\"m-00002-of-00003.gguf\": ends at byte 4"),
                          "split.tensors.count is 2, there are 1"));
}

TEST(GgufSplit, WarnsWhereShardsDisagree) {
  const Files files = {{"m-00001-of-00002.gguf", shard(0, "a", 2, 7)}, {"m-00002-of-00002.gguf", shard(5, "a", 3)}};
  const auto model = read_beside("m-00001-of-00002.gguf", files);
  ASSERT_TRUE(model);
  EXPECT_THAT(listing(*model), ElementsAre("a int8 I8 [1] 0", "a int8 I8 [1] 5"));
  EXPECT_THAT(model->warnings,
              ElementsAre("\"m-00002-of-00002.gguf\": split.no is 5, 1 by the file's name",
                          "\"m-00002-of-00002.gguf\": split.count is 3, 2 by the file's name",
                          "split.tensors.count is 7, there are 2", "tensor \"a\": there are 2 of that name"));
}

TEST(GgufSplit, IsNotMadeOfAFileThatDoesNotSaySo) {
  Files files = kShards;
  files["m-1-of-3.gguf"] = shard(0, "x");
  files["m-00004-of-00003.gguf"] = shard(0, "x");
  files["n-00001-of-00003.gguf"] = shard(0, "x", 1);
  files["n-00002-of-00003.gguf"] = GgufBuilder().tensor("x", {1}, 24, "0").build();
  for (const char* name :
       {"m-1-of-3.gguf", "m-00004-of-00003.gguf", "n-00001-of-00003.gguf", "n-00002-of-00003.gguf"}) {
    const auto model = read_beside(name, files);
    ASSERT_TRUE(model) << name;
    EXPECT_THAT(listing(*model), ElementsAre("x int8 I8 [1] 0")) << name;
    EXPECT_EQ(model->parts.size(), 1u) << name;
  }
  const auto alone = read_gguf(Container{"m-00002-of-00003.gguf", in_memory(shard(1, "a")), nullptr});
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->parts.size(), 1u) << "nothing lies beside it";
}

// Reads everything that a mount could ask for.
void use(const Result<Model>& model) {
  if (!model) return;
  for (const Tensor& tensor : model->tensors) {
    ASSERT_NE(tensor.dtype, nullptr);
    if (!tensor.source.refused()) {
      ASSERT_EQ(text_of(tensor.source).size(), tensor.nbytes());
    }
  }
  for (const Document& document : model->documents) (void)document.source.get();
  EXPECT_FALSE(to_json(model->metadata).empty());
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
}  // namespace weightfs
