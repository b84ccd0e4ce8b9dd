// model.safetensors and its shards.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/float32.h"
#include "formats/format.h"
#include "fs/views/safetensors.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/support/counted_source.h"
#include "tests/support/model_text.h"
#include "tests/support/models.h"
#include "tests/support/reading.h"

namespace weightfs::safetensors_view_test {
namespace {

using namespace views;
using test::CountedSource;
using test::error_in;
using test::listing;
using test::text_of;
using test::well;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ModelPtr model_with(const std::vector<Tensor>& tensors) {
  auto model = std::make_shared<Model>();
  for (const Tensor& tensor : tensors) model->tensors.push_back(tensor);
  return model;
}

// A tensor of a source that has no bytes to read.
Tensor sized(std::string name, std::string_view dtype, Shape shape) {
  Tensor tensor = make_tensor(std::move(name), dtype, {0});
  const uint64_t size = size_in_bytes(*tensor.dtype, shape).value();
  tensor.shape = std::move(shape);
  tensor.source = slice(std::make_shared<CountedSource>("", size), 0, size).value();
  return tensor;
}

Model read_back(const SourcePtr& bytes) {
  return well(read_model({.name = "model.safetensors", .bytes = bytes}, format_named("safetensors")));
}

std::string header_of(const Source& file) {
  const std::string text = text_of(file);
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i) length |= uint64_t{static_cast<uint8_t>(text.at(i))} << (8 * i);
  return text.substr(8, length);
}

// safetensors/src/tensor.rs, prepare(): by dtype, the largest alignment first, then by name; padded to 8 with spaces.
TEST(SafetensorsView, HeaderIsThatOfTheReference) {
  const auto model = model_with({make_tensor("b", "uint8", {3}), make_tensor("z", "float32", {2}),
                                 make_tensor("a", "float32", {}), make_tensor("i", "int64", {1}),
                                 make_tensor("h", "bfloat16", {2, 1}), make_tensor("f", "float16", {1})});
  const auto files = well(safetensors_files(model, {}, 0));
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].path, "model.safetensors");
  EXPECT_THAT(files[0].left_out.lines(), IsEmpty());
  const std::string header = header_of(*files[0].source);
  EXPECT_EQ(header.size() % 8, 0U);
  EXPECT_EQ(header.substr(0, header.find_last_not_of(' ') + 1),
            R"({"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
            R"("a":{"dtype":"F32","shape":[],"data_offsets":[8,12]},)"
            R"("z":{"dtype":"F32","shape":[2],"data_offsets":[12,20]},)"
            R"("h":{"dtype":"BF16","shape":[2,1],"data_offsets":[20,24]},)"
            R"("f":{"dtype":"F16","shape":[1],"data_offsets":[24,26]},)"
            R"("b":{"dtype":"U8","shape":[3],"data_offsets":[26,29]}})");
  EXPECT_EQ(files[0].source->size(), 8 + header.size() + 29);
}

// Every dtype of the reference, in a file of the format.
TEST(SafetensorsView, FileOfSafetensorsHasTheSameTensors) {
  test::SafetensorsBuilder builder;
  builder.metadata(R"({"format":"np","n\u00e9e":"\"x\"\n"})");
  constexpr std::array<std::pair<const char*, size_t>, 19> kTypes = {{{"BOOL", 1},
                                                                      {"U8", 1},
                                                                      {"I8", 1},
                                                                      {"F8_E5M2", 1},
                                                                      {"F8_E4M3", 1},
                                                                      {"F8_E8M0", 1},
                                                                      {"F8_E4M3FNUZ", 1},
                                                                      {"F8_E5M2FNUZ", 1},
                                                                      {"I16", 2},
                                                                      {"U16", 2},
                                                                      {"F16", 2},
                                                                      {"BF16", 2},
                                                                      {"I32", 4},
                                                                      {"U32", 4},
                                                                      {"F32", 4},
                                                                      {"C64", 8},
                                                                      {"F64", 8},
                                                                      {"I64", 8},
                                                                      {"U64", 8}}};
  char byte = 'a';
  for (const auto& [type, size] : kTypes) builder.tensor(type, type, "2", std::string(2 * size, byte++));
  builder.tensor("f4", "F4", "4", "ff").tensor("f6", "F6_E2M3", "4", "666").tensor("g6", "F6_E3M2", "4", "777");
  builder.tensor("empty", "F32", "0,3", "");
  const SourcePtr original = in_memory(builder.build());
  const auto model = std::make_shared<Model>(read_back(original));
  const auto files = well(safetensors_files(model, {}, 0));
  const Model again = read_back(files.at(0).source);
  EXPECT_THAT(again.warnings, IsEmpty());
  EXPECT_THAT(listing(again), testing::UnorderedElementsAreArray(listing(*model)));
  EXPECT_EQ(again.metadata.find_as<std::string>("format")->c_str(), std::string("np"));
  EXPECT_EQ(*again.metadata.find_as<std::string>("n\u00e9e"), "\"x\"\n");
}

