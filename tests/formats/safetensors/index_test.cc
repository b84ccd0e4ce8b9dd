#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/completeness.h"
#include "formats/format.h"
#include "tests/builders/pickle_builder.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/support/memory_folder.h"
#include "tests/support/probe.h"
#include "tests/support/reading.h"

namespace weightfs::index_test {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kIndexName = "model.safetensors.index.json";

Result<Model> read(std::string index, const Files& shards) {
  const auto folder = std::make_shared<MemoryFolder>(shards);
  return read_as("safetensors-index", Container{kIndexName, in_memory(std::move(index)), folder});
}

Model read_well(std::string index, const Files& shards) { return well(read(std::move(index), shards)); }

std::string error_of(std::string index, const Files& shards = {}) { return error_in(read(std::move(index), shards)); }

// A shard with a tensor of one byte, its name, for each of `names`.
std::string shard(const std::string& names) {
  SafetensorsBuilder b;
  for (const char name : names) b.tensor(std::string(1, name), "U8", "", std::string(1, name));
  return b.build();
}

// One line per tensor: scope, name and bytes.
std::vector<std::string> listing(const Model& model) {
  std::vector<std::string> lines;
  for (const TensorView& t : model.tensors)
    lines.push_back(
        fmt::format("{}:{} {}", t.scope, t.name, read_text(t.source, 0, t.nbytes()).value_or("unreadable")));
  return lines;
}

// The files of a server. It records the names that were opened and the ranges that were read.
class ServedFolder final : public Folder {
 public:
  ServedFolder(Files files, bool lists_files) : files_(std::move(files)), lists_files_(lists_files) {}
  Result<std::vector<std::string>> names() const override { return MemoryFolder(files_).names(); }
  Result<std::vector<Part>> parts() const override { return std::vector<Part>{}; }
  Result<SourcePtr> open(std::string_view name) const override {
    opened.insert(std::string(name));
    const auto file = files_.find(name);
    if (file == files_.end()) return failure(Code::not_found, "no such file");
    return lazy(file->second.size(), Later<SourcePtr>([this, file]() -> Result<SourcePtr> {
                  read.insert(file->first);
                  return in_memory(file->second);
                }));
  }
  bool lists_files() const override { return lists_files_; }
  bool needs_every_file() const override { return true; }

  mutable std::set<std::string> opened, read;

