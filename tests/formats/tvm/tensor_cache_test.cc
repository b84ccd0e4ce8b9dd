// The weights of MLC-LLM and WebLLM.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/format.h"
#include "tests/builders/tensor_cache_builder.h"
#include "tests/support/memory_folder.h"
#include "tests/support/model_text.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::tensor_cache_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Result<Model> read(std::string index, const Files& beside) {
  return read_as("tensor-cache",
                 Container{"tensor-cache.json", in_memory(std::move(index)), std::make_shared<MemoryFolder>(beside)});
}

Model read_well(std::string index, const Files& beside) { return well(read(std::move(index), beside)); }

std::string error_of(std::string index, const Files& beside = {{"0.bin", "12345678"}}) {
  return error_in(read(std::move(index), beside));
}

// An index of one shard of eight bytes with one tensor.
std::string index_of(std::string_view tensor) { return cache_index({cache_shard("0.bin", 8, {std::string(tensor)})}); }

std::vector<std::string> paths_of(const Model& model) {
  std::vector<std::string> paths;
  for (const Part& part : model.parts) paths.push_back(part.path);
  return paths;
}

TEST(TensorCache, MergesTensorsOfAllShards) {
  const std::string index = cache_index({cache_shard("0.bin", 12,
                                                     {cache_tensor("w", "[2]", "float32", "raw", 8, 0),
                                                      cache_tensor("q", "[2, 2]", "uint8", "raw", 4, 8)}),
                                         cache_shard("1.bin", 2, {cache_tensor("s", "[]", "float16", "raw", 2, 0)})},
                                        R"({"ParamSize": 3, "ParamBytes": 14.0})");
  const Model model = read_well(index, {{"0.bin", "wwwwwwwwqqqq"}, {"1.bin", "ss"}, {"2.bin", "?"}});
  EXPECT_EQ(model.format, "tensor-cache");
  EXPECT_THAT(listing(model),
              ElementsAre("w float32 float32 [2] wwwwwwww", "q uint8 uint8 [2x2] qqqq", "s float16 float16 [] ss"));
  EXPECT_THAT(paths_of(model), ElementsAre("tensor-cache.json", "0.bin", "1.bin"));
  EXPECT_EQ(to_json_line(model.metadata), R"({"ParamSize":3,"ParamBytes":14.0,"tensor-cache":{"shards":2}})");
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(model.tensors[2].source.whole(), *model.parts[2].source.peek());
}