TEST(SafetensorsView, TextsOfMetadataAreMetadata) {
  auto model = std::make_shared<Model>();
  model->tensors.push_back(make_tensor("w", "uint8", {1}));
  model->metadata.append("general.name", "Tiny");
  model->metadata.append("count", 7);
  model->metadata.append("list", List{Value("x")});
  EXPECT_THAT(header_of(*well(safetensors_files(model, {}, 0)).at(0).source),
              testing::StartsWith(R"({"__metadata__":{"general.name":"Tiny","format":"pt"},"w":{)"));
}

TEST(SafetensorsView, TensorsThatTheFormatCannotHoldAreLeftOut) {
  Tensor refused = make_tensor("refused", "float32", {1});
  refused.source = Slice();
  Tensor big = make_tensor("big endian", "float32", {1});
  big.dtype = big_endian(big.dtype);
  const auto model = model_with({make_tensor("q", "q4_0", {32}), make_tensor("__metadata__", "uint8", {1}),
                                 make_tensor("\xFF", "uint8", {1}), make_tensor("deep", "uint8", Shape(70, 1)), refused,
                                 big, make_tensor("kept", "uint8", Shape(64, 1)), make_tensor("c", "complex128", {1})});
  const auto files = well(safetensors_files(model, {}, 0));
  EXPECT_THAT(listing(read_back(files.at(0).source)), ElementsAre(HasSubstr("kept uint8 U8")));
  EXPECT_THAT(files[0].left_out.lines(), ElementsAre("tensor \"q\": safetensors has no dtype for q4_0",
                                                     "tensor \"__metadata__\": safetensors reserves this name",
                                                     "tensor \"\\xff\": the name is not UTF-8",
                                                     "tensor \"deep\": 70 dimensions, readers accept 64",
                                                     "tensor \"refused\": refused when the container was read",
                                                     "tensor \"big endian\": safetensors has no dtype for float32",
                                                     "tensor \"c\": safetensors has no dtype for complex128"));
}

// A scope becomes the beginning of a name.
TEST(SafetensorsView, OfEqualNamesTheFirstIsKept) {
  const auto model = model_with({make_tensor("w", "uint8", {1}), make_tensor("w", "int8", {1}, "g"),
                                 make_tensor("g/w", "uint8", {3}), make_tensor("w", "uint8", {2})});
  const auto files = well(safetensors_files(model, {}, 0));
  EXPECT_THAT(listing(read_back(files.at(0).source)),
              ElementsAre(HasSubstr("g/w int8 I8 [1]"), HasSubstr("w uint8 U8 [1]")));
  EXPECT_THAT(files[0].left_out.lines(), ElementsAre("tensor \"g/w\": another tensor has this name",
                                                     "tensor \"w\": another tensor has this name"));
}

TEST(SafetensorsView, SizesOverTwoToThe53AreLeftOut) {
  const uint64_t most = uint64_t{1} << 53;
  Tensor empty = make_tensor("wide", "uint8", {0});
  empty.shape = {0, most + 1};
  const auto model = model_with({sized("a", "uint8", {most - 1}), sized("b", "uint8", {most + 1}),
                                 sized("c", "uint8", {2}), sized("d", "uint8", {1}), empty});
  const auto files = well(safetensors_files(model, {}, 0));
  EXPECT_THAT(files.at(0).left_out.lines(),
              ElementsAre("tensor \"b\": more than 2^53 bytes", "tensor \"wide\": a shape of more than 2^53 elements",
                          "tensor \"c\": would end beyond 2^53 bytes"));
  const std::string header = well(read_text(*files[0].source, 8, 168));
  EXPECT_THAT(header, HasSubstr(R"("data_offsets":[0,9007199254740991]},"d":{)"));
  EXPECT_THAT(header, HasSubstr(R"("data_offsets":[9007199254740991,9007199254740992]}})"));
}