 private:
  Files files_;
  bool lists_files_;
};

Result<Model> read_needed(std::string index, const std::shared_ptr<ServedFolder>& folder,
                          std::vector<std::string> tensors) {
  Container container{kIndexName, in_memory(std::move(index)), folder};
  container.needed_tensors = std::make_shared<const std::vector<std::string>>(std::move(tensors));
  return read_as("safetensors-index", container);
}

std::vector<std::string> paths_of_parts(const Model& model) {
  std::vector<std::string> paths;
  for (const Part& part : model.parts) paths.push_back(part.path);
  return paths;
}

constexpr const char* kTwoShards = R"({"weight_map": {"a": "1", "b": "2", "c": "2"}})";

TEST(SafetensorsIndex, NeededTensorsAreReadFromTheirShardsOnly) {
  for (const bool lists_files : {true, false}) {
    const auto folder = std::make_shared<ServedFolder>(Files{{"1", shard("a")}, {"2", shard("bc")}}, lists_files);
    const Model model = well(read_needed(kTwoShards, folder, {"c"}));
    EXPECT_THAT(listing(model), ElementsAre(":b b", ":c c"));
    EXPECT_THAT(folder->read, ElementsAre("2"));
    EXPECT_EQ(folder->opened.contains("1"), lists_files);  // else that is a request
    EXPECT_EQ(to_sentence(completeness_of(model)), "");
  }
}

TEST(SafetensorsIndex, ListOfFilesReadsNoShardAndMissesNone) {
  const auto folder = std::make_shared<ServedFolder>(Files{{"1", shard("a")}, {"2", "damaged"}}, true);
  const Model model = well(read_needed(kTwoShards, folder, {}));
  EXPECT_THAT(paths_of_parts(model), ElementsAre(kIndexName, "1", "2"));
  EXPECT_THAT(folder->read, IsEmpty());
  const auto missing = read_needed(kTwoShards, std::make_shared<ServedFolder>(Files{{"1", shard("a")}}, true), {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
}

// What a reader of all shards finds, also if the index is wrong.
TEST(SafetensorsIndex, NeededTensorThatIsNotInItsShardIsLookedForInAll) {
  const Files files = {{"1", shard("b")}, {"2", shard("ac")}};
  const Model whole = read_well(kTwoShards, files);
  for (const std::string tensor : {"a", "none"}) {
    const auto folder = std::make_shared<ServedFolder>(files, true);
    const Model model = well(read_needed(kTwoShards, folder, {tensor}));
    EXPECT_EQ(listing(model), listing(whole));
    EXPECT_EQ(model.warnings, whole.warnings);
    EXPECT_THAT(folder->read, ElementsAre("1", "2"));
  }
}

// semantics 3.3: the path of a/b is a%2Fb, because a is a file.
TEST(SafetensorsIndex, NeededTensorBelowTheNameOfAnotherOneNeedsAllShards) {
  const std::string below = SafetensorsBuilder().tensor("a/b", "U8", "", "x").build();
  const auto folder = std::make_shared<ServedFolder>(Files{{"1", shard("a")}, {"2", below}}, true);
  const Model model = well(read_needed(R"({"weight_map": {"a": "1", "a/b": "2"}})", folder, {"a/b"}));
  EXPECT_THAT(listing(model), ElementsAre(":a a", ":a/b x"));
}

// A file whose reads wait for its verification.
class VerifiedLater final : public Source {
 public:
  VerifiedLater(std::string bytes, std::string early) : bytes_(in_memory(std::move(bytes))), early_(std::move(early)) {}
  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    ++reads;
    return bytes_->read(offset, out);
  }
  SourcePtr unverified() const override { return in_memory(early_); }

  mutable size_t reads = 0;

 private:
  SourcePtr bytes_;
  std::string early_;
};

class FolderOfOne final : public Folder {
 public:
  explicit FolderOfOne(SourcePtr file) : file_(std::move(file)) {}
  Result<std::vector<std::string>> names() const override { return std::vector<std::string>{"1"}; }
  Result<SourcePtr> open(std::string_view) const override { return file_; }
  Result<std::vector<Part>> parts() const override { return std::vector<Part>{}; }

 private:
  SourcePtr file_;
};

Result<Model> read_one(const SourcePtr& file) {
  return read_as("safetensors-index", Container{kIndexName, in_memory(R"({"weight_map": {"a": "1"}})"),
                                                std::make_shared<FolderOfOne>(file)});
}

// semantics 12.3
TEST(SafetensorsIndex, HeaderOfAShardIsReadBeforeItsVerification) {
  std::string early = shard("a");
  early.back() = 'x';
  const auto file = std::make_shared<VerifiedLater>(shard("a"), early);
  const Model model = well(read_one(file));
  EXPECT_EQ(file->reads, 0U);
  EXPECT_THAT(listing(model), ElementsAre(":a a"));
  EXPECT_GT(file->reads, 0U);
}

TEST(SafetensorsIndex, HeaderThatCannotBeReadIsThatOfTheVerifiedBytes) {
  std::string early = shard("a");
  early[8] = '?';
  EXPECT_THAT(listing(well(read_one(std::make_shared<VerifiedLater>(shard("a"), early)))), ElementsAre(":a a"));
}

TEST(SafetensorsIndex, ShardsThatItLacksMakeTheModelIncomplete) {
  const std::string a = "model-00001-of-00002.safetensors", b = "model-00002-of-00002.safetensors";
  const std::string index = fmt::format(R"({{"weight_map": {{"a": "{}"}}}})", a);
  const auto sentence = [](const std::string& text, const Files& shards) {
    return to_sentence(completeness_of(read_well(text, shards)));
  };
  const std::string lacks =
      "1 file cannot be read: shard \"" + b + "\": not in the weight_map; its tensors are missing";
  EXPECT_EQ(sentence(index, {{a, shard("a")}, {b, shard("b")}}), lacks);
  EXPECT_EQ(sentence(R"({"weight_map": {}})", {{b, shard("b")}}), lacks);
  // The model may be meant to be smaller; other models are beside it.
  EXPECT_EQ(sentence(index, {{a, shard("a")}}), "");
  EXPECT_EQ(sentence(index, {{a, shard("a")}, {"model-00003-of-00003.safetensors", ""}, {"x" + b, ""}}), "");
  EXPECT_EQ(sentence(R"({"weight_map": {}})", {{"x" + b, ""}}), "");
}

// The index is that of another build: -of-00013 is listed, -of-00002 is there.
TEST(SafetensorsIndex, StaleIndexDoesNotHideTheShardsThatExist) {
  const std::string a = "model-00001-of-00002.safetensors", b = "model-00002-of-00002.safetensors";
  const std::string index = R"({"metadata": {"total_size": 9}, "weight_map": {"x": "model-00001-of-00013.safetensors",)"
                            R"("y": "model-00013-of-00013.safetensors"}})";
  const Model model = read_well(index, {{a, shard("ab")}, {b, shard("bc")}, {"other.safetensors", shard("o")}});
  EXPECT_THAT(listing(model), ElementsAre(":a a", ":b b", b + ":b b", ":c c"));
  EXPECT_THAT(model.warnings,
              ElementsAre("the index is stale: it names other files, \"model-00001-of-00013.safetensors\" and 1 more, "
                          "and none of them exists; reading 2 other shards instead"));
  EXPECT_EQ(to_sentence(completeness_of(model)), "");
}

TEST(SafetensorsIndex, StaleIndexStandsForTheOnlyOtherWeights) {
  const std::string index = R"({"weight_map": {"a": "weights.00.safetensors", "b": "weights.01.safetensors"}})";
  const auto tensors = [&](const Files& files) { return listing(read_well(index, files)); };
  EXPECT_THAT(tensors({{"x-00001-of-00002.safetensors", shard("a")}, {"x-00002-of-00002.safetensors", shard("b")}}),
              ElementsAre(":a a", ":b b"));
  EXPECT_THAT(tensors({{"x.safetensors", shard("abc")}, {"adapter_model.safetensors", shard("ab")}}),
              ElementsAre(":a a", ":b b", ":c c"));
  EXPECT_THAT(tensors({{"x.safetensors", shard("d")}, {"model.safetensors", shard("ab")}}),
              ElementsAre(":a a", ":b b"));
  EXPECT_THAT(error_of(index, {{"x.safetensors", shard("ab")}, {"y.safetensors", shard("ab")}, {"z.bin", ""}}),
              HasSubstr("none of 2 shards can be read"));
}

TEST(SafetensorsIndex, OtherWeightsWithoutTheTensorsOfTheIndexAreNotItsModel) {
  const std::string index = R"({"weight_map": {"a": "model-00001-of-00002.safetensors",)"
                            R"("b": "model-00002-of-00002.safetensors"}})";
  const auto is_missing = HasSubstr("none of 2 shards can be read, the first: \"model-00001-of-00002.safetensors\"");
  EXPECT_THAT(error_of(index, {{"vae.safetensors", shard("x")}}), is_missing);
  EXPECT_THAT(error_of(index, {{"vae.safetensors", shard("a")}}), is_missing);
  EXPECT_THAT(error_of(index, {{"model.safetensors", shard("b")}}), is_missing);
  EXPECT_THAT(error_of(index, {{"vae.safetensors", "no model"}}), is_missing);
  EXPECT_THAT(error_of(index, {{"x-00001-of-00002.safetensors", shard("a")}}), is_missing);
  EXPECT_THAT(
      error_of(index, {{"x-00001-of-00002.safetensors", shard("a")}, {"x-00002-of-00002.safetensors", shard("c")}}),
      is_missing);
}

TEST(SafetensorsIndex, IncompleteShardsBesideAStaleIndexAreIncomplete) {
  const std::string index = R"({"weight_map": {"x": "model-00001-of-00013.safetensors"}})";
  const Model model = read_well(index, {{"model-00001-of-00003.safetensors", shard("a")},
                                        {"model-00003-of-00003.safetensors", std::string(600, '\0')}});
  EXPECT_THAT(listing(model), ElementsAre(":a a"));
  EXPECT_EQ(to_sentence(completeness_of(model)),
            "2 files cannot be read: shard \"model-00003-of-00003.safetensors\": only zero bytes: a download that was "
            "interrupted or preallocated; its tensors are missing; 1 of 3 shards is missing: "
            "model-00002-of-00003.safetensors");
}

TEST(SafetensorsIndex, MergesShardsIntoOneModel) {
  const std::string index = R"({"metadata": {"total_size": 3}, "weight_map": {"c": "2", "a": "1", "b": "1"}})";
  const std::string one =
      SafetensorsBuilder().metadata(R"({"format":"pt"})").tensor("a", "U8", "", "a").tensor("b", "U8", "", "b").build();
  const Model model = read_well(index, {{"1", one}, {"2", shard("c")}, {"unrelated", "?"}});
  EXPECT_EQ(model.format, "safetensors");
  EXPECT_EQ(model.version, "");
  EXPECT_THAT(listing(model), ElementsAre(":a a", ":b b", ":c c"));
  EXPECT_EQ(to_json(model.common), "{\n  \"framework\": \"pt\"\n}\n");
  EXPECT_EQ(to_json(model.metadata), R"({
  "format": "pt",
  "index": {
    "metadata": {
      "total_size": 3
    },
    "shards": {
      "1": {
        "format": "pt",
        "safetensors": {
          "header_length": 134
        }
      },
      "2": {
        "safetensors": {
          "header_length": 52
        }
      }
    }
  }
}
)");
  EXPECT_THAT(model.warnings, IsEmpty());
  std::vector<std::string> parts;
  for (const Part& part : model.parts) parts.push_back(part.path);
  EXPECT_THAT(parts, ElementsAre(kIndexName, "1", "2"));
}

TEST(SafetensorsIndex, ShardsMayBeCheckpointsOfPytorch) {
  PytorchBuilder one, two;
  one.tensor("a", "Byte", 1, {1}, "a");
  two.tensor("b", "Byte", 1, {1}, "b").value("x", PickleBuilder().call("os", "system", {}));
  const Model model =
      read_well(R"({"weight_map": {"a": "1.bin", "b": "2.bin"}})", {{"1.bin", one.zip()}, {"2.bin", two.legacy({1})}});
  EXPECT_EQ(model.format, "pytorch");
  EXPECT_THAT(listing(model), ElementsAre(":a a", ":b b"));
  EXPECT_EQ(model.parts.size(), 3U);
  EXPECT_EQ(to_json_line(model.common),
            R"({"dangerous_globals":"os.system",)"
            R"("code":[{"what":"os.system","where":"2.bin","runs":"when the file is unpickled"}]})");
}

TEST(SafetensorsIndex, HasDangerousFunctionsOfAllShards) {
  const auto shard_calling = [](std::string_view name, const std::vector<const char*>& functions) {
    PytorchBuilder b;
    b.tensor(name, "Byte", 1, {1}, "x");
    for (const char* function : functions) b.value(function, PickleBuilder().call("os", function, {}));
    return b.zip();
  };
  const Model model = read_well(R"({"weight_map": {"a": "1.bin", "b": "2.bin", "c": "3.bin"}})",
                                {{"1.bin", shard_calling("a", {"system"})},
                                 {"2.bin", shard_calling("b", {})},
                                 {"3.bin", shard_calling("c", {"popen", "system"})}});
  EXPECT_EQ(json_at(model.common, "dangerous_globals"), R"("os.system, os.popen")");
}

TEST(SafetensorsIndex, NeedsNoMetadata) {
  const Model model = read_well(R"( {"weight_map":{"a":"1"}})", {{"1", shard("a")}});
  EXPECT_THAT(listing(model), ElementsAre(":a a"));
  EXPECT_THAT(read_well(R"({"weight_map":{}})", {}).tensors, IsEmpty());
}

TEST(SafetensorsIndex, SkipsUnknownKeys) {
  const std::string index = R"({"x":[{"weight_map":{"b":[]}},["metadata"]],"weight_map":{"a":"1"},"y":{"a":{"b":1}}})";
  const Model model = read_well(index, {{"1", shard("a")}});
  EXPECT_THAT(listing(model), ElementsAre(":a a"));
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(SafetensorsIndex, KeepsLastOfDuplicateKeys) {
  const std::string index = R"({"metadata":1,"weight_map":{"x":"y"},"weight_map":{"a":"2","a":"1"},"metadata":[2]})";
  const Model model = read_well(index, {{"1", shard("a")}});
  EXPECT_THAT(listing(model), ElementsAre(":a a"));
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_EQ(to_json_line(*std::get<Map>(*model.metadata.find("index")).find("metadata")), "[2]");
}

TEST(SafetensorsIndex, MetadataKeyOfOwnFieldsIsKept) {
  const std::string one = SafetensorsBuilder().metadata(R"({"index":"mine"})").tensor("a", "U8", "", "a").build();
  const Model model = read_well(R"({"weight_map":{"a":"1"}})", {{"1", one}});
  const Map& facts = std::get<Map>(*model.metadata.find("index"));
  EXPECT_EQ(std::get<std::string>(*facts.find("value")), "mine");
  EXPECT_NE(facts.find("shards"), nullptr);
}

TEST(SafetensorsIndex, MissingShardIsSkippedWithWarning) {
  const Model model = read_well(R"({"weight_map":{"a":"1","b":"2","c":"2"}})", {{"1", shard("a")}});
  EXPECT_THAT(listing(model), ElementsAre(":a a"));
  EXPECT_THAT(model.warnings, ElementsAre("1 of 2 shards is missing: 2; 2 tensors are missing"));
}

TEST(SafetensorsIndex, CorruptShardIsSkippedWithWarning) {
  const Model model = read_well(R"({"weight_map":{"a":"1","b":"2"}})", {{"1", "broken"}, {"2", shard("b")}});
  EXPECT_THAT(listing(model), ElementsAre(":b b"));
  EXPECT_THAT(
      model.warnings,
      ElementsAre("shard \"1\": safetensors: 6 bytes, 8 needed for the length of the header; 1 tensor is missing"));
}

TEST(SafetensorsIndex, ModelWithoutShardsIsRefused) {
  const auto model = read(R"({"weight_map":{"a":"1","b":"2"}})", {});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::not_found);
  EXPECT_EQ(model.error().message, "safetensors index: none of 2 shards can be read, the first: \"1\": no such file");
}

TEST(SafetensorsIndex, IncludesWarningsOfShards) {
  const Model model =
      read_well(R"({"weight_map":{"a":"1","b":"1"}})",
                {{"1", SafetensorsBuilder().tensor("a", "F128", "", "a").tensor("b", "F128", "", "b").build()}});
  EXPECT_THAT(model.warnings, ElementsAre("shard \"1\": tensor \"a\": dtype \"F128\" is unknown; shown as bytes",
                                          "shard \"1\": tensor \"b\": dtype \"F128\" is unknown; shown as bytes"));
  for (const TensorView& tensor : model.tensors) EXPECT_EQ(tensor.stored_dtype, "F128");
}

TEST(SafetensorsIndex, UnlistedTensorsAreShown) {
  const Model model = read_well(R"({"weight_map":{"a":"1"}})", {{"1", shard("ab")}});
  EXPECT_THAT(listing(model), ElementsAre(":a a", ":b b"));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"b\" in \"1\" is not in the weight_map"));
}

