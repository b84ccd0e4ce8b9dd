// What zips, tars and directories have in common: names, links, duplicates, containers inside.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/archive/nested.h"
#include "formats/archive/symlink.h"
#include "tests/support/memory_folder.h"
#include "tests/support/small_models.h"

namespace weightfs::archive_test {
namespace {

using namespace archive;
using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string text_of(const Part& part) {
  const auto source = part.source.get();
  return source ? read_text(**source, 0, (*source)->size()).value() : "error: " + source.error().message;
}

// "path=text" of a file, "path->target" of a link, in order.
std::vector<std::string> listing(const std::vector<Part>& parts) {
  std::vector<std::string> out;
  for (const Part& part : parts)
    out.push_back(part.link_target.empty() ? fmt::format("{}={}", part.path, text_of(part))
                                           : fmt::format("{}->{}", part.path, part.link_target));
  return out;
}

void add(Builder& builder, std::string_view name, const std::string& text) { builder.add_file(name, in_memory(text)); }

TEST(Archive, DropsEmptyComponentsAndDots) {
  Builder b(DuplicatePolicy::first_wins);
  add(b, "./a", "1");
  add(b, "b//c/./d", "2");
  b.add_directory("./");
  b.add_directory("./e/");
  Archive archive = std::move(b).finish();
  EXPECT_THAT(listing(archive.parts), ElementsAre("a=1", "b/c/d=2"));
  EXPECT_THAT(archive.directories, ElementsAre("e"));
  EXPECT_THAT(archive.warnings.lines(), IsEmpty());
}

TEST(Archive, KeepsHostileNamesAsDataWithWarning) {
  Builder b(DuplicatePolicy::first_wins);
  add(b, "../../etc/passwd", "1");
  add(b, "/etc/shadow", "2");
  add(b, "a\\..\\b", "3");
  Archive archive = std::move(b).finish();
  EXPECT_THAT(listing(archive.parts), ElementsAre("../../etc/passwd=1", "etc/shadow=2", "a\\..\\b=3"));
  EXPECT_THAT(archive.warnings.lines(),
              ElementsAre("member \"../../etc/passwd\": a name with `..`; the dots are written %2E",
                          "member \"/etc/shadow\": an absolute name; taken as relative"));
}

TEST(Archive, DuplicatePolicyKeepsFirstOrLast) {
  const auto build = [](DuplicatePolicy twice) {
    Builder b(twice);
    for (const auto& [name, text] : {std::pair("a", "1"), {"b", "2"}, {"./a", "3"}, {"c", "4"}, {"a", "5"}})
      add(b, name, text);
    return std::move(b).finish();
  };
  EXPECT_THAT(listing(build(DuplicatePolicy::first_wins).parts), ElementsAre("a=1", "b=2", "c=4"));
  EXPECT_THAT(listing(build(DuplicatePolicy::last_wins).parts), ElementsAre("b=2", "c=4", "a=5"));
  EXPECT_THAT(build(DuplicatePolicy::last_wins).warnings.size(), 2U);
  EXPECT_EQ(build(DuplicatePolicy::first_wins).find("a")->path, "a");
}

TEST(Archive, LinkStaysInsideWithOtherLinksOnItsWay) {
  for (const char* inside : {"b", "./b", "d/e", "../b", "../../b", "..", "d//e", "missing"})
    EXPECT_TRUE(stays_inside("x/y/link", inside)) << inside;
  // The middle `..` may leave by another link: x/y/d may be one to the root.
  for (const char* outside : {"/etc/passwd", "/", "../../..", "../../../etc", "d/../../../x", "d/..", "../../b/.."})
    EXPECT_FALSE(stays_inside("x/y/link", outside)) << outside;
  EXPECT_FALSE(stays_inside("link", ".."));
}

TEST(Archive, EscapingLinkBecomesTextFile) {
  Builder b(DuplicatePolicy::first_wins);
  b.add_link("good", "dir/file");
  b.add_link("dir/bad", "../../etc/passwd");
  b.add_link("empty", "");
  b.add_link("nul", std::string("a\0b", 3));
  b.add_link("long", std::string(kMaxLinkLength + 1, 'x'));
  Archive archive = std::move(b).finish();
  EXPECT_THAT(listing(archive.parts),
              ElementsAre("good->dir/file", "dir/bad=../../etc/passwd", "empty=", std::string("nul=a\0b", 7),
                          "long=" + std::string(kMaxLinkLength + 1, 'x')));
  EXPECT_EQ(archive.warnings.size(), 4U);
}

TEST(Archive, FollowsLinkChainUpToLimit) {
  Builder b(DuplicatePolicy::first_wins);
  add(b, "real/file", "bytes");
  b.add_link("a/one", "../b");
  b.add_link("b", "real/file");
  b.add_link("loop", "pool");
  b.add_link("pool", "loop");
  b.add_link("nowhere", "missing");
  const Archive archive = std::move(b).finish();
  EXPECT_EQ(archive.text("a/one", 100).value(), "bytes");
  EXPECT_EQ(archive.resolve("loop"), nullptr);
  EXPECT_EQ(archive.resolve("nowhere"), nullptr);
  EXPECT_EQ(archive.text("nowhere", 100).error().code, Code::corrupt);
}

TEST(Archive, RefusesTooLongText) {
  Builder b(DuplicatePolicy::first_wins);
  add(b, "t", "12345");
  const Archive archive = std::move(b).finish();
  EXPECT_EQ(archive.text("t", 5).value(), "12345");
  const auto longer = archive.text("t", 4);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().message, "t: 5 bytes, at most 4 are read");
}

TEST(Archive, HardLinkHasBytesOfTarget) {
  Builder b(DuplicatePolicy::last_wins);
  b.add_hard_link("early", "file");
  add(b, "file", "old");
  b.add_hard_link("between", "./file");
  add(b, "file", "new");
  b.add_hard_link("late", "file");
  b.add_hard_link("chain", "late");
  b.add_hard_link("self", "self");
  b.add_hard_link("nothing", "missing");
  Archive archive = std::move(b).finish();
  EXPECT_THAT(listing(archive.parts),
              ElementsAre("early=new", "between=old", "file=new", "late=new", "chain=new", "self=", "nothing="));
  EXPECT_THAT(archive.warnings.lines(),
              ElementsAre("hard link \"self\": \"self\" is not in the archive; shown empty",
                          "hard link \"nothing\": \"missing\" is not in the archive; shown empty",
                          "member \"file\": duplicate path; the last is shown"));
}

TEST(Archive, HardLinkToSymlinkIsSymlinkOnlyIfItStaysInside) {
  Builder b(DuplicatePolicy::last_wins);
  b.add_link("a/b/c/deep", "../../../etc/passwd");
  b.add_hard_link("shallow", "a/b/c/deep");
  b.add_hard_link("x/y/z/other", "a/b/c/deep");
  Archive archive = std::move(b).finish();
  EXPECT_THAT(listing(archive.parts), ElementsAre("a/b/c/deep->../../../etc/passwd", "shallow=../../../etc/passwd",
                                                  "x/y/z/other->../../../etc/passwd"));
  EXPECT_EQ(archive.warnings.size(), 1U);
}

// So many took minutes with a quadratic search.
TEST(Archive, ResolvesManyHardLinksToOneName) {
  Builder b(DuplicatePolicy::last_wins);
  constexpr int kMany = 50'000;
  for (int i = 0; i < kMany; ++i) b.add_hard_link(fmt::format("x{}", i), "t");
  for (int i = 0; i < kMany; ++i) b.add_hard_link("t", "t");
  add(b, "t", "bytes");
  const Archive archive = std::move(b).finish();
  EXPECT_EQ(archive.text("x7", 100).value(), "bytes");
}

// An archive's model, and the places of nested containers.
class Nesting : public testing::Test {
 protected:
  void add(std::string_view name, const std::string& bytes) { builder_.add_file(name, in_memory(bytes)); }

