#include "cli/console/suggestions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightfs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kVerbs = {"mount", "umount", "mounts", "ls", "cat", "info", "fetch", "verify", "cache"};

TEST(Nearest, FindsWhatOneSlipMakes) {
  EXPECT_EQ(nearest("moutn", kVerbs).front(), "mount") << "two letters swapped";
  EXPECT_THAT(nearest("ftch", kVerbs), ElementsAre("fetch")) << "one left out";
  EXPECT_THAT(nearest("veriffy", kVerbs), ElementsAre("verify")) << "one too many";
  EXPECT_THAT(nearest("cet", kVerbs), ElementsAre("cat")) << "a wrong one";
  EXPECT_THAT(nearest("lss", kVerbs), ElementsAre("ls"));
}

TEST(Nearest, TheNearestComesFirst) {
  EXPECT_THAT(nearest("unmount", kVerbs), ElementsAre("umount", "mount", "mounts"));
  EXPECT_THAT(nearest("mounst", kVerbs), ElementsAre("mount", "mounts", "umount"));
}

TEST(Nearest, OfEquallyNearOnesTheOrderIsTheirs) {
  EXPECT_THAT(nearest("bat", {"rat", "cat", "hat", "mat"}), ElementsAre("rat", "cat", "hat"));
}

TEST(Nearest, ABeginningIsNear) {
  EXPECT_THAT(nearest("--cache", {"--cache-size", "--offline"}), ElementsAre("--cache-size"));
  EXPECT_THAT(nearest("--allow-private", {"--allow-private-urls"}), ElementsAre("--allow-private-urls"));
  EXPECT_THAT(nearest("m", {"mount"}), IsEmpty()) << "one letter begins anything";
}

TEST(Nearest, DashesAreNoLetters) {
  EXPECT_THAT(nearest("--l", {"--x", "--y"}), IsEmpty());
  EXPECT_THAT(nearest("-offline", {"--offline"}), ElementsAre("--offline"));
  EXPECT_THAT(nearest("--", {"--x"}), IsEmpty());
}

TEST(Nearest, WhatIsFarIsNotGuessed) {
  EXPECT_THAT(nearest("frob", kVerbs), IsEmpty());
  EXPECT_THAT(nearest("", kVerbs), IsEmpty());
  EXPECT_THAT(nearest("x", {"l", "ls"}), IsEmpty());
  EXPECT_THAT(nearest(std::string(1 << 20, 'm'), kVerbs), IsEmpty());
}

TEST(Nearest, IsSaidInASentence) {
  EXPECT_EQ(did_you_mean("moumt", {"mount", "ls"}), "; did you mean mount?");
  EXPECT_EQ(did_you_mean("bat", {"rat", "cat", "hat"}), "; did you mean rat, cat or hat?");
  EXPECT_EQ(did_you_mean("frob", kVerbs), "");
}

}  // namespace
}  // namespace weightfs