TEST(SafetensorsIndex, UnlistedTensorsOfTwoShardsHaveScopes) {
  const Model model = read_well(R"({"weight_map":{"a":"1","c":"2"}})", {{"1", shard("ab")}, {"2", shard("bc")}});
  EXPECT_THAT(listing(model), ElementsAre(":a a", ":b b", "2:b b", ":c c"));
}

TEST(SafetensorsIndex, MisplacedTensorsAreShown) {
  const Model model = read_well(R"({"weight_map":{"a":"1","b":"1","c":"2"}})", {{"1", shard("a")}, {"2", shard("bc")}});
  EXPECT_THAT(listing(model), ElementsAre(":a a", ":b b", ":c c"));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"b\" is in \"2\"; weight_map lists \"1\""));
}

TEST(SafetensorsIndex, DuplicateTensorsOfTwoShardsHaveScopes) {
  const Model model = read_well(R"({"weight_map":{"a":"1","b":"2"}})", {{"1", shard("ab")}, {"2", shard("ab")}});
  EXPECT_THAT(listing(model), ElementsAre(":a a", "1:b b", "2:a a", ":b b"));
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"a\" is in \"2\" and in \"1\"; weight_map lists \"1\"",
                                          "tensor \"b\" is in \"1\" and in \"2\"; weight_map lists \"2\""));
}