  std::vector<std::string> nested_paths(int depth = 0) {
    Container container{"x.zip", in_memory("")};
    container.depth = depth;
    model_ = std::make_shared<const Model>(model_of(std::move(builder_).finish(), container, "zip"));
    if (!model_->nested) return {"none"};
    nested_ = model_->nested(model_).value();
    std::vector<std::string> paths;
    for (const Nested& nested : nested_) paths.push_back(model_->parts[nested.part].path);
    return paths;
  }

  Builder builder_{DuplicatePolicy::first_wins};
  ModelPtr model_;
  std::vector<Nested> nested_;
};

TEST_F(Nesting, FindsContainersAmongMembers) {
  add("readme.md", "# words");
  add("model/a.safetensors", small_safetensors());
  add("b.gguf", small_gguf());
  add("empty", "");
  builder_.add_link("link", "b.gguf");
  EXPECT_THAT(nested_paths(), ElementsAre("model/a.safetensors", "b.gguf"));
  EXPECT_EQ(nested_[0].model.get().value()->format, "safetensors");
  EXPECT_EQ(nested_[1].model.get().value()->format, "gguf");
}

// Reading a member may require decoding it: formats that only parsing identifies are judged by the name.
TEST_F(Nesting, DetectsFormatWithoutMagicNumberByName) {
  add("m.bt", small_bintensors().release());
  add("m.bin", small_bintensors().release());
  EXPECT_THAT(nested_paths(), ElementsAre("m.bt"));
}

TEST_F(Nesting, IndexOpensShardsBesideIt) {
  add("sub/m.safetensors.index.json", small_safetensors_index());
  add("sub/a.safetensors", small_safetensors());
  add("a.safetensors", "another one");
  ASSERT_THAT(nested_paths(), ElementsAre("sub/m.safetensors.index.json", "sub/a.safetensors"));
  const auto model = nested_[0].model.get();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->tensors.size(), 4U);
}