// The format is set on every tensor of such an export, and applies to those of float32 only.
TEST(TensorCache, ReadsFloat32StoredAsBfloat16) {
  const std::string index = cache_index({cache_shard("0.bin", 8,
                                                     {cache_tensor("w", "[2]", "float32", "f32-to-bf16", 4, 0),
                                                      cache_tensor("i", "[1]", "int32", "f32-to-bf16", 4, 4)})});
  const Model model = read_well(index, {{"0.bin", "wwwwiiii"}});
  EXPECT_THAT(listing(model), ElementsAre("w bfloat16 float32 (f32-to-bf16) [2] wwww", "i int32 int32 [1] iiii"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(TensorCache, TypesAreFoundByName) {
  for (const auto& [stored, dtype] :
       std::vector<std::pair<std::string, std::string>>{{"float32", "float32"},
                                                        {"float16", "float16"},
                                                        {"bfloat16", "bfloat16"},
                                                        {"int8", "int8"},
                                                        {"uint8", "uint8"},
                                                        {"uint32", "uint32"},
                                                        {"int32", "int32"},
                                                        {"int64", "int64"},
                                                        {"bool", "bool"},
                                                        {"float8_e4m3fn", "float8_e4m3fn"},
                                                        {"float8_e5m2", "float8_e5m2"},
                                                        {"e4m3_float8", "float8_e4m3fn"},
                                                        {"e5m2_float8", "float8_e5m2"}}) {
    const uint64_t size = *size_in_bytes(*dtype_named(dtype), Shape{1});
    const Model model = read_well(index_of(cache_tensor("a", "[1]", stored, "raw", size, 0)), {{"0.bin", "12345678"}});
    EXPECT_EQ(model.tensors.at(0).dtype->name, dtype);
    EXPECT_EQ(model.tensors.at(0).stored_dtype, stored);
    EXPECT_THAT(model.warnings, IsEmpty()) << stored;
  }
}

TEST(TensorCache, UnknownEncodingsAreShownAsBytes) {
  const Files shard = {{"0.bin", "12345678"}};
  for (const auto& [tensor, warning] : std::vector<std::pair<std::string, std::string>>{
           {cache_tensor("a", "[3]", "float32x2", "raw", 8, 0), "dtype \"float32x2\" is unknown; shown as bytes"},
           {cache_tensor("a", "[3]", "q4_0", "raw", 8, 0), "dtype \"q4_0\" is unknown; shown as bytes"},
           {cache_tensor("a", "[8]", "int8", "zipped", 8, 0), "format \"zipped\"; shown as bytes"},
           {cache_tensor("a", "[3]", "float32", "raw", 8, 0),
            "8 bytes, but its shape and dtype float32 need 12; shown as bytes"},
           {cache_tensor("a", "[2]", "float32", "f32-to-bf16", 8, 0),
            "8 bytes, but its shape and dtype float32 (f32-to-bf16) need 4; shown as bytes"},
           {cache_tensor("a", "[4294967296, 4294967296]", "int8", "raw", 8, 0),
            "8 bytes, but its shape and dtype int8 overflow 64 bits or do not fill whole bytes; shown as bytes"}}) {
    const Model model = read_well(index_of(tensor), shard);
    EXPECT_EQ(model.tensors.at(0).dtype, &kUnknownDType);
    EXPECT_EQ(text_of(model.tensors.at(0).source), "12345678");
    EXPECT_THAT(model.warnings, ElementsAre("tensor \"a\": " + warning));
  }
}

TEST(TensorCache, RefusesTensorsOutsideTheirShard) {
  for (const auto& [bytes, offset] : std::vector<std::pair<uint64_t, uint64_t>>{
           {9, 0}, {8, 1}, {1, 8}, {1, INT64_MAX}, {INT64_MAX, INT64_MAX}, {INT64_MAX, 1}}) {
    const Model model = read_well(index_of(cache_tensor("a", fmt::format("[{}]", bytes), "int8", "raw", bytes, offset)),
                                  {{"0.bin", "12345678"}});
    EXPECT_TRUE(model.tensors.at(0).source.refused());
    EXPECT_THAT(
        model.warnings,
        ElementsAre(fmt::format("tensor \"a\": {} bytes at offset {} are not inside the 8 of shard \"0.bin\": refused",
                                bytes, offset)));
  }
}

const std::vector<std::string> kTwo = {cache_tensor("a", "[4]", "int8", "raw", 4, 0),
                                       cache_tensor("b", "[4]", "int8", "raw", 4, 4)};

// A download that was cut.
TEST(TensorCache, RefusesTensorsBeyondShortShard) {
  const Model model = read_well(cache_index({cache_shard("0.bin", 8, kTwo)}), {{"0.bin", "1234567"}});
  EXPECT_THAT(listing(model), ElementsAre("a int8 int8 [4] 1234", "b int8 int8 [4] refused"));
  EXPECT_THAT(model.warnings,
              ElementsAre("shard \"0.bin\": 7 bytes, 8 expected",
                          "tensor \"b\": 4 bytes at offset 4 are not inside the 7 of shard \"0.bin\": refused"));
}

// What is behind the size that the index has belongs to no tensor.
TEST(TensorCache, AcceptsLongerShardUpToDeclaredSize) {
  const Model model = read_well(cache_index({cache_shard("0.bin", 7, kTwo)}), {{"0.bin", "12345678"}});
  EXPECT_THAT(listing(model), ElementsAre("a int8 int8 [4] 1234", "b int8 int8 [4] refused"));
  EXPECT_THAT(model.warnings, ElementsAre("shard \"0.bin\": 8 bytes, 7 expected", HasSubstr("inside the 7 of shard")));
}

TEST(TensorCache, TensorsOfMissingShardAreRefused) {
  const std::string index = cache_index(
      {cache_shard("0.bin", 8, kTwo), cache_shard("1.bin", 1, {cache_tensor("c", "[1]", "int8", "raw", 1, 0)})});
  const Model model = read_well(index, {{"1.bin", "c"}});
  EXPECT_THAT(listing(model), ElementsAre("a int8 int8 [4] refused", "b int8 int8 [4] refused", "c int8 int8 [1] c"));
  EXPECT_THAT(model.warnings, ElementsAre("1 of 2 shards is missing: 0.bin; 2 tensors are refused"));
  EXPECT_THAT(paths_of(model), ElementsAre("tensor-cache.json", "1.bin"));
}

TEST(TensorCache, RefusesIndexWithoutAnyShard) {
  const auto model = read(cache_index({cache_shard("0.bin", 8, kTwo), cache_shard("1.bin", 1, {})}), {});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::not_found);
  EXPECT_EQ(model.error().message, "tensor-cache: none of 2 shards can be read, the first: \"0.bin\": no such file");
  EXPECT_THAT(read_well(cache_index({}), {}).tensors, IsEmpty());
}

TEST(TensorCache, OpensOnlyFilesBesideTheIndex) {
  const std::string other = cache_shard("ok.bin", 1, {});
  for (const std::string name :
       {"", ".", "..", "../0.bin", "/etc/passwd", "a/0.bin", "tensor-cache.json", "0\\u0000"}) {
    const Files files = {{"../0.bin", "12345678"}, {"/etc/passwd", "12345678"},       {"a/0.bin", "12345678"},
                         {"", "12345678"},         {"tensor-cache.json", "12345678"}, {"ok.bin", "1"}};
    const Model model = read_well(cache_index({other, cache_shard(name, 8, kTwo)}), files);
    EXPECT_THAT(listing(model), ElementsAre("a int8 int8 [4] refused", "b int8 int8 [4] refused")) << name;
    EXPECT_THAT(model.warnings,
                ElementsAre(HasSubstr("not the name of another file beside the index; 2 tensors are refused")));
    EXPECT_THAT(paths_of(model), ElementsAre("tensor-cache.json", "ok.bin"));
  }
}

TEST(TensorCache, ShardOfSeveralRecordsIsOpenedOnce) {
  const std::string index = cache_index({cache_shard("0.bin", 8, {kTwo[0]}), cache_shard("0.bin", 8, {kTwo[1]})});
  const Model model = read_well(index, {{"0.bin", "aaaabbbb"}});
  EXPECT_THAT(listing(model), ElementsAre("a int8 int8 [4] aaaa", "b int8 int8 [4] bbbb"));
  EXPECT_THAT(paths_of(model), ElementsAre("tensor-cache.json", "0.bin"));
}

TEST(TensorCache, PartsHaveChecksumsOfShards) {
  const std::string sum = "15e988bdadc3b5932f2ed713e0eec73e";
  const auto model_with = [&](std::string_view md5) {
    return read_well(cache_index({cache_shard("0.bin", 8, kTwo, md5)}), {{"0.bin", "12345678"}});
  };
  const Model model = model_with('"' + sum + '"');
  ASSERT_TRUE(model.parts.at(1).checksums.get<Md5>());
  EXPECT_EQ(model.parts[1].checksums.get<Md5>()->hex(), sum);
  EXPECT_THAT(model.warnings, IsEmpty());
  for (const char* bad : {"\"\"", "7", "\"15e988\"", "null"}) {
    const Model without = model_with(bad);
    EXPECT_TRUE(without.parts.at(1).checksums.empty());
    EXPECT_THAT(without.warnings, ElementsAre("shard \"0.bin\": its md5sum is not an MD5"));
  }
}

TEST(TensorCache, WarnsAboutDuplicateNames) {
  const Model model =
      read_well(cache_index({cache_shard("0.bin", 8, {kTwo[0], cache_tensor("a", "[1]", "int8", "raw", 1, 7)})}),
                {{"0.bin", "12345678"}});
  EXPECT_THAT(listing(model), ElementsAre("a int8 int8 [4] 1234", "a int8 int8 [1] 8"));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"a\" appears twice; loaders use the last one"));
}