TEST(SafetensorsIndex, ReportsTensorsMissingFromShards) {
  const Model model = read_well(R"({"weight_map":{"a":"1","b":"1","c":"2"}})", {{"1", shard("a")}, {"2", shard("c")}});
  EXPECT_THAT(model.warnings, ElementsAre("tensor \"b\" is not in \"1\""));
}

TEST(SafetensorsIndex, WarningsAreBounded) {
  std::string index = R"({"weight_map":{"a":"1")";
  for (int i = 0; i < 1000; ++i) index += fmt::format(",\"t{}\":\"1\"", i);
  const Model model = read_well(index + "}}", {{"1", shard("a")}});
  ASSERT_EQ(model.warnings.size(), 101u);
  EXPECT_EQ(model.warnings.back(), "... and 900 more");
}

// Attacks.

TEST(SafetensorsIndex, OpensOnlyFilesOfItsFolder) {
  for (const char* name : {"", ".", "..", "../1", "/1", "sub/1", R"(1\u0000)"}) {
    const std::string index = fmt::format("{}{}{}", R"({"weight_map":{"a":")", name, R"(","b":"2"}})");
    const Model model = read_well(index, {{"1", shard("a")}, {"2", shard("b")}});
    EXPECT_THAT(listing(model), ElementsAre(":b b")) << name;
    EXPECT_THAT(model.warnings, ElementsAre(HasSubstr("1 of 2 shards is missing: "))) << name;
  }
}

