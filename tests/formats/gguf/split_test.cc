#include "formats/gguf/split.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "formats/completeness.h"
#include "formats/flat_formats.h"
#include "tests/support/gguf_reading.h"

namespace weightfs::split_test {
namespace {

using namespace test;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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
    if (found == files_.end()) return failure(Code::not_found, "no such file");
    if (found->second == "unreadable") return failure(Code::io, "no way");
    return in_memory(found->second);
  }
  Result<std::vector<Part>> parts() const override { return std::vector<Part>{}; }

 private:
  std::map<std::string, std::string, std::less<>> files_;
};

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

TEST(GgufSplit, AnyShardOpensWholeModel) {
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

TEST(GgufSplit, ShowsPresentShardsAndReportsMissingOnes) {
  Files files = kShards;
  files.erase("m-00001-of-00003.gguf");
  const auto model = read_beside("m-00003-of-00003.gguf", files);
  ASSERT_TRUE(model);
  EXPECT_THAT(listing(*model), ElementsAre("a int8 I8 [1] 1", "b int8 I8 [1] 2"));
  EXPECT_EQ(model->version, "3");
  EXPECT_EQ(model->parts.size(), 2u);
  EXPECT_THAT(model->warnings, ElementsAre("1 of 3 shards is missing: m-00001-of-00003.gguf"));
}

TEST(GgufSplit, CorruptShardIsLeftOut) {
  Files files = kShards;
  files["m-00001-of-00003.gguf"] = "unreadable";
  files["m-00002-of-00003.gguf"] = "GGUF";
  const auto model = read_beside("m-00003-of-00003.gguf", files);
  ASSERT_TRUE(model);
  EXPECT_THAT(listing(*model), ElementsAre("b int8 I8 [1] 2"));
  EXPECT_EQ(model->parts.size(), 2u) << "the broken file can be looked at";
  EXPECT_THAT(model->warnings,
              ElementsAre("\"m-00001-of-00003.gguf\": no way", HasSubstr("\"m-00002-of-00003.gguf\": ends at byte 4"),
                          "split.tensors.count is 2, found 1"));
}

std::string sentence_of(const std::string& name, const Files& files) {
  const auto model = read_beside(name, files);
  return model ? to_sentence(completeness_of(*model)) : model.error().message;
}

TEST(GgufSplit, ShardsThatContradictEachOtherMakeTheModelIncomplete) {
  const std::string one = "m-00001-of-00002.gguf", two = "m-00002-of-00002.gguf";
  const Files whole = {{one, shard(0, "a", 2)}, {two, shard(1, "b", 2)}};
  EXPECT_EQ(sentence_of(one, whole), "");
  EXPECT_EQ(sentence_of(one, {{one, shard(0, "a", 2, 3)}, {two, shard(1, "b", 2, 3)}}),
            "1 of 3 tensors cannot be read: split.tensors.count is 3, found 2");
  EXPECT_EQ(sentence_of(one, {{one, whole.at(one)}, {two, whole.at(one)}}),
            "the model is incomplete: \"m-00002-of-00002.gguf\": split.no is 0; the file name implies 1");
}

TEST(GgufSplit, ShardUnderAnotherNameIsIncomplete) {
  EXPECT_EQ(sentence_of("part.gguf", {{"part.gguf", shard(0, "a", 3, 2)}}),
            "1 of 2 tensors cannot be read: one of 3 files, by split.count, but not named NAME-00001-of-00003.gguf: "
            "the others are not read");
  EXPECT_EQ(sentence_of("merged.gguf", {{"merged.gguf", shard(0, "a", 0, 1)}}), "");
  EXPECT_EQ(sentence_of("all.gguf", {{"all.gguf", shard(0, "a", 2, 1)}}), "") << "it has all tensors";
}

TEST(GgufSplit, WarnsWhereShardsDisagree) {
  const Files files = {{"m-00001-of-00002.gguf", shard(0, "a", 2, 7)}, {"m-00002-of-00002.gguf", shard(5, "a", 3)}};
  const auto model = read_beside("m-00001-of-00002.gguf", files);
  ASSERT_TRUE(model);
  EXPECT_THAT(listing(*model), ElementsAre("a int8 I8 [1] 0", "a int8 I8 [1] 5"));
  EXPECT_THAT(model->warnings, ElementsAre("\"m-00002-of-00002.gguf\": split.no is 5; the file name implies 1",
                                           "\"m-00002-of-00002.gguf\": split.count is 3; the file name implies 2",
                                           "split.tensors.count is 7, found 2", "tensor \"a\": duplicate name"));
}

class UnlistedFolder final : public Folder {
 public:
  Result<std::vector<std::string>> names() const override { return failure(Code::io, "permission denied"); }
  Result<SourcePtr> open(std::string_view) const override { return failure(Code::io, "permission denied"); }
  Result<std::vector<Part>> parts() const override { return failure(Code::io, "permission denied"); }
};

TEST(GgufSplit, ShardsThatCannotBeOpenedAreNamed) {
  const auto model =
      read_gguf(Container{"m-00002-of-00003.gguf", in_memory(shard(1, "a")), std::make_shared<UnlistedFolder>()});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(listing(*model), ElementsAre("a int8 I8 [1] 1"));
  EXPECT_THAT(model->warnings, Contains("\"m-00001-of-00003.gguf\": permission denied"));
}

TEST(GgufSplit, ShardOfTooManyIsShownAlone) {
  const auto read_one_of = [](uint16_t count) {
    const std::string name = fmt::format("m-00001-of-{}.gguf", count);
    return read_beside(name, {{name, shard(0, "a", count)}});
  };
  EXPECT_EQ(read_one_of(gguf::kMaxShards)->warnings.size(), kMaxWarnings + 1) << "the missing ones are named";
  EXPECT_THAT(read_one_of(gguf::kMaxShards + 1)->warnings,
              ElementsAre("one of 10001 shards, shown alone: 10000 at most are read"));
}

TEST(GgufSplit, ShardBeyondBudgetIsLeftOut) {
  // An entry of the list that is all zeroes is a open_tmpfile float32, without dimensions, at offset 0.
  const std::string most =
      GgufBuilder().announcing(gguf::kMaxTensors, 0).build() + std::string(gguf::kMaxTensors * (8 + 4 + 4 + 8), '\0');
  const Files files = {{"m-00001-of-00003.gguf", shard(0, "a")},
                       {"m-00002-of-00003.gguf", most},
                       {"m-00003-of-00003.gguf", shard(2, "b")}};
  const auto model = read_beside("m-00001-of-00003.gguf", files);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_THAT(listing(*model), ElementsAre("a int8 I8 [1] 0", "b int8 I8 [1] 2"));
  EXPECT_THAT(model->warnings, ElementsAre("\"m-00002-of-00003.gguf\": too many tensors: the memory limit of 61.0 MiB "
                                           "for a container of 224 B is exceeded"));
}

TEST(GgufSplit, FileWithoutSplitCountIsShownAlone) {
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
  EXPECT_EQ(alone->parts.size(), 1u) << "no other files in its directory";
}

}  // namespace
}  // namespace weightfs::split_test
