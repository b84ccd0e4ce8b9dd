// The comparison of what is in models: nested models and files.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/compare/models.h"
#include "report/text/words.h"
#include "tests/support/counted_source.h"
#include "tests/support/numbers.h"

namespace weightfs::compare::contents_test {
namespace {

using test::CountedSource;
using test::float32_tensor;
using testing::ElementsAre;
using testing::IsEmpty;

Part part(const std::string& path, const SourcePtr& bytes) { return {path, Later<SourcePtr>::of(bytes)}; }

Part part(const std::string& path, const std::string& bytes) { return part(path, in_memory(bytes)); }

// An archive of files.
std::shared_ptr<Model> archive(std::vector<Part> parts) {
  auto model = std::make_shared<Model>();
  model->format = "zip";
  model->has_members = true;
  model->parts = std::move(parts);
  return model;
}

// Its member `index` is a model.
void nest(Model& outer, size_t index, const ModelPtr& inner) {
  outer.nested = [index, inner](const ModelPtr&) -> Result<std::vector<Nested>> {
    return std::vector<Nested>{{index, Later<ModelPtr>::of(inner)}};
  };
}

// The result as lines.
std::vector<std::string> lines(const ModelPtr& a, const ModelPtr& b) {
  const auto found = compare_contents(contents_of(a).value(), contents_of(b).value(), CompareOptions()).value();
  std::vector<std::string> out;
  for (const ModelComparison& models : found.models)
    for (const ChangedTensor& changed : models.tensors.changed)
      out.push_back(fmt::format("tensor {}", join_path(models.path, models.a->tensors[changed.pair.a].name)));
  for (const FileChange& file : found.files)
    out.push_back(fmt::format("{} {}", !file.b ? "missing" : !file.a ? "added" : "file", file.path));
  for (const UnreadableFile& one : found.unreadable)
    out.push_back(fmt::format("unreadable {} {}", one.side == Side::a ? "a" : "b", one.path));
  out.push_back(fmt::format("{} equal", found.equal_files));
  return out;
}

// semantics 26.10
TEST(CompareContents, EachKindOfFileIsListed) {
  const auto a = archive({part("b", "1"), part("gone", "1"), part("a", "1"), part("size", "1"), part("same", "1")});
  const auto b = archive({part("a", "1"), part("b", "2"), part("new", "1"), part("same", "1"), part("size", "12")});
  EXPECT_THAT(lines(a, b), ElementsAre("file b", "missing gone", "added new", "file size", "2 equal"));
}

TEST(CompareContents, BytesAreReadOnlyIfSizeAndDigestsDoNotDecide) {
  const auto large = std::make_shared<CountedSource>("a", 1 << 20);
  const auto larger = std::make_shared<CountedSource>("a", (1 << 20) + 1);
  Part digest_a = part("digest", large);
  digest_a.checksums.set(sha256("a"));
  Part digest_b = part("digest", larger);
  digest_b.checksums.set(sha256("a"));
  const auto short_one = std::make_shared<CountedSource>("a", 10);
  EXPECT_THAT(lines(archive({digest_a, part("same", large), part("size", short_one)}),
                    archive({digest_b, part("same", large), part("size", larger)})),
              ElementsAre("file size", "2 equal"));
  digest_b.checksums.set(sha256("b"));
  EXPECT_THAT(lines(archive({digest_a}), archive({digest_b})), ElementsAre("file digest", "0 equal"));
  EXPECT_EQ(large->bytes_read + larger->bytes_read + short_one->bytes_read, 0U);
}

TEST(CompareContents, FileThatCannotBeReadIsNotEqual) {
  const auto unreadable = std::make_shared<test::UnreadableSource>(1);
  EXPECT_THAT(lines(archive({part("a", unreadable)}), archive({part("a", "1")})),
              ElementsAre("unreadable a a", "0 equal"));
  EXPECT_THAT(lines(archive({part("a", "1")}), archive({part("a", unreadable)})),
              ElementsAre("unreadable b a", "0 equal"));
}

TEST(CompareContents, NestedModelsAreComparedByTheirTensors) {
  const auto outer = [](float number, const std::string& bytes) {
    auto inner = std::make_shared<Model>();
    inner->format = "test";
    inner->parts = {part("m.test", bytes)};
    inner->tensors.push_back(float32_tensor("w", {number}));
    auto out = archive({part("x/m.test", bytes)});
    nest(*out, 0, inner);
    return out;
  };
  EXPECT_THAT(lines(outer(1, "one"), outer(1, "other")), ElementsAre("0 equal"));
  EXPECT_THAT(lines(outer(1, "one"), outer(2, "other")), ElementsAre("tensor x/m.test/w", "0 equal"));
}

TEST(CompareContents, WeightFilesAreNoFiles) {
  const auto shards = [](const std::string& first, const std::string& bytes) {
    auto model = std::make_shared<Model>();
    model->format = "test";
    Tensor tensor = make_tensor("w", "uint8", {bytes.size()});
    const SourcePtr shard = in_memory(bytes);
    tensor.source = slice(shard, 0, bytes.size()).value();
    model->tensors.push_back(tensor);
    model->parts = {part(first, first), part(first + ".shard", shard), part("config.json", "{}")};
    return model;
  };
  EXPECT_THAT(lines(shards("a", "bytes"), shards("b", "bytes")), ElementsAre("1 equal"));
  EXPECT_THAT(lines(shards("a", "bytes"), shards("b", "BYTES")), ElementsAre("tensor w", "1 equal"));
}

TEST(CompareContents, FileOfOneSideIsNoDifferenceBetweenFormatsWithTensors) {
  const auto of_format = [](const std::string& format, std::vector<Part> parts) {
    auto model = archive(std::move(parts));
    model->format = format;
    model->tensors.push_back(float32_tensor("w", {1}));
    return model;
  };
  const auto a = of_format("a", {part("config", "1"), part("only", "1")});
  EXPECT_THAT(lines(a, of_format("a", {part("config", "2")})), ElementsAre("file config", "missing only", "0 equal"));
  EXPECT_THAT(lines(a, of_format("b", {part("config", "2")})), ElementsAre("file config", "0 equal"));
}

// A directory in an archive may be a model of which its own file is a nested model again.
TEST(CompareContents, ModelNestedInItselfIsComparedOnce) {
  const auto recursive = [](const std::string& bytes) {
    auto model = archive({part("self", "self"), part("config", bytes)});
    model->nested = [](const ModelPtr& itself) -> Result<std::vector<Nested>> {
      return std::vector<Nested>{{0, Later<ModelPtr>::of(itself)}};
    };
    return model;
  };
  EXPECT_THAT(lines(recursive("1"), recursive("1")), ElementsAre("1 equal"));
  EXPECT_THAT(lines(recursive("1"), recursive("2")), ElementsAre("file config", "file self/config", "0 equal"));
}

// Hard links: the bytes are compared once, and each name is listed.
TEST(CompareContents, SharedBytesAreReadOnceAndListedForEachName) {
  const auto a = std::make_shared<CountedSource>("a", 100);
  const auto b = std::make_shared<CountedSource>("b", 100);
  EXPECT_THAT(lines(archive({part("x", a), part("y", a)}), archive({part("x", b), part("y", b)})),
              ElementsAre("file x", "file y", "0 equal"));
  EXPECT_EQ(a->bytes_read, 100U);
}

}  // namespace
}  // namespace weightfs::compare::contents_test