TEST(SafetensorsIndex, IndexIsNotReadAsShard) {
  const std::string index = R"({"weight_map":{"a":"model.safetensors.index.json"}})";
  EXPECT_THAT(error_of(index, {{kIndexName, index}}), HasSubstr("none of 1 shards can be read"));
}

TEST(SafetensorsIndex, BoundsTheNumberOfShards) {
  std::string index = R"({"weight_map":{"a":"1")";
  for (int i = 0; i <= 10'000; ++i) index += fmt::format(",\"t{}\":\"s{}\"", i, i);
  EXPECT_EQ(error_of(index + "}}"), "safetensors index: weight_map: more than 10000 shards");
}

TEST(SafetensorsIndex, BoundsTheNumberOfTensors) {
  std::string index = R"({"weight_map":{"a":"1")";
  for (int i = 0; i < 1'000'000; ++i) index += R"(,"":"")";
  EXPECT_THAT(error_of(index + "}}"), HasSubstr("weight_map: too many values: the memory limit of 118.3 MiB"));
}

TEST(SafetensorsIndex, MetadataWithTooManyValuesIsOmitted) {
  for (const char* order : {"before", "after"}) {
    std::string metadata = R"("metadata":[[])";
    for (int i = 0; i < 1000; ++i) metadata += ",{}";
    const std::string map = R"("weight_map":{"a":"1"})";
    const std::string index = order == std::string("before") ? metadata + "]," + map : map + "," + metadata + "]";
    const Model model = read_well("{" + index + "}", {{"1", shard("a")}});
    EXPECT_THAT(listing(model), ElementsAre(":a a"));
    EXPECT_EQ(std::get<Map>(*model.metadata.find("index")).find("metadata"), nullptr);
    EXPECT_THAT(model.warnings, ElementsAre("the index has metadata of more than 1000 values: omitted"));
  }
}

TEST(SafetensorsIndex, NonObjectIsRefusedAtOnce) {
  for (const char* json : {"[}", "\"a\"}", "1}"})
    EXPECT_EQ(error_of(json), "safetensors index: JSON without an object \"weight_map\"") << json;
}

TEST(SafetensorsIndex, SizeIsBounded) {
  const auto large = lazy(100'000'001, Later<SourcePtr>([]() -> Result<SourcePtr> { return in_memory("{}"); }));
  const auto model =
      read_as("safetensors-index", Container{kIndexName, large, std::make_shared<MemoryFolder>(Files{})});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message, "safetensors index: an index of 100000001 bytes, 100000000 at most");
}

