// The forms of candidates for bash, which splits and expands words itself.
#include "cli/completion/shells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace weightfs::completion_shells_test {
namespace {

using namespace weightfs::completion;
using testing::ElementsAre;

constexpr const char* kBreaks = " \t\n\"'@><=;|&(:";

std::vector<std::string> words(const char* line) { return split_bash_line(line, kBreaks).words; }

TEST(BashLine, WordsAreUnquoted) {
  EXPECT_THAT(words("weightfs ls  model.gguf "), ElementsAre("ls", "model.gguf", ""));
  EXPECT_THAT(words(R"(weightfs ls my\ models/a 'b c' "d \"e\" \f")"),
              ElementsAre("ls", "my models/a", "b c", "d \"e\" \\f"));
  EXPECT_THAT(words("weightfs ls ''"), ElementsAre("ls", ""));
  EXPECT_THAT(words("weightfs"), ElementsAre());
}

TEST(BashLine, CutIsBehindTheLastBreak) {
  const BashLine line = split_bash_line("weightfs mount -o all,format=gg", kBreaks);
  EXPECT_EQ(line.typed, "all,format=gg");
  EXPECT_EQ(line.typed.substr(line.cut), "gg");
  EXPECT_EQ(split_bash_line("weightfs ls ollama:", kBreaks).cut, 7u);
  EXPECT_EQ(split_bash_line(R"(weightfs ls a\:b)", kBreaks).cut, 0u);
  EXPECT_EQ(split_bash_line("weightfs ls ollama:a b", kBreaks).cut, 0u);
}

TEST(BashLine, OpenQuoteBelongsToTheLastWord) {
  const BashLine line = split_bash_line("weightfs umount \"my m:", kBreaks);
  EXPECT_THAT(line.words, ElementsAre("umount", "my m:"));
  EXPECT_EQ(line.quote, '"');
  EXPECT_EQ(line.typed, "my m:");
  EXPECT_EQ(line.cut, 0u);
}

TEST(QuotedForBash, NothingIsExpanded) {
  EXPECT_EQ(quoted_for_bash("a $(run)`b`;é", 0), R"(a\ \$\(run\)\`b\`\;é)");
  EXPECT_EQ(quoted_for_bash("a $(run)`b`\"\\'", '"'), R"(a \$(run)\`b\`\"\\')");
  EXPECT_EQ(quoted_for_bash("it's $x", '\''), R"(it'\''s $x)");
  EXPECT_EQ(quoted_for_bash("m!!", '"'), "");
}

TEST(Lines, CandidatesAreCutAndControlCharactersAreLeftOut) {
  const Completions completions{.candidates = {{"ollama:a b"}, {"ollama:a\nb"}, {"ollama:a\x1b["}}};
  EXPECT_EQ(lines_for_bash(completions, split_bash_line("weightfs ls ollama:", kBreaks)), "a\\ b\n");
  EXPECT_EQ(lines_with_help(completions), "ollama:a b\n");
}

TEST(Lines, WordsThatGoOnGetNoSpace) {
  const Completions directory{.candidates = {{"tensors/"}}};
  EXPECT_EQ(lines_for_bash(directory, split_bash_line("weightfs ls m t", kBreaks)), "tensors/\n:nospace\n");
  const Completions list{.candidates = {{"all", "also files"}}, .continues = true};
  EXPECT_EQ(lines_with_help(list), ":nospace\nall\talso files\n");
}

TEST(Lines, ShellCompletesPaths) {
  const Completions completions{.paths = Completions::Paths::directories, .before = "--blob-dir="};
  EXPECT_EQ(lines_with_help(completions), ":directory\t--blob-dir=\n");
}

TEST(Scripts, ExistForEachShellAndAreShort) {
  for (const char* const shell : kShells) {
    const std::string_view script = script_of(shell);
    EXPECT_TRUE(script.ends_with("\n")) << shell;
    EXPECT_LE(std::ranges::count(script, '\n'), 25) << shell;
  }
  EXPECT_EQ(script_of("tcsh"), "");
}

}  // namespace
}  // namespace weightfs::completion_shells_test