TEST(TensorCache, CommonFieldsComeFromConfigJson) {
  const std::string config = R"({"model_type": "llama", "quantization": "q4f16_1", "context_window_size": 4096,
                                 "model_config": {"model_type": "no"}, "temperature": 0.7})";
  const std::string index = cache_index({cache_shard("0.bin", 8, kTwo)});
  EXPECT_EQ(to_json_line(read_well(index, {{"0.bin", "12345678"}, {"mlc-chat-config.json", config}}).common),
            R"({"architecture":"llama","quantization":"q4f16_1","context_window_size":4096})");
  for (const char* other : {"", "[]", R"({"model_type": [], "quantization": null})"})
    EXPECT_TRUE(read_well(index, {{"0.bin", "12345678"}, {"mlc-chat-config.json", other}}).common.empty());
}

TEST(TensorCache, KeepsOtherKeysOfIndex) {
  const Files shard = {{"0.bin", "12345678"}};
  const std::string record = cache_shard("0.bin", 8, {});
  EXPECT_EQ(
      to_json_line(
          read_well(fmt::format("{}{}]}}", R"({"a": 1, "metadata": {"b": [2], "a": 3}, "records": [)", record), shard)
              .metadata),
      R"({"a":3,"b":[2],"tensor-cache":{"shards":1}})");
  EXPECT_EQ(
      to_json_line(read_well(fmt::format("{}{}]}}", R"({"metadata": "text", "records": [)", record), shard).metadata),
      R"({"metadata":"text","tensor-cache":{"shards":1}})");
}