TEST(SafetensorsIndex, RefusesOtherJson) {
  const char* const kWhy = "safetensors index: JSON without an object \"weight_map\"";
  for (const char* json : {"{}", "[]", "1", R"({"weight_map":[]})", R"({"weight_map":"a"})", R"({"metadata":{}})"})
    EXPECT_EQ(error_of(json), kWhy) << json;
  EXPECT_EQ(error_of(R"({"weight_map":{"a":1}})"), "safetensors index: weight_map: tensor \"a\": no string");
  EXPECT_THAT(error_of(R"({"weight_map":{)"), HasSubstr("invalid JSON"));
}

TEST(SafetensorsIndex, NeedsAFolder) {
  const auto model =
      read_as("safetensors-index", Container{kIndexName, in_memory(R"({"weight_map":{"a":"1"}})"), nullptr});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message, "safetensors index: no other files in its directory; its shards are needed");
}

TEST(SafetensorsIndex, SurvivesEveryTruncationAndFlippedByte) {
  const std::string index = R"({"metadata": {"total_size": 3}, "weight_map": {"c": "2", "a": "1", "b": "1"}})";
  const Files shards = {{"1", shard("ab")}, {"2", shard("c")}};
  for (size_t at = 0; at < index.size(); ++at) {
    EXPECT_NE(error_of(index.substr(0, at), shards), "no error") << at;
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::string bytes = index;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      if (const auto model = read(bytes, shards)) {
        EXPECT_THAT(listing(*model), testing::Not(IsEmpty()));
      }
    }
  }
}