TEST_F(Nesting, FilesBelowTheDirectoryOfAModelAreFound) {
  using namespace onnx;
  const auto placed = [](const char* path) { return external("w", kUint8, {4}, {{"location", path}}); };
  add("d/m.onnx", model(graph({placed("sub/data"), placed("data")})).build());
  add("d/sub/data", "deep");
  add("data", "root");
  ASSERT_THAT(nested_paths(), ElementsAre("d/m.onnx"));
  const auto found = nested_[0].model.get();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(read_text((*found)->tensors[0].source, 0, 4).value(), "deep");
  EXPECT_TRUE((*found)->tensors[1].source.refused());
}

TEST_F(Nesting, SplitModelIsShownOnce) {
  add("m-00001-of-00002.gguf", small_gguf_shard(0));
  add("m-00002-of-00002.gguf", small_gguf_shard(1));
  ASSERT_THAT(nested_paths(), ElementsAre("m-00001-of-00002.gguf"));
  EXPECT_EQ(nested_[0].model.get().value()->tensors.size(), 2U);
}

TEST_F(Nesting, FindsManyShardsBesideIndex) {
  std::string map;
  for (int i = 0; i < 10'000; ++i) {
    add(fmt::format("dir/{}.safetensors", i), "");
    map += fmt::format("{}\"t{}\":\"{}.safetensors\"", i == 0 ? "" : ",", i, i);
  }
  add("dir/m.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  ASSERT_THAT(nested_paths(), ElementsAre("dir/m.safetensors.index.json"));
  EXPECT_FALSE(nested_[0].model.get());  // every shard was opened, and is empty
}

TEST_F(Nesting, EndsAtMaxDepth) {
  add("b.gguf", small_gguf());
  EXPECT_THAT(nested_paths(kMaxNestingDepth), ElementsAre("none"));
}

TEST_F(Nesting, CorruptContainerFailsWhenEntered) {
  add("b.gguf", "GGUF\3\0\0\0");
  EXPECT_THAT(nested_paths(), ElementsAre("b.gguf"));
  const auto model = nested_[0].model.get();
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("b.gguf: gguf"));
}

// What makes a directory one model.
TEST(ModelEntryFile, IsFoundByDirectoryListing) {
  const auto key = [](const Files& files) {
    const MemoryFolder folder(files);
    return model_entry_file(folder.names().value(), folder).value().value_or("none");
  };
  EXPECT_EQ(key({{"carton.toml", ""}, {"MANIFEST", ""}, {"m.safetensors.index.json", "{}"}}), "carton.toml");
  EXPECT_EQ(key({{"carton.toml", ""}}), "none");
  EXPECT_EQ(key({{"m.safetensors.index.json", "{}"}}), "none") << "the rule of one model finds it";
  EXPECT_EQ(key({{"ndarray-cache.json", "{}"}, {"tensor-cache.json", "{}"}}), "tensor-cache.json");
  EXPECT_EQ(key({{"ndarray-cache.json", "{}"}}), "ndarray-cache.json");
  EXPECT_EQ(key({{"metadata.json", R"({"version":7,"modules":{}})"}}), "metadata.json");
  EXPECT_EQ(key({{"metadata.json", R"({"version":"1"})"}}), "none");
  EXPECT_EQ(key({{"a.gguf", ""}}), "none");
}

}  // namespace
}  // namespace weightfs::archive_test