TEST(SafetensorsView, HeaderOverTheLimitIsAnError) {
  const auto model = model_with({make_tensor(std::string(100, 'x'), "uint8", {1})});
  const uint64_t size = header_of(*well(safetensors_files(model, {}, 0)).at(0).source).size();
  EXPECT_TRUE(safetensors_files(model, {}, 0, {.max_header = size}));
  EXPECT_EQ(error_in(safetensors_files(model, {}, 0, {.max_header = size - 1})),
            fmt::format("a header of {} bytes, {} at most", size, size - 1));
  const auto none = model_with({make_tensor("q", "q4_0", {32})});
  EXPECT_EQ(error_in(safetensors_files(none, {}, 0)),
            "no tensor can be written as safetensors: tensor \"q\": safetensors has no dtype for q4_0");
}

TEST(SafetensorsView, SelectionHasOnlyItsTensors) {
  const auto model =
      model_with({make_tensor("a", "uint8", {1}), make_tensor("b", "uint8", {2}), make_tensor("c", "uint8", {3})});
  const auto files = well(safetensors_files(model, {.tensors = std::vector<size_t>{0, 2}}, 0));
  EXPECT_THAT(listing(read_back(files.at(0).source)), ElementsAre(HasSubstr("a uint8"), HasSubstr("c uint8")));
}

// split_torch_state_dict_into_shards of huggingface_hub: in order; a tensor larger than a shard has one of its own.
TEST(SafetensorsView, ShardsAreThoseOfHuggingfaceHub) {
  const auto model =
      model_with({make_tensor("a", "uint8", {40}), make_tensor("b", "uint8", {40}), make_tensor("big", "uint8", {101}),
                  make_tensor("c", "uint8", {30}), make_tensor("d", "uint8", {100})});
  const auto files = well(safetensors_files(model, {}, 100));
  std::vector<std::string> paths;
  for (const ModelFile& file : files) paths.push_back(file.path);
  EXPECT_THAT(paths, ElementsAre("model.safetensors", "sharded/model-00001-of-00004.safetensors",
                                 "sharded/model-00002-of-00004.safetensors", "sharded/model-00003-of-00004.safetensors",
                                 "sharded/model-00004-of-00004.safetensors", "sharded/model.safetensors.index.json"));
  EXPECT_THAT(listing(read_back(files[1].source)), ElementsAre(HasSubstr("big uint8 U8 [101]")));
  EXPECT_THAT(listing(read_back(files[2].source)), ElementsAre(HasSubstr("a uint8 U8 [40]"), HasSubstr("b uint8")));
  EXPECT_THAT(listing(read_back(files[3].source)), ElementsAre(HasSubstr("c uint8 U8 [30]")));
  EXPECT_THAT(listing(read_back(files[4].source)), ElementsAre(HasSubstr("d uint8 U8 [100]")));
  EXPECT_EQ(text_of(*files[5].source), R"({
  "metadata": {
    "total_size": 311
  },
  "weight_map": {
    "a": "model-00002-of-00004.safetensors",
    "b": "model-00002-of-00004.safetensors",
    "big": "model-00001-of-00004.safetensors",
    "c": "model-00003-of-00004.safetensors",
    "d": "model-00004-of-00004.safetensors"
  }
}
)");
  EXPECT_EQ(well(safetensors_files(model, {}, 311)).size(), 1U);
  EXPECT_EQ(error_in(safetensors_files(model, {}, 100, {.max_shards = 3})), "more than 3 shards of 100 B");
}