// Detection.

Match match(std::string_view file) { return matches_safetensors_index(probe_of(file)); }

TEST(SafetensorsIndex, PlausibleBeginningMatchesMaybe) {
  EXPECT_EQ(match(R"({"weight_map":{}})"), Match::maybe);
  EXPECT_EQ(match("\r\n\t {\"weight_map\":{}}"), Match::maybe);
  EXPECT_EQ(match("{ \"metadata\":\"" + std::string(kHeadSize, 'x') + "\"}"), Match::maybe);
  EXPECT_EQ(match(R"({"x":1,"weight_map":{")" + std::string(kHeadSize, 'x') + "\":\"\"}}"), Match::maybe);
}

TEST(SafetensorsIndex, IsNotDetectedInOtherFiles) {
  EXPECT_EQ(match(""), Match::no);
  EXPECT_EQ(match("{}"), Match::no);
  EXPECT_EQ(match(R"(["weight_map"])"), Match::no);
  EXPECT_EQ(match(small_safetensors()), Match::no);
  EXPECT_EQ(match(R"({"metadata":{}})"), Match::no);
  EXPECT_EQ(match(R"({"version":"1.0","metadata":")" + std::string(kHeadSize, 'x') + "\"}"), Match::no);
  EXPECT_EQ(match("{" + std::string(kHeadSize, ' ') + "}"), Match::no);
}

}  // namespace
}  // namespace weightfs::index_test