// Limits, and files that are not an index.

std::string with_metadata(size_t values) {
  std::string list = "0";
  for (size_t i = 1; i < values; ++i) list += ",0";
  return cache_index({cache_shard("0.bin", 8, kTwo)}, "{\"list\":[" + list + "]}");
}

TEST(TensorCache, TooLongMetadataIsOmitted) {
  const Files shard = {{"0.bin", "12345678"}};
  EXPECT_THAT(read_well(with_metadata(65'535), shard).warnings, IsEmpty());
  const Model model = read_well(with_metadata(65'536), shard);
  EXPECT_EQ(to_json_line(model.metadata), R"({"tensor-cache":{"shards":1}})");
  EXPECT_EQ(model.tensors.size(), 2U);
  EXPECT_THAT(model.warnings, ElementsAre("the index has metadata of more than 65536 values: omitted"));
}

TEST(TensorCache, BoundsTheIndex) {
  EXPECT_EQ(error_of(with_metadata(1'000'000)),
            "tensor-cache: too many values: the memory limit of 80.1 MiB for a container of 1.9 MiB is exceeded");
  EXPECT_EQ(error_of(std::string((32 << 20) + 1, ' ')), "tensor-cache: an index of 33554433 bytes, at most 33554432");
}

TEST(TensorCache, BoundsDimensionsAndNames) {
  std::string shape = "1";
  for (int i = 1; i < 1024; ++i) shape += ",1";
  EXPECT_EQ(error_of(index_of(cache_tensor("a", "[" + shape + "]", "int8", "raw", 1, 0))), "no error");
  EXPECT_EQ(error_of(index_of(cache_tensor("a", "[" + shape + ",1]", "int8", "raw", 1, 0))),
            "tensor-cache: shard record 0: tensor record 0: 1025 dimensions, at most 1024");
  EXPECT_EQ(error_of(index_of(cache_tensor(std::string(65'535, 'n'), "[1]", "int8", "raw", 1, 0))), "no error");
  EXPECT_EQ(error_of(index_of(cache_tensor(std::string(65'536, 'n'), "[1]", "int8", "raw", 1, 0))),
            "tensor-cache: shard record 0: tensor record 0: a name of 65536 bytes, more than 65535");
}

TEST(TensorCache, BoundsTheShards) {
  std::vector<std::string> shards = {cache_shard("0.bin", 8, {})};
  for (int i = 1; i < 10'000; ++i) shards.push_back(cache_shard(std::to_string(i), 0, {}));
  EXPECT_EQ(error_of(cache_index(shards)), "no error");
  shards.push_back(cache_shard("one more", 0, {}));
  EXPECT_EQ(error_of(cache_index(shards)), "tensor-cache: shard record 10000: more than 10000 shards");
}

TEST(TensorCache, RefusesIncompleteRecords) {
  EXPECT_EQ(error_of("[]"), "tensor-cache: JSON, but not an object");
  EXPECT_EQ(error_of("{}"), "tensor-cache: a list expected at \"records\"");
  EXPECT_EQ(error_of(R"({"records": {}})"), "tensor-cache: a list expected at \"records\"");
  EXPECT_EQ(error_of(R"({"records": [7]})"), "tensor-cache: shard record 0: an object expected");
  EXPECT_EQ(error_of(R"({"records": [{"format": "zip"}]})"),
            "tensor-cache: shard record 0: format \"zip\", \"raw-shard\" expected");
  EXPECT_EQ(error_of(R"({"records": [{"format": "raw-shard", "dataPath": "0.bin"}]})"),
            "tensor-cache: shard record 0: a size expected at \"nbytes\"");
  EXPECT_EQ(error_of(index_of("7")), "tensor-cache: shard record 0: tensor record 0: an object expected");
  const std::string good = cache_tensor("a", "[1]", "int8", "raw", 1, 0);
  for (const char* key : {"name", "shape", "dtype", "format", "nbytes", "byteOffset"}) {
    std::string bad = good;
    bad.replace(bad.find(fmt::format("\"{}\"", key)) + 1, 1, "_");
    EXPECT_THAT(error_of(index_of(bad)), testing::EndsWith(fmt::format("expected at \"{}\"", key))) << key;
  }
  for (const char* shape : {"[-1]", "[1.0]", "[\"1\"]", "[null]", "[9223372036854775808]"})
    EXPECT_EQ(error_of(index_of(cache_tensor("a", shape, "int8", "raw", 1, 0))),
              "tensor-cache: shard record 0: tensor record 0: a size below 2^63 expected")
        << shape;
}

TEST(TensorCache, NeedsAFolder) {
  const auto model = read_as("tensor-cache", Container{"tensor-cache.json", in_memory(cache_index({})), nullptr});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message, "tensor-cache: no other files in its directory; its shards are needed");
}

TEST(TensorCache, ReadsOrRefusesEveryTruncationAndFlippedByte) {
  const std::string whole = cache_index({cache_shard("0.bin", 8, kTwo)}, R"({"ParamSize": 2})");
  const Files shard = {{"0.bin", "12345678"}};
  for (size_t size = 0; size < whole.size() - 1; ++size)
    EXPECT_THAT(error_of(whole.substr(0, size)), HasSubstr("tensor-cache: ")) << size;
  for (size_t at = 0; at < whole.size(); ++at)
    for (const int flip : {0x01, 0x10, 0x80}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      const auto model = read(bytes, shard);
      if (!model) continue;
      for (const std::string& line : listing(*model)) EXPECT_THAT(line, testing::Not(HasSubstr("unreadable")));
    }
}

TEST(TensorCache, IsDetectedByNameAndKeys) {
  const std::string index = cache_index({cache_shard("0.bin", 8, kTwo)});
  for (const char* name :
       {"tensor-cache.json", "ndarray-cache.json", "ndarray-cache-b16.json", "tensor-cache-b16.json"})
    EXPECT_EQ(matches_tensor_cache(probe_of(index, name)), Match::yes) << name;
  EXPECT_EQ(matches_tensor_cache(probe_of(index, "other.json")), Match::maybe);
  EXPECT_EQ(matches_tensor_cache(probe_of(R"({"records": []})", "other.json")), Match::no);
  EXPECT_EQ(matches_tensor_cache(probe_of("{}", "tensor-cache.json")), Match::no);
  EXPECT_EQ(matches_tensor_cache(probe_of("[\"records\"]", "tensor-cache.json")), Match::no);
  EXPECT_EQ(matches_tensor_cache(probe_of("", "tensor-cache.json")), Match::no);
}

}  // namespace
}  // namespace weightfs::tensor_cache_test
