#include "fs/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/digest.h"

namespace weightfs::names_test {
namespace {

using testing::ElementsAre;

// The paths of `names`, in the order of the names.
std::vector<std::string> paths(const std::vector<TensorName>& names, std::string_view suffix = "",
                               Percent percent = Percent::escaped) {
  StringArena texts;
  std::vector<std::string> out(names.size());
  for (const NamedPath& each : paths_of(names, suffix, texts, percent)) out[each.name()] = each.path();
  return out;
}

// The paths of the members of an archive.
std::vector<std::string> member_paths(const std::vector<std::string_view>& names) {
  std::vector<TensorName> members;
  for (const std::string_view name : names) members.push_back({"", name});
  return paths(members, "", Percent::kept);
}

std::string path(std::string_view name) { return paths({{"", name}})[0]; }

// semantics 3.1: a name that is a path is its path.
TEST(Names, OrdinaryNamesAreUnchanged) {
  EXPECT_EQ(path("blk.0.attn_q.weight"), "blk.0.attn_q.weight");
  EXPECT_EQ(path("encoder/layer 1/w:0"), "encoder/layer 1/w:0");
  EXPECT_EQ(path("h\u00e9llo \u4e2d"), "h\u00e9llo \u4e2d");
}

// Names that all are paths are not split into components. An irregular name, which ends that, is the last one here.
TEST(Names, IrregularNameChangesNoOtherPath) {
  const auto deep = [](size_t components) {
    std::string name = "c";
    for (size_t i = 1; i < components; ++i) name += "/c";
    return name;
  };
  const std::string deepest = deep(kMaxComponents), deeper = deep(kMaxComponents + 1);
  const std::string longest(kMaxComponentLength, 'n'), inside = "d/" + longest, longer(kMaxComponentLength + 1, 'n');
  const std::vector<std::vector<std::string_view>> lists = {{"b/x", "a/y", "c", "a/x"},
                                                            {"a", "a/b", "c/d"},
                                                            {"a/b/c", "a/b", "a/b"},
                                                            {"a/", "/b", "c//d", ""},
                                                            {"./a", "b/.."},
                                                            {deepest},
                                                            {deeper},
                                                            {longest, inside},
                                                            {longer}};
  for (const auto& names : lists) {
    std::vector<TensorName> tensors;
    for (const std::string_view name : names) tensors.push_back({"", name});
    const std::vector<std::string> expected = paths(tensors);
    tensors.push_back({"", "%"});
    std::vector<std::string> found = paths(tensors);
    EXPECT_EQ(found.back(), "%25");
    found.pop_back();
    EXPECT_EQ(found, expected);
  }
}

// semantics 3.2
TEST(Names, SpecialBytesAreEscaped) {
  using namespace std::string_view_literals;
  EXPECT_EQ(path("100%"), "100%25");
  EXPECT_EQ(path("a\nb\0c\x7f"sv), "a%0Ab%00c%7F");
  EXPECT_EQ(path("\xFF\xC3"), "%FF%C3");
  EXPECT_EQ(path("x\xC2\x9Bm"), "x%C2%9Bm");
  EXPECT_EQ(path("."), "%2E");
  EXPECT_EQ(path(".."), "%2E%2E");
  EXPECT_EQ(path("../../etc/passwd"), "%2E%2E/%2E%2E/etc/passwd");
  EXPECT_EQ(path("..."), "...");
  EXPECT_EQ(path(""), "%");
}

// semantics 3.3
TEST(Names, SlashWithoutDirectoryIsEscaped) {
  EXPECT_EQ(path("/abs"), "%2Fabs");
  EXPECT_EQ(path("a//b"), "a/%2Fb");
  EXPECT_EQ(path("dir/"), "dir%2F");
  EXPECT_EQ(path("/"), "%2F");
  EXPECT_EQ(path("a///"), "a/%2F%2F");
  EXPECT_THAT(paths({{"", "a"}, {"", "a/b"}, {"", "a/b/c"}, {"", "a/d"}}),
              ElementsAre("a", "a%2Fb", "a%2Fb%2Fc", "a%2Fd"));
}

// semantics 3.4
TEST(Names, DepthOfScopeIsBounded) {
  std::string scope = "0";
  for (int i = 1; i < 100; ++i) scope += "/" + std::to_string(i);
  const std::vector<std::string> all = paths({{scope, "a/b"}, {scope, "c"}});
  EXPECT_EQ(std::count(all[0].begin(), all[0].end(), '/'), 31);
  EXPECT_THAT(all[0], testing::EndsWith("/a%2Fb"));
  EXPECT_THAT(all[1], testing::EndsWith("/c"));
}

TEST(Names, DepthIsBounded) {
  std::string deep = "0";
  for (int i = 1; i < 100; ++i) deep += "/" + std::to_string(i);
  const std::string shown = path(deep);
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '/'), 31);
  EXPECT_TRUE(shown.starts_with("0/1/2/")) << shown;
  EXPECT_NE(shown.find("31%2F32%2F33"), std::string::npos) << shown;
}