// semantics 26.3: the numbers of types that the format lacks.
TEST(SafetensorsView, OtherTypesAreFloat32) {
  Tensor big = make_tensor("big endian", "float32", {3});
  big.dtype = big_endian(big.dtype);
  Tensor packed = make_tensor("packed", "uint8", {2});
  packed.dtype = packed_dtype_named("int4");
  packed.shape = {3};
  const auto model = model_with({make_tensor("q", "q4_k", {256}), make_tensor("h", "float16", {3}), big, packed,
                                 make_tensor("int4", "int4", {2}), make_tensor("none", "q8_1", {32})});
  const auto files = well(safetensors_files(model, {.types = FileTypes::stored_or_float32}, 0));
  EXPECT_THAT(files[0].left_out.lines(), ElementsAre("tensor \"none\": safetensors has no dtype for q8_1"));
  const Model again = read_back(files[0].source);
  ASSERT_EQ(again.tensors.size(), 5U);
  for (const TensorView& tensor : again.tensors) {
    const auto is_it = [&](const TensorView& each) { return each.name == tensor.name; };
    const TensorView original = *std::find_if(model->tensors.begin(), model->tensors.end(), is_it);
    EXPECT_EQ(tensor.stored_dtype, original.name == "h" ? "F16" : "F32");
    EXPECT_EQ(text_of(tensor.source),
              text_of(original.name == "h" ? static_cast<const Source&>(original.source) : *float32_values(original)));
  }
}

// semantics 26.9
TEST(SafetensorsView, HalvesHaveTheNumbersOfEveryType) {
  const auto model = model_with({make_tensor("w", "float32", {2}), make_tensor("q", "q8_0", {32}),
                                 make_tensor("i", "int64", {3}), make_tensor("c", "complex64", {1})});
  for (const auto& [types, half, name] :
       {std::tuple{FileTypes::float16, HalfType::float16, "F16"}, {FileTypes::bfloat16, HalfType::bfloat16, "BF16"}}) {
    const auto files = well(safetensors_files(model, {.types = types}, 0));
    EXPECT_EQ(files.at(0).path, "model.safetensors");
    const Model again = read_back(files[0].source);
    ASSERT_EQ(again.tensors.size(), 4U);
    for (const TensorView& tensor : again.tensors) {
      const auto is_it = [&](const TensorView& each) { return each.name == tensor.name; };
      const TensorView original = *std::find_if(model->tensors.begin(), model->tensors.end(), is_it);
      EXPECT_EQ(tensor.stored_dtype, original.name == "c" ? "C64" : name);
      if (original.name == "c") continue;
      EXPECT_EQ(text_of(tensor.source), text_of(*half_values(original, nullptr, half, {})));
    }
  }
}

// The integers of a quantised tensor are not its numbers.
TEST(SafetensorsView, Float32HasTheNumbersThatIntegersStandFor) {
  auto model = std::make_shared<Model>();
  model->tensors.push_back(make_tensor("w", "int8", {3}));  // 0, 1, 2
  model->per_tensor.edit().affine_numbers.emplace(0, AffineNumbers{0.5, -1});
  const auto files = well(safetensors_files(model, {.types = FileTypes::float32}, 0));
  const Model again = read_back(files[0].source);
  EXPECT_EQ(text_of(again.tensors[0].source), std::string("\0\0\x80\xBF\0\0\0\xBF\0\0\0\0", 12));
}

// Numbers are converted; other tensors keep their type.
TEST(SafetensorsView, Float32HasTheNumbersOfEveryType) {
  const auto model = model_with({make_tensor("w", "float32", {2}), make_tensor("q", "q8_0", {2, 32}),
                                 make_tensor("h", "float16", {3}), make_tensor("c", "complex64", {1})});
  const auto files = well(safetensors_files(model, {.types = FileTypes::float32}, 0));
  EXPECT_EQ(files.at(0).path, "model.safetensors");
  EXPECT_THAT(files[0].left_out.lines(), IsEmpty());
  const Model again = read_back(files[0].source);
  ASSERT_EQ(again.tensors.size(), 4U);
  for (const TensorView& tensor : again.tensors) {
    const auto is_it = [&](const TensorView& each) { return each.name == tensor.name; };
    const TensorView original = *std::find_if(model->tensors.begin(), model->tensors.end(), is_it);
    EXPECT_EQ(tensor.shape, original.shape);
    EXPECT_EQ(tensor.stored_dtype, original.name == "c" ? "C64" : "F32");
    EXPECT_EQ(text_of(tensor.source),
              text_of(original.name == "c" ? static_cast<const Source&>(original.source) : *float32_values(original)));
  }
}

}  // namespace
}  // namespace weightfs::safetensors_view_test
