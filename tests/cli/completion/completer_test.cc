// What completes a command line: commands, options and their values.
#include "cli/completion/completer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/verbs.h"

namespace weightfs::completer_test {
namespace {

using completion::Completions;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;

Completions completions(const std::vector<std::string>& words) {
  static const Command weightfs = program();
  return completion::complete(weightfs, words);
}

std::vector<std::string> offered(const std::vector<std::string>& words) {
  std::vector<std::string> texts;
  for (const auto& candidate : completions(words).candidates) texts.push_back(candidate.text);
  return texts;
}

TEST(Completer, CommandsAndTheirAliases) {
  EXPECT_THAT(offered({""}), IsSupersetOf({"mount", "umount", "ls", "cat", "info", "cache"}));
  EXPECT_THAT(offered({"inf"}), ElementsAre("info"));
  EXPECT_THAT(offered({"cache", "un"}), ElementsAre("unpin"));
  EXPECT_THAT(offered({"show", "--dup"}), ElementsAre("--duplicates"));
  EXPECT_THAT(offered({"no-command", ""}), IsEmpty());
}

TEST(Completer, SourceWithoutACommandIsThatOfInfo) {
  EXPECT_EQ(completions({"./mo"}).paths, Completions::Paths::files);
  EXPECT_EQ(completions({"mo"}).paths, Completions::Paths::none) << "commands begin so";
  EXPECT_THAT(offered({"hf"}), ElementsAre("hf://"));
  EXPECT_THAT(offered({"./model.gguf", "--dup"}), ElementsAre("--duplicates"));
}

TEST(Completer, OptionsOfTheCommand) {
  EXPECT_THAT(offered({"cache", "rm", "--a"}), ElementsAre("--all"));
  EXPECT_THAT(offered({"mount", "-"}), IsSupersetOf({"-f", "--foreground", "--cache-size", "-o", "-h", "--help"}));
  EXPECT_THAT(offered({"ls", "-"}), Not(Contains("--foreground")));
  EXPECT_THAT(offered({"ls", "--", "-"}), IsEmpty());
  EXPECT_THAT(offered({"-"}), ElementsAre("-h", "--help", "-V", "--version"));
}

TEST(Completer, ChoicesOfAnOption) {
  EXPECT_THAT(offered({"ls", "--format", "gg"}), ElementsAre("gguf", "ggml"));
  EXPECT_THAT(offered({"ls", "--format=gg"}), ElementsAre("--format=gguf", "--format=ggml"));
  EXPECT_THAT(offered({"mount", "--log-level", "w"}), ElementsAre("warning"));
  EXPECT_THAT(offered({"mount", "--sandbox="}), ElementsAre("--sandbox=on", "--sandbox=off"));
  EXPECT_THAT(offered({"mount", "--uid", "roo"}), Contains("root"));
  EXPECT_THAT(offered({"mount", "--timeout", "3"}), IsEmpty());
  EXPECT_THAT(offered({"export", "--to", "np"}), ElementsAre("npz", "npy"));
  EXPECT_THAT(offered({"completion", ""}), ElementsAre("bash", "zsh", "fish"));
}

TEST(Completer, ListsWithCommas) {
  EXPECT_THAT(offered({"ls", "--layout", "files,te"}), ElementsAre("files,tensors"));
  EXPECT_THAT(offered({"ls", "--layout", "files,fi"}), IsEmpty());
  EXPECT_TRUE(completions({"ls", "--layout", "fi"}).continues);
}

TEST(Completer, MountOptions) {
  EXPECT_THAT(offered({"mount", "-o", "all,offl"}), ElementsAre("all,offline"));
  EXPECT_THAT(offered({"mount", "-oall,offl"}), IsEmpty());  // no shell splits that word
  EXPECT_THAT(offered({"mount", "-o", "offline,offl"}), IsEmpty());
  EXPECT_THAT(offered({"mount", "-o", "cache"}), ElementsAre("cache_size="));
  EXPECT_THAT(offered({"mount", "-o", "all,format=gg"}), ElementsAre("all,format=gguf", "all,format=ggml"));
  const Completions directory = completions({"mount", "-o", "all,blob_dir=th"});
  EXPECT_EQ(directory.paths, Completions::Paths::directories);
  EXPECT_EQ(directory.before, "all,blob_dir=");
}

TEST(Completer, SourcesAreFilesUnlessTheyBeginAsNames) {
  EXPECT_EQ(completions({"ls", ""}).paths, Completions::Paths::files);
  EXPECT_EQ(completions({"ls", "/etc/"}).paths, Completions::Paths::files);
  EXPECT_THAT(offered({"ls", "olla"}), ElementsAre("ollama:"));
  EXPECT_THAT(offered({"ls", "hf"}), ElementsAre("hf://"));
  EXPECT_EQ(completions({"ls", "olla"}).paths, Completions::Paths::none);
}

TEST(Completer, ValuesOfEarlierOptionsAreNoArguments) {
  EXPECT_EQ(completions({"mount", "--blob-dir", "x", "--tree=y", "-f", ""}).paths, Completions::Paths::files);
  EXPECT_THAT(offered({"cache", "gc", "--size", "1G", "--si"}), ElementsAre("--size"));
}

TEST(Completer, SourceThatCannotBeReadHasNoPaths) {
  EXPECT_THAT(offered({"cat", "ls"}), IsEmpty());
  EXPECT_THAT(offered({"cat"}), ElementsAre("cat"));
}

}  // namespace
}  // namespace weightfs::completer_test