TEST(Names, TensorNamesThatNestMakeNoDirectories) {
  std::vector<std::string> nested{"a"};
  for (int i = 1; i < 3000; ++i) nested.push_back(nested.back() + "/a");
  std::vector<TensorName> names;
  for (const auto& name : nested) names.push_back({"", name});
  const auto all = paths(names);
  EXPECT_EQ(all[2], "a%2Fa%2Fa");
  EXPECT_TRUE(std::none_of(all.begin(), all.end(), [](const std::string& p) { return p.find('/') != p.npos; }));
}

// The names between a directory and its files, in the order of bytes.
TEST(Names, SpecialBytesHideNoNameThatIsDirectory) {
  EXPECT_THAT(paths({{"", "a"},
                     {"", "a/b"},
                     {"",
                      "a\x01"
                      "c"},
                     {"", "a-/d"},
                     {"", "a/d"},
                     {"s", "a/d"},
                     {"", "a/b/e/f"}}),
              ElementsAre("a", "a%2Fb", "a%01c", "a-/d", "a%2Fd", "s/a/d", "a%2Fb%2Fe/f"));
}

// Long names that begin alike took minutes while they were searched for each `/`.
TEST(Names, ManyLongNamesThatBeginAlike) {
  const std::string start = std::string(5000, 'n') + "/d";
  std::vector<std::string> long_names;
  for (int i = 0; i < 5000; ++i) long_names.push_back(start + std::string(40, '/') + std::to_string(i));
  std::vector<TensorName> names;
  for (const auto& name : long_names) names.push_back({"", name});
  const auto all = paths(names);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), names.size());
}

// semantics 3.5
TEST(Names, LongComponentIsTruncatedAndEndsInDigest) {
  const std::string fits(255, 'x');
  const std::string long_one(256, 'x');
  EXPECT_EQ(path(fits), fits);
  EXPECT_EQ(path(long_one), std::string(238, 'x') + "~" + sha256(long_one).hex().substr(0, 16));
  EXPECT_EQ(path("d/" + long_one + "/e"),
            "d/" + std::string(238, 'x') + "~" + sha256(long_one).hex().substr(0, 16) + "/e");
  // Never in the middle of a character or an escape.
  const std::string accents = path(std::string("x") + [] {
    std::string s;
    for (int i = 0; i < 200; ++i) s += "\u00e9";
    return s;
  }());
  EXPECT_EQ(accents.size(), 254U);
  const std::string escapes = path(std::string(200, '\n'));
  EXPECT_EQ(escapes.substr(0, escapes.find('~')).size() % 3, 0U);
}

TEST(Names, LongComponentLeavesSpaceForSuffix) {
  EXPECT_EQ(paths({{"", std::string(251, 'x')}}, ".npy")[0], std::string(251, 'x') + ".npy");
  const std::string cut = paths({{"", std::string(252, 'x')}}, ".npy")[0];
  EXPECT_EQ(cut.size(), 255U);
  EXPECT_TRUE(cut.ends_with(".npy"));
}

// semantics 3.6
TEST(Names, DuplicateNamesAreNumbered) {
  EXPECT_THAT(paths({{"", "w"}, {"", "v"}, {"", "w"}, {"", "w"}}), ElementsAre("w", "v", "w%~2", "w%~3"));
  EXPECT_THAT(paths({{"", "d/w"}, {"", "d/w"}}, ".npy"), ElementsAre("d/w.npy", "d/w%~2.npy"));
}

TEST(Names, NpyFileThatIsParentOfOthersIsNumbered) {
  EXPECT_THAT(paths({{"", "a"}, {"", "a.npy/b"}}, ".npy"), ElementsAre("a%~1.npy", "a.npy/b.npy"));
}

// semantics 3.7
TEST(Names, ScopeIsParentDirectory) {
  EXPECT_THAT(paths({{"", "w"}, {"10.then_branch", "w"}, {"10.else_branch/2.body", "w/x"}}),
              ElementsAre("w", "10.then_branch/w", "10.else_branch/2.body/w/x"));
  EXPECT_THAT(paths({{"g", "a"}, {"", "g"}}), ElementsAre("g/a", "g%~1"));
}

// semantics 3.8: a member of an archive keeps its name if it is valid in a file system.
TEST(Names, PercentInMemberNameIsKept) {
  EXPECT_THAT(member_paths({"100%", "%", "%%", "a%2Fb", "50%/x", "%~2"}),
              ElementsAre("100%", "%", "%%", "a%2Fb", "50%/x", "%25~2"));
  EXPECT_EQ(component("100%", ".npy", Percent::kept), "100%.npy");
}

