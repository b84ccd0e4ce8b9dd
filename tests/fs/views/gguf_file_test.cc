// model.gguf.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/float32.h"
#include "formats/format.h"
#include "fs/views/model_file.h"
#include "tests/builders/gguf_builder.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/support/counted_source.h"
#include "tests/support/memory_folder.h"
#include "tests/support/model_text.h"
#include "tests/support/models.h"
#include "tests/support/reading.h"

namespace weightfs::gguf_file_test {
namespace {

using namespace views;
using test::error_in;
using test::GgufBuilder;
using test::listing;
using test::text_of;
using test::well;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ModelPtr read(const std::string& name, const SourcePtr& bytes, test::Files beside = {}) {
  const std::shared_ptr<const Folder> folder =
      beside.empty() ? nullptr : std::make_shared<test::MemoryFolder>(std::move(beside));
  return std::make_shared<Model>(well(read_model({.name = name, .bytes = bytes, .folder = folder})));
}

ModelPtr read(const std::string& bytes) { return read("model.gguf", in_memory(bytes)); }

// A file that is read again must be one that ggml accepts: without a warning.
ModelPtr read_back(const ModelFile& file) {
  EXPECT_EQ(file.path, "model.gguf");
  const auto model = read(text_of(*file.source));
  EXPECT_THAT(model->warnings, IsEmpty());
  return model;
}

Map without_facts(const Model& model) {
  Map keys;
  for (const auto& [key, value] : model.metadata)
    if (key != "gguf") keys.append(key, value);
  return keys;
}

TEST(GgufFile, OneFileIsTheSameAgain) {
  for (const std::endian order : {std::endian::little, std::endian::big}) {
    const std::string bytes = test::small_gguf(3, order);
    const ModelFile file = well(gguf_file(read(bytes), {}));
    EXPECT_THAT(file.left_out.lines(), IsEmpty());
    EXPECT_EQ(text_of(*file.source), bytes);
  }
}

TEST(GgufFile, FileOfVersion2BecomesVersion3) {
  const ModelFile file = well(gguf_file(read(test::small_gguf(2)), {}));
  EXPECT_EQ(text_of(*file.source), test::small_gguf(3));
  EXPECT_EQ(error_in(gguf_file(read(test::small_gguf(1)), {})), "the metadata of GGUF version 1 has another form");
}

// The keys of the first shard without those of the split; the tensors of all, in the alignment of the first one.
TEST(GgufFile, ShardsAreJoined) {
  GgufBuilder first;
  first.padded_to(64).u16("split.no", 0).string("general.architecture", "llama").u32("general.alignment", 64);
  first.u16("split.count", 3).i32("split.tensors.count", 4).string("last", "key");
  first.tensor("a", {3}, 0, std::string(12, 'a'));
  GgufBuilder second;
  second.u16("split.no", 1).u16("split.count", 3).i32("split.tensors.count", 4);
  second.tensor("b", {32, 2}, 2, std::string(36, 'b')).tensor("c", {1}, 24, "c");
  GgufBuilder third;
  third.u16("split.no", 2).u16("split.count", 3).i32("split.tensors.count", 4);
  third.tensor("d", {2}, 1, "dddd");
  const auto model = read("m-00001-of-00003.gguf", in_memory(first.build()),
                          {{"m-00002-of-00003.gguf", second.build()}, {"m-00003-of-00003.gguf", third.build()}});
  ASSERT_THAT(model->warnings, IsEmpty());

  GgufBuilder joined;
  joined.padded_to(64).string("general.architecture", "llama").u32("general.alignment", 64).string("last", "key");
  joined.tensor("a", {3}, 0, std::string(12, 'a')).tensor("b", {32, 2}, 2, std::string(36, 'b'));
  joined.tensor("c", {1}, 24, "c").tensor("d", {2}, 1, "dddd");
  const ModelFile file = well(gguf_file(model, {}));
  EXPECT_THAT(file.left_out.lines(), IsEmpty());
  EXPECT_EQ(text_of(*file.source), joined.build());
  EXPECT_THAT(listing(*read_back(file)), testing::ElementsAreArray(listing(*model)));
}

// ggml refuses a file with an empty key, or with two equal ones.
TEST(GgufFile, KeysThatGgmlRefusesAreNotCopied) {
  GgufBuilder strange;
  strange.string("", "empty").string("a", "1").string("a", "2").string("b", "3");
  const std::string bytes = strange.tensor("w", {1}, 24, "w").build();
  const auto again = read_back(well(gguf_file(read(bytes), {})));
  EXPECT_EQ(to_json_line(without_facts(*again)), R"({"a":"1","b":"3"})");
}

// Types of forks are copied with their numbers; their sizes follow from the offsets.
TEST(GgufFile, UnknownTypesOfAGgufAreCopied) {
  GgufBuilder builder;
  builder.string("general.architecture", "llama").tensor("a", {32}, 156, std::string(32, 'a'));
  const auto model = read(builder.tensor("b", {1}, 24, "b").build());
  const ModelFile file = well(gguf_file(model, {}));
  EXPECT_THAT(file.left_out.lines(), IsEmpty());
  EXPECT_EQ(listing(*read(text_of(*file.source))), listing(*model));
  EXPECT_THAT(listing(*model), Contains("a unknown ggml-156 [32] " + std::string(32, 'a')));
  // A name of another format is no number of GGUF.
  test::SafetensorsBuilder other;
  other.tensor("a", "ggml-156", "1", "a").tensor("b", "I8", "1", "b");
  EXPECT_THAT(well(gguf_file(read("m.safetensors", in_memory(other.build())), {})).left_out.lines(),
              ElementsAre("tensor \"a\": GGUF has no type for ggml-156"));
}

TEST(GgufFile, OtherFormatHasItsTensorsAndFields) {
  test::SafetensorsBuilder builder;
  builder.metadata(R"({"modelspec.title":"Tiny","modelspec.architecture":"llama","n":"x"})");
  builder.tensor("f", "F32", "2,1", "ffffFFFF").tensor("h", "F16", "3", "hhhhhh").tensor("b", "BF16", "1", "bb");
  builder.tensor("d", "F64", "", "dddddddd").tensor("i8", "I8", "5", "iiiii").tensor("i16", "I16", "1", "ii");
  builder.tensor("i32", "I32", "1", "iiii").tensor("i64", "I64", "1", "iiiiiiii").tensor("u8", "U8", "1", "u");
  builder.tensor("flag", "BOOL", "1", "\1");
  const auto model = read("m.safetensors", in_memory(builder.build()));
  const ModelFile file = well(gguf_file(model, {}));
  EXPECT_THAT(file.left_out.lines(),
              ElementsAre("tensor \"u8\": GGUF has no type for uint8", "tensor \"flag\": GGUF has no type for bool"));
  const auto again = read_back(file);
  EXPECT_THAT(listing(*again),
              ElementsAre("f float32 F32 [2x1] ffffFFFF", "h float16 F16 [3] hhhhhh", "b bfloat16 BF16 [1] bb",
                          "d float64 F64 [] dddddddd", "i8 int8 I8 [5] iiiii", "i16 int16 I16 [1] ii",
                          "i32 int32 I32 [1] iiii", "i64 int64 I64 [1] iiiiiiii"));
  // No architecture: ggml's is not known.
  EXPECT_EQ(to_json_line(without_facts(*again)),
            R"({"general.name":"Tiny","safetensors.modelspec.title":"Tiny",)"
            R"("safetensors.modelspec.architecture":"llama","safetensors.n":"x"})");
}

TEST(GgufFile, ValuesOfFieldsKeepTheirTypes) {
  auto model = std::make_shared<Model>();
  model->format = "test";
  model->tensors.push_back(make_tensor("w", "float32", {1}));
  model->metadata.append("flag", true);
  model->metadata.append("minus", -3);
  model->metadata.append("large", UINT64_MAX);
  model->metadata.append("real", 0.5);
  model->metadata.append("list", List{Value(1)});
  model->metadata.append("map", Map());
  model->metadata.append("null", nullptr);
  EXPECT_EQ(to_json_line(without_facts(*read_back(well(gguf_file(model, {}))))),
            R"({"test.flag":true,"test.minus":-3,"test.large":18446744073709551615,"test.real":0.5})");
}

TEST(GgufFile, TensorsThatGgmlRefusesAreLeftOut) {
  auto model = std::make_shared<Model>();
  const auto add = [&](const Tensor& tensor) { model->tensors.push_back(tensor); };
  add(make_tensor(std::string(63, 'n'), "float32", {1}));
  add(make_tensor(std::string(64, 'n'), "float32", {1}));
  add(make_tensor("deep", "float32", Shape(5, 1)));
  add(make_tensor("deepest", "float32", Shape(70, 1)));
  add(make_tensor("four", "float32", Shape(4, 1)));
  add(make_tensor("w", "float32", {2}, "graph"));
  add(make_tensor("four", "float32", {3}));
  Tensor other = make_tensor("ollama", "mxfp4", {32});
  other.dtype = mxfp4_of_pairs();
  add(other);
  Tensor big = make_tensor("big", "float32", {1});
  big.dtype = big_endian(big.dtype);
  add(big);
  const ModelFile file = well(gguf_file(model, {}));
  EXPECT_EQ(read_back(file)->tensors.size(), 2U);
  EXPECT_THAT(
      file.left_out.lines(),
      ElementsAre(HasSubstr(": a name of 64 bytes, ggml accepts 63"), "tensor \"deep\": 5 dimensions, ggml accepts 4",
                  "tensor \"deepest\": 70 dimensions, ggml accepts 4",
                  "tensor \"graph/w\": of the part \"graph\", GGUF has none",
                  "tensor \"ollama\": GGUF has no type for mxfp4", "tensor \"big\": GGUF has no type for float32",
                  "tensor \"four\": another tensor has this name"));
}

TEST(GgufFile, Float32HasTheNumbersOfEveryType) {
  auto model = std::make_shared<Model>();
  model->tensors.push_back(make_tensor("q", "q8_0", {2, 32}));
  model->tensors.push_back(make_tensor("h", "float16", {3}));
  const auto again = read_back(well(gguf_file(model, {.types = FileTypes::float32})));
  ASSERT_EQ(again->tensors.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again->tensors[i].stored_dtype, "F32");
    EXPECT_EQ(again->tensors[i].shape, model->tensors[i].shape);
    EXPECT_EQ(text_of(again->tensors[i].source), text_of(*float32_values(model->tensors[i])));
  }
}

// The keys about the types of the tensors are false of float32.
TEST(GgufFile, Float32HasNoKeysAboutQuantisation) {
  GgufBuilder builder;
  builder.string("general.architecture", "llama").u32("general.file_type", 15).u32("general.quantization_version", 2);
  builder.string("quantize.imatrix.file", "imatrix.dat").string("general.name", "Tiny");
  const auto model = read(builder.tensor("w", {32}, 8, std::string(34, 'w')).build());
  EXPECT_EQ(to_json_line(without_facts(*read_back(well(gguf_file(model, {.types = FileTypes::float32}))))),
            R"({"general.architecture":"llama","general.name":"Tiny","general.file_type":0})");
  EXPECT_EQ(text_of(*well(gguf_file(model, {})).source), builder.build());
}

// semantics 26.3
TEST(GgufFile, OtherTypesAreFloat32) {
  auto model = std::make_shared<Model>();
  for (const char* const dtype : {"uint8", "bool", "float8_e4m3fn", "bfloat16", "uint32"})
    model->tensors.push_back(make_tensor(dtype, dtype, {2}));
  const ModelFile file = well(gguf_file(model, {.types = FileTypes::stored_or_float32}));
  EXPECT_THAT(file.left_out.lines(), IsEmpty());
  const auto again = read_back(file);
  for (size_t i = 0; i < model->tensors.size(); ++i) {
    const TensorView stored = model->tensors[i], written = again->tensors[i];
    EXPECT_EQ(written.stored_dtype, stored.name == "bfloat16" ? "BF16" : "F32");
    EXPECT_EQ(text_of(written.source),
              text_of(stored.name == "bfloat16" ? static_cast<const Source&>(stored.source) : *float32_values(stored)));
  }
}

TEST(GgufFile, FileTypeIsThatOfAllTensors) {
  GgufBuilder builder;
  builder.u32("general.file_type", 7).u32("general.quantization_version", 2);
  const std::string bytes = builder.tensor("w", {32}, 8, std::string(34, 'w')).build();
  for (const auto& [types, expected, type] : {std::tuple{FileTypes::float32, R"({"general.file_type":0})", "F32"},
                                              {FileTypes::float16, R"({"general.file_type":1})", "F16"},
                                              {FileTypes::bfloat16, R"({"general.file_type":32})", "BF16"}}) {
    const auto again = read_back(well(gguf_file(read(bytes), {.types = types})));
    EXPECT_EQ(to_json_line(without_facts(*again)), expected);
    EXPECT_EQ(again->tensors[0].stored_dtype, type);
  }
  EXPECT_EQ(text_of(*well(gguf_file(read(bytes), {.types = FileTypes::stored_or_float32})).source), bytes);
}

TEST(GgufFile, KeysThatAreLeftOutAreNamed) {
  auto model = std::make_shared<Model>();
  model->format = "test";
  model->tensors.push_back(make_tensor("w", "float32", {1}));
  model->metadata.append("list", List{Value(1)});
  model->metadata.append("text", "x");
  model->metadata.append("gguf", Map());  // facts
  EXPECT_EQ(well(gguf_file(model, {})).left_out_keys.to_sentence(),
            "GGUF gets texts, numbers and bools only: 1 of 2 keys are left out: list");
  EXPECT_EQ(well(gguf_file(read(test::small_gguf()), {})).left_out_keys.to_sentence(), "");
}

TEST(GgufFile, SizesOverTwoToThe53AreLeftOut) {
  constexpr uint64_t kMost = uint64_t{1} << 53;
  auto model = std::make_shared<Model>();
  for (const uint64_t size : {kMost - 64, kMost + 1, uint64_t{33}, uint64_t{32}}) {
    Tensor tensor = make_tensor("t" + std::to_string(size), "int8", {0});
    tensor.shape = {size};
    tensor.source = slice(std::make_shared<test::CountedSource>("", size), 0, size).value();
    model->tensors.push_back(tensor);
  }
  const ModelFile file = well(gguf_file(model, {}));
  EXPECT_THAT(file.left_out.lines(), ElementsAre("tensor \"t9007199254740993\": more than 2^53 bytes",
                                                 "tensor \"t32\": would end beyond 2^53 bytes"));
  EXPECT_EQ(file.source->size() % 32, 0U);
  EXPECT_GE(file.source->size(), kMost);
}

// A model of metadata alone, such as a vocabulary.
TEST(GgufFile, FileWithoutTensorsHasItsKeys) {
  GgufBuilder builder;
  const std::string bytes = builder.string("general.architecture", "llama").build();
  EXPECT_EQ(text_of(*well(gguf_file(read(bytes), {})).source), bytes);
}

TEST(GgufFile, HugeAlignmentIsAnError) {
  GgufBuilder builder;
  builder.u32("general.alignment", 1 << 21).padded_to(1 << 21).tensor("w", {1}, 24, "w");
  EXPECT_EQ(error_in(gguf_file(read(builder.build()), {})), "general.alignment is 2097152, 1048576 at most");
}

TEST(GgufFile, OpeningReadsNoTensor) {
  const std::string bytes = test::small_gguf();
  const auto counted = std::make_shared<test::CountedSource>(bytes);
  const auto model = read("model.gguf", counted);
  counted->bytes_read = 0;
  const ModelFile file = well(gguf_file(model, {}));
  EXPECT_EQ(file.source->size(), bytes.size());
  EXPECT_EQ(counted->bytes_read, 0U);
}

}  // namespace
}  // namespace weightfs::gguf_file_test
