// A SOURCE that is a repository. tests/mount/test_hub.py mounts some from a double of the Hub.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "sources/source.h"
#include "tests/support/may_open.h"

namespace weightfs::huggingface_test {
namespace {

TEST(HuggingfaceSource, OfflineByEnvironmentIsForTheHubOnly) {
  ::unsetenv("HF_HUB_OFFLINE");
  EXPECT_FALSE(is_offline_by_environment({"hf://org/repo"}));
  ::setenv("HF_HUB_OFFLINE", "1", 1);
  EXPECT_TRUE(is_offline_by_environment({"hf://org/repo"}));
  EXPECT_FALSE(is_offline_by_environment({"hf://org/repo", "ollama:x"}));
  EXPECT_FALSE(is_offline_by_environment({}));
  ::unsetenv("HF_HUB_OFFLINE");
}

TEST(HuggingfaceSource, NeedsAStore) {
  const auto found = find_source("hf://org/repo", {}, TestProcess::may_open());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message, "hf://org/repo: repositories are not available here");
}

TEST(HuggingfaceSource, PrefixMakesAName) {
  EXPECT_FALSE(is_path("hf://org/repo"));
  EXPECT_FALSE(is_path("hf:org/repo"));
  EXPECT_TRUE(is_path("./hf:x"));
  EXPECT_TRUE(is_path("hf"));
}

}  // namespace
}  // namespace weightfs::huggingface_test