TEST(Names, SpecialBytesAreEscapedBesideKeptPercent) {
  EXPECT_THAT(member_paths({"%\n", "\n%", "%\xFF%", "a%0A\n", "."}),
              ElementsAre("%%0A", "%0A%", "%%FF%", "a%0A%0A", "%2E"));
  EXPECT_THAT(member_paths({"%/../%", "/a", "a//"}), ElementsAre("%/%2E%2E/%", "%2Fa", "a/%2F"));
}

// So an escape may meet a name that has it literally.
TEST(Names, EscapedNameEqualToLiteralNameIsNumbered) {
  EXPECT_THAT(member_paths({"a", "a/b", "a%2Fb"}), ElementsAre("a", "a%2Fb", "a%2Fb%~2"));
  EXPECT_THAT(member_paths({"a%2Fb", "a/b", "a"}), ElementsAre("a%2Fb", "a%2Fb%~2", "a"));
  EXPECT_THAT(member_paths({"a\n", "a%0A/b"}), ElementsAre("a%0A%~1", "a%0A/b"));
  EXPECT_THAT(member_paths({"a\n", "a%0A", "a%0A%~2"}), ElementsAre("a%0A", "a%0A%~2", "a%0A%25~2"));
}

// In a chain of names each equals the numbered form of the previous one; naively each would need a sort.
TEST(Names, ClashMarkInNameIsEscaped) {
  std::vector<std::string> names{"a\n", "a%0A"};
  for (std::string name = "a%0A%~2"; names.size() < 1000; name += "%~2") names.push_back(name);
  std::vector<std::string_view> views(names.begin(), names.end());
  const auto shown = member_paths(views);
  EXPECT_EQ(shown[1], "a%0A%~2");
  EXPECT_EQ(shown[2], "a%0A%25~2");
  EXPECT_EQ(std::set(shown.begin(), shown.end()).size(), names.size());
}

TEST(Names, LongMemberNameIsNotCutInsideEscape) {
  const std::string name = std::string(236, 'x') + "%2F" + std::string(20, 'y');
  const std::string shown = component(name, "", Percent::kept);
  EXPECT_EQ(shown, std::string(236, 'x') + "~" + sha256(name).hex().substr(0, 16));
  EXPECT_EQ(component(std::string(255, '%'), "", Percent::kept), std::string(255, '%'));
}

// More names than are sorted by comparison, in no order.
TEST(Names, RepeatedNamesAmongManyAreNumberedInTheirOrder) {
  constexpr size_t kNames = 5000;
  std::vector<std::string> raw;
  for (size_t i = 0; i < kNames; ++i) raw.push_back(i % 5 == 0 ? "same" : "layer." + std::to_string(i * 7919 % kNames));
  std::vector<TensorName> names;
  for (const std::string& name : raw) names.push_back({"", name});
  const auto found = paths(names);
  for (size_t i = 0; i < kNames; ++i) {
    const std::string numbered = i == 0 ? "same" : "same%~" + std::to_string(i / 5 + 1);
    EXPECT_EQ(found[i], i % 5 == 0 ? numbered : raw[i]);
  }
}

// Paths are unique, sorted, without invalid components, and no path is a parent of another.
void hold_promises(const std::vector<TensorName>& names, std::string_view suffix, Percent percent) {
  StringArena texts;
  const auto all = paths_of(names, suffix, texts, percent);
  ASSERT_EQ(all.size(), names.size());
  std::set<std::string_view> files;
  for (const auto& p : all) EXPECT_TRUE(files.insert(p.path()).second) << p.path();
  for (size_t i = 0; i + 1 < all.size(); ++i) EXPECT_TRUE(path_less(all[i].path(), all[i + 1].path()));
  for (const auto& p : all) {
    for (size_t slash = p.path().find('/'); slash != p.path().npos; slash = p.path().find('/', slash + 1))
      EXPECT_FALSE(files.contains(p.path().substr(0, slash))) << p.path();
    for (size_t begin = 0, end = 0; end != p.path().npos; begin = end + 1) {
      end = p.path().find('/', begin);
      const std::string_view component = p.path().substr(begin, end == p.path().npos ? end : end - begin);
      EXPECT_TRUE(!component.empty() && component.size() <= 255 && component != "." && component != "..") << p.path();
    }
  }
}

TEST(Names, HostileNamesGiveValidUniquePaths) {
  std::mt19937 random(7);
  const std::string alphabet =
      "ab/.%~\n\xFF"
      "02FA";
  std::vector<std::string> raw;
  for (int i = 0; i < 3000; ++i) {
    std::string name;
    for (size_t n = random() % 7; n > 0; --n) name += alphabet[random() % alphabet.size()];
    if (i % 50 == 0) name += std::string(300, 'x');
    raw.push_back(name);
  }
  std::vector<TensorName> names;
  for (const auto& name : raw) names.push_back({"", name});
  for (const Percent percent : {Percent::escaped, Percent::kept})
    for (const char* suffix : {"", ".npy"}) hold_promises(names, suffix, percent);
}

}  // namespace
}  // namespace weightfs::names_test
