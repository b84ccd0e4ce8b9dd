#include "report/text/suggestions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightfs::suggestions_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kVerbs = {"mount", "umount", "mounts", "ls", "cat", "info", "fetch", "verify", "cache"};

TEST(Suggestions, SingleTypingErrorIsCorrected) {
  EXPECT_EQ(suggestions("moutn", kVerbs).front(), "mount") << "two letters swapped";
  EXPECT_THAT(suggestions("ftch", kVerbs), ElementsAre("fetch")) << "one letter missing";
  EXPECT_THAT(suggestions("veriffy", kVerbs), ElementsAre("verify")) << "one extra letter";
  EXPECT_THAT(suggestions("cet", kVerbs), ElementsAre("cat")) << "one wrong letter";
  EXPECT_THAT(suggestions("lss", kVerbs), ElementsAre("ls"));
}

TEST(Suggestions, MostSimilarComesFirst) {
  EXPECT_THAT(suggestions("unmount", kVerbs), ElementsAre("umount", "mount", "mounts"));
  EXPECT_THAT(suggestions("mounst", kVerbs), ElementsAre("mount", "mounts", "umount"));
}

TEST(Suggestions, EquallySimilarKeepTheirOrder) {
  EXPECT_THAT(suggestions("bat", {"rat", "cat", "hat", "mat"}), ElementsAre("rat", "cat", "hat"));
}

TEST(Suggestions, PrefixIsSimilar) {
  EXPECT_THAT(suggestions("--cache", {"--cache-size", "--offline"}), ElementsAre("--cache-size"));
  EXPECT_THAT(suggestions("--allow-private", {"--allow-private-urls"}), ElementsAre("--allow-private-urls"));
  EXPECT_THAT(suggestions("m", {"mount"}), IsEmpty()) << "prefix too short";
}

TEST(Suggestions, DashesAreIgnored) {
  EXPECT_THAT(suggestions("--l", {"--x", "--y"}), IsEmpty());
  EXPECT_THAT(suggestions("-offline", {"--offline"}), ElementsAre("--offline"));
  EXPECT_THAT(suggestions("--", {"--x"}), IsEmpty());
}

TEST(Suggestions, DissimilarWordsAreNotSuggested) {
  EXPECT_THAT(suggestions("frob", kVerbs), IsEmpty());
  EXPECT_THAT(suggestions("", kVerbs), IsEmpty());
  EXPECT_THAT(suggestions("x", {"l", "ls"}), IsEmpty());
  EXPECT_THAT(suggestions(std::string(1 << 20, 'm'), kVerbs), IsEmpty());
}

TEST(Suggestions, SentenceListsThem) {
  EXPECT_EQ(did_you_mean("moumt", {"mount", "ls"}), "; did you mean mount?");
  EXPECT_EQ(did_you_mean("bat", {"rat", "cat", "hat"}), "; did you mean rat, cat or hat?");
  EXPECT_EQ(did_you_mean("frob", kVerbs), "");
}

}  // namespace
}  // namespace weightfs::suggestions_test
