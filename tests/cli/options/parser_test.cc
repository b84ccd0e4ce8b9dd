// The command line: parsed values, errors in one line, and the text of --help.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "cli/options/command.h"

namespace weightfs::parser_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Words = std::vector<std::string>;
using Action = Invocation::Action;

// A program with a command of each kind; its options and arguments set the members.
struct Sample {
  Sample() = default;
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;

  bool all = false;
  bool quiet = false;
  Words timeouts;
  Words letters;
  std::string source;
  Words paths;
  Words digests;
  std::string place;

  Option collecting(std::string name, std::string value, std::string help, Words& values, char letter = 0) {
    const auto take = [&values](const std::string& given) -> Result<void> {
      if (given == "wrong") return failure(Code::unsupported, "not a number");
      values.push_back(given);
      return {};
    };
    return {std::move(name), std::move(value), std::move(help), take, letter};
  }

  Option quiet_flag() {
    Option option = flag("quiet", "print errors only", quiet);
    option.letter = 'q';
    return option;
  }

  Command fetch() {
    return {"fetch",
            "Download the blobs of a model.",
            {argument("SOURCE", "a model", source), arguments("PATH", "paths in the model (default: all)", paths)},
            {{"Options",
              {flag("all", "also fetch files that are not models", all), quiet_flag(),
               collecting("", "WORD[,...]", "options of mount(8)", letters, 'o')}},
             {"Network",
              {collecting("timeout", "SECONDS", "give up after this long without data (default: 30)", timeouts)}}}};
  }

  Command cache() {
    Command list = {"ls", "List the blobs."};
    Command remove = {"rm", "Remove blobs.", {arguments("DIGEST", "a blob", digests, Argument::Count::some)}};
    Command move = {"mv", "Move the cache.", {argument("DIR", "a directory", place, Argument::Count::optional)}};
    return {"cache", "Maintain the cache.", {}, {}, {list, remove, move}};
  }

  const Command program = {"weightfs", "Show models as directories.", {}, {}, {fetch(), cache()}};
};

class Parser : public testing::Test {
 protected:
  // "run fetch", "help weightfs", or "error: …".
  std::string parsed(const Words& words) {
    const auto invocation = parse(sample.program, words);
    if (!invocation) {
      EXPECT_EQ(invocation.error().code, Code::unsupported);
      return "error: " + invocation.error().message;
    }
    constexpr std::array kNames = {"run", "short help", "help", "exit statuses", "version", "usage"};
    std::string out = kNames.at(static_cast<size_t>(invocation->action));
    for (const Command* const command : invocation->path) out += " " + command->name;
    return out;
  }

  Sample sample;
};

TEST_F(Parser, HelpIsAnOptionOfEveryCommandAndACommand) {
  for (const Words& words : {Words{"--help"}, Words{"help"}}) EXPECT_EQ(parsed(words), "help weightfs");
  for (const Words& words : {Words{"cache", "--help"}, Words{"help", "cache"}})
    EXPECT_EQ(parsed(words), "help weightfs cache");
  for (const Words& words : {Words{"cache", "rm", "--help"}, Words{"help", "cache", "rm"}})
    EXPECT_EQ(parsed(words), "help weightfs cache rm");
}

TEST_F(Parser, LetterAsksForTheShortHelp) {
  EXPECT_EQ(parsed({"-h"}), "short help weightfs");
  EXPECT_EQ(parsed({"cache", "-h"}), "short help weightfs cache");
  EXPECT_EQ(parsed({"cache", "rm", "-h"}), "short help weightfs cache rm");
}

TEST_F(Parser, ExitStatusesAreATopicOfHelp) { EXPECT_EQ(parsed({"help", "exit-status"}), "exit statuses weightfs"); }

TEST_F(Parser, AliasCallsTheCommandAndAHintNamesIt) {
  Command program = sample.program;
  program.commands[1].aliases = {"store"};
  program.hints = {{"get", "weightfs fetch SOURCE"}};
  const auto invocation = parse(program, {"store", "ls"});
  ASSERT_TRUE(invocation);
  EXPECT_EQ(invocation->path[1]->name, "cache");
  EXPECT_EQ(parse(program, {"get", "m"}).error().message,
            "unknown command \"get\"; use weightfs fetch SOURCE (see weightfs --help)");
}

TEST_F(Parser, OptionBeforeItsCommandIsRefusedWithItsPlace) {
  EXPECT_EQ(parsed({"-q", "fetch", "m"}),
            "error: -q: an option of commands; give it after the command (see weightfs --help)");
  EXPECT_EQ(parsed({"--timeout", "3", "fetch", "m"}),
            "error: --timeout: an option of commands; give it after the command (see weightfs --help)");
}

TEST_F(Parser, HelpNeedsNoArgumentsAndEndsParsing) {
  EXPECT_EQ(parsed({"fetch", "--all", "--help", "--unknown"}), "help weightfs fetch");
  EXPECT_EQ(parsed({"fetch", "--unknown", "--help"}), "error: --unknown: unknown option (see weightfs fetch --help)");
}

TEST_F(Parser, VersionIsAnOptionOfTheProgramOnly) {
  for (const char* const word : {"--version", "-V", "version"}) EXPECT_EQ(parsed({word}), "version weightfs");
  EXPECT_EQ(parsed({"cache", "--version"}), "error: --version: unknown option (see weightfs cache --help)");
  EXPECT_EQ(parsed({"fetch", "--version"}), "error: --version: unknown option (see weightfs fetch --help)");
}

TEST_F(Parser, MissingCommandIsRefusedWithTheKnownCommands) {
  EXPECT_EQ(parsed({"cache"}), "error: cache: missing command: ls, rm, mv (see weightfs cache --help)");
}

TEST_F(Parser, EmptyLineGetsTheShortHelp) { EXPECT_EQ(parsed({}), "usage weightfs"); }

TEST_F(Parser, ImpliedCommandTakesTheFirstWordThatIsNoCommand) {
  Command program = sample.program;
  program.implied = {"fetch", [](const std::string& word) { return word != "fetsh"; }};
  const auto named = [&](const Words& words) {
    const auto invocation = parse(program, words);
    return invocation ? invocation->command().name : invocation.error().message;
  };
  EXPECT_EQ(named({"m", "--all", "a"}), "fetch");
  EXPECT_EQ(sample.source, "m");
  EXPECT_THAT(sample.paths, ElementsAre("a"));
  EXPECT_TRUE(sample.all);
  EXPECT_EQ(named({"cache", "ls"}), "ls") << "a name that is both is the command";
  EXPECT_EQ(named({"fetsh"}), "unknown command \"fetsh\"; did you mean fetch? (see weightfs --help)");
  EXPECT_EQ(named({"help", "m"}), "unknown command \"m\"; known commands: fetch, cache (see weightfs --help)");
  EXPECT_EQ(named({"-q", "m"}), "-q: an option of commands; give it after the command (see weightfs --help)");
}

TEST_F(Parser, UnknownCommandIsRefusedWithASuggestionOrTheKnownCommands) {
  EXPECT_EQ(parsed({"fetsh"}), "error: unknown command \"fetsh\"; did you mean fetch? (see weightfs --help)");
  EXPECT_EQ(parsed({"serve"}), "error: unknown command \"serve\"; known commands: fetch, cache (see weightfs --help)");
  EXPECT_EQ(parsed({"cache", "lss"}),
            "error: unknown command \"cache lss\"; did you mean ls? (see weightfs cache --help)");
  EXPECT_EQ(parsed({"help", "serve"}),
            "error: unknown command \"serve\"; known commands: fetch, cache (see weightfs --help)");
  EXPECT_EQ(parsed({""}), "error: unknown command \"\"; known commands: fetch, cache (see weightfs --help)");
}

TEST_F(Parser, UnknownOptionIsRefusedWithASuggestion) {
  EXPECT_EQ(parsed({"--verison"}), "error: --verison: unknown option; did you mean --version? (see weightfs --help)");
  EXPECT_EQ(parsed({"cache", "--hepl"}),
            "error: --hepl: unknown option; did you mean --help? (see weightfs cache --help)");
  for (const Words& words : {Words{"fetch", "--timeuot", "9", "m"}, Words{"fetch", "m", "--timeuot=9"}})
    EXPECT_EQ(parsed(words), "error: --timeuot: unknown option; did you mean --timeout? (see weightfs fetch --help)");
  for (const Words& words : {Words{"fetch", "-x"}, Words{"fetch", "-qx"}, Words{"fetch", "m", "-x9"}})
    EXPECT_EQ(parsed(words), "error: -x: unknown option (see weightfs fetch --help)");
}

TEST_F(Parser, ControlCharactersInAMistakeAreEscaped) {
  EXPECT_EQ(parsed({"fetch", "--\x1b[2J"}), "error: --\\x1b[2J: unknown option (see weightfs fetch --help)");
  EXPECT_EQ(parsed({"cache", "ls", "\n"}), "error: too many arguments: \\x0a (see weightfs cache ls --help)");
}

TEST_F(Parser, AbbreviatedOptionIsRefused) {
  for (const Words& words : {Words{"fetch", "--time", "9", "m"}, Words{"fetch", "--time=9", "m"}})
    EXPECT_EQ(parsed(words), "error: --time: unknown option; did you mean --timeout? (see weightfs fetch --help)");
  EXPECT_EQ(parsed({"fetch", "m", "--quie"}),
            "error: --quie: unknown option; did you mean --quiet? (see weightfs fetch --help)");
  EXPECT_EQ(parsed({"fetch", "--hel"}),
            "error: --hel: unknown option; did you mean --help? (see weightfs fetch --help)");
  EXPECT_THAT(sample.timeouts, IsEmpty());
  EXPECT_FALSE(sample.quiet);
}

TEST_F(Parser, FlagIsSetByItsNameOrItsLetter) {
  EXPECT_EQ(parsed({"fetch", "m"}), "run weightfs fetch");
  EXPECT_FALSE(sample.all || sample.quiet);
  EXPECT_EQ(parsed({"fetch", "--all", "-q", "m"}), "run weightfs fetch");
  EXPECT_TRUE(sample.all && sample.quiet);
}

TEST_F(Parser, FlagWithAValueIsRefused) {
  EXPECT_EQ(parsed({"fetch", "--all=yes", "m"}), "error: --all takes no value (see weightfs fetch --help)");
  EXPECT_EQ(parsed({"fetch", "--quiet=yes", "m"}), "error: --quiet takes no value (see weightfs fetch --help)");
  EXPECT_EQ(parsed({"fetch", "--help=1"}), "error: --help takes no value (see weightfs fetch --help)");
  EXPECT_FALSE(sample.all);
}

TEST_F(Parser, ValueFollowsTheOptionOrAnEqualsSign) {
  EXPECT_EQ(parsed({"fetch", "--timeout", "1", "--timeout=2", "m", "--timeout", "", "--timeout=--all"}),
            "run weightfs fetch");
  EXPECT_THAT(sample.timeouts, ElementsAre("1", "2", "", "--all")) << "each is taken, in order";
  EXPECT_FALSE(sample.all);
}

TEST_F(Parser, ValueFollowsTheLetterOfAnOption) {
  EXPECT_EQ(parsed({"fetch", "-o", "a", "-ob", "-qo", "c", "m"}), "run weightfs fetch");
  EXPECT_THAT(sample.letters, ElementsAre("a", "b", "c"));
  EXPECT_TRUE(sample.quiet);
}

TEST_F(Parser, MissingValueIsRefusedWithItsName) {
  EXPECT_EQ(parsed({"fetch", "m", "--timeout"}), "error: --timeout needs a value: SECONDS (see weightfs fetch --help)");
  EXPECT_EQ(parsed({"fetch", "m", "-o"}), "error: -o needs a value: WORD[,...] (see weightfs fetch --help)");
}

TEST_F(Parser, WrongValueIsRefusedWithTheNameOfTheOption) {
  EXPECT_EQ(parsed({"fetch", "--timeout=wrong", "m"}), "error: --timeout: not a number (see weightfs fetch --help)");
  EXPECT_EQ(parsed({"fetch", "-owrong", "m"}), "error: -o: not a number (see weightfs fetch --help)");
}

TEST_F(Parser, ArgumentsMayAppearBetweenOptions) {
  EXPECT_EQ(parsed({"fetch", "m", "--all", "a", "--timeout", "1", "b"}), "run weightfs fetch");
  EXPECT_EQ(sample.source, "m");
  EXPECT_THAT(sample.paths, ElementsAre("a", "b"));
  EXPECT_TRUE(sample.all);
}

TEST_F(Parser, DoubleDashEndsTheOptions) {
  EXPECT_EQ(parsed({"fetch", "--", "--all", "-q", "--"}), "run weightfs fetch");
  EXPECT_EQ(sample.source, "--all");
  EXPECT_THAT(sample.paths, ElementsAre("-q", "--"));
  EXPECT_FALSE(sample.all || sample.quiet);
}

TEST_F(Parser, SingleDashIsAnArgument) {
  EXPECT_EQ(parsed({"fetch", "-", "--all"}), "run weightfs fetch");
  EXPECT_EQ(sample.source, "-");
}

TEST_F(Parser, MissingArgumentIsRefused) {
  EXPECT_EQ(parsed({"fetch", "--all"}), "error: fetch: missing SOURCE (see weightfs fetch --help)");
  EXPECT_EQ(parsed({"cache", "rm"}), "error: cache rm: missing DIGEST (see weightfs cache rm --help)");
}

TEST_F(Parser, OptionalArgumentMayBeMissing) {
  EXPECT_EQ(parsed({"cache", "mv"}), "run weightfs cache mv");
  EXPECT_EQ(sample.place, "");
  EXPECT_EQ(parsed({"cache", "mv", "d"}), "run weightfs cache mv");
  EXPECT_EQ(sample.place, "d");
}

TEST_F(Parser, RepeatedArgumentConsumesRemainingArguments) {
  EXPECT_EQ(parsed({"cache", "rm", "a", "b", "a"}), "run weightfs cache rm");
  EXPECT_THAT(sample.digests, ElementsAre("a", "b", "a"));
}

TEST_F(Parser, SurplusArgumentIsRefused) {
  EXPECT_EQ(parsed({"cache", "ls", "a"}), "error: too many arguments: a (see weightfs cache ls --help)");
  EXPECT_EQ(parsed({"cache", "mv", "a", "b", "c"}), "error: too many arguments: b (see weightfs cache mv --help)");
}

TEST_F(Parser, WrongArgumentIsRefusedWithItsName) {
  Command verify = {"verify", "Verify a model.", {argument("SOURCE", "a model", sample.source)}};
  verify.arguments[0].take = [](const std::string&) -> Result<void> {
    return failure(Code::unsupported, "not a model");
  };
  const Command program = {"weightfs", "", {}, {}, {verify}};
  const auto invocation = parse(program, {"verify", "m"});
  ASSERT_FALSE(invocation);
  EXPECT_EQ(invocation.error().message, "SOURCE: not a model (see weightfs verify --help)");
}

TEST_F(Parser, CallAfterAMistakeInAWordOfLettersParsesAnew) {
  EXPECT_EQ(parsed({"fetch", "-xq", "m"}), "error: -x: unknown option (see weightfs fetch --help)");
  EXPECT_EQ(parsed({"cache", "ls"}), "run weightfs cache ls");
  EXPECT_FALSE(sample.quiet);
}

std::string help(const Words& words, size_t columns) {
  const Sample sample;
  return help_of(parse(sample.program, words).value(), columns);
}

TEST(HelpText, ListsTheCommandsOfTheProgram) {
  EXPECT_EQ(help({"--help"}, 80), std::string(R"(Show models as directories.

Usage: weightfs [OPTIONS] COMMAND

Options:
  -h                       print the options that are used most
  --help                   print all options
  -V,--version             print the version

Commands:
  fetch                    Download the blobs of a model.
  cache                    Maintain the cache.

Exit status: weightfs help exit-status
)"));
}

TEST(HelpText, ListsArgumentsAndGroupsOfOptionsOfACommand) {
  EXPECT_EQ(help({"fetch", "--help"}, 80), std::string(R"(Download the blobs of a model.

Usage: weightfs fetch [OPTIONS] SOURCE [PATH...]

Arguments:
  SOURCE                   a model
  PATH                     paths in the model (default: all)

Options:
  -h                       print the options that are used most
  --help                   print all options
  --all                    also fetch files that are not models
  -q,--quiet               print errors only
  -o WORD[,...]            options of mount(8)

Network:
  --timeout SECONDS        give up after this long without data (default: 30)

Exit status: weightfs help exit-status
)"));
}

TEST(HelpText, ShowsWhichArgumentsAreRequired) {
  const auto usage = [](const Words& words) {
    const std::string text = help(words, 80);
    const size_t begin = text.find("Usage: ");
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_EQ(usage({"cache", "--help"}), "Usage: weightfs cache [OPTIONS] COMMAND");
  EXPECT_EQ(usage({"cache", "ls", "--help"}), "Usage: weightfs cache ls [OPTIONS]");
  EXPECT_EQ(usage({"cache", "rm", "--help"}), "Usage: weightfs cache rm [OPTIONS] DIGEST...");
  EXPECT_EQ(usage({"cache", "mv", "--help"}), "Usage: weightfs cache mv [OPTIONS] [DIR]");
}

TEST(HelpText, BreaksLinesBetweenWordsAtTheWidth) {
  bool ignored = false;
  const std::string long_name(30, 'n');
  const Command command = {
      "weightfs",
      "",
      {},
      {{"Options",
        {flag("all", "aaaa bbbb cccc dddd eeee ffff gggg hhhh", ignored), flag(long_name, "one two", ignored)}}}};
  const std::string margin(27, ' ');
  const auto body = [&](size_t columns) {
    const std::string text = help_of({Action::help, {&command, &command}}, columns);
    const size_t begin = text.find("  --all");
    return text.substr(begin, text.find("\n\n", begin) - begin);
  };
  const std::string name = "  --all" + std::string(20, ' ');
  const std::string wide = name + "aaaa bbbb cccc dddd eeee ffff gggg hhhh\n  --" + long_name + "  one two";
  const std::string narrow =
      "  --all\n      aaaa bbbb cccc dddd eeee\n      ffff gggg hhhh\n  --" + long_name + "\n      one two";
  EXPECT_EQ(body(66), wide) << "the text ends in the last column";
  EXPECT_EQ(body(65), name + "aaaa bbbb cccc dddd eeee ffff gggg\n" + margin + "hhhh\n  --" + long_name + "  one two");
  EXPECT_EQ(body(30), narrow);
  EXPECT_EQ(body(1), narrow) << "never less than 30 columns";
  EXPECT_EQ(body(1000), wide);
}

std::string short_help(const Words& words, size_t columns) {
  const Sample sample;
  Command program = sample.program;
  program.commands[0].examples = {"weightfs fetch m.carton", "weightfs fetch --all hf://org/repo"};
  return short_help_of(parse(program, words).value(), columns);
}

TEST(ShortHelp, HasUsageExamplesAndOptionsInOneLineEach) {
  EXPECT_EQ(short_help({"fetch", "-h"}, 80), R"(Usage: weightfs fetch [OPTIONS] SOURCE [PATH...]

  weightfs fetch m.carton
  weightfs fetch --all hf://org/repo

  --all          also fetch files that are not models
  -q,--quiet     print errors only
  -o WORD[,...]  options of mount(8)

All options: weightfs fetch --help
)");
  EXPECT_EQ(short_help({"-h"}, 80), R"(Usage: weightfs [OPTIONS] COMMAND

  fetch  Download the blobs of a model.
  cache  Maintain the cache.

Options of a command: weightfs COMMAND -h
)");
}

TEST(ShortHelp, CutsTextsAtTheWidth) {
  EXPECT_EQ(short_help({"fetch", "-h"}, 40), R"(Usage: weightfs fetch [OPTIONS] SOURCE
       [PATH...]

  weightfs fetch m.carton
  weightfs fetch --all hf://org/repo

  --all       also fetch files that ...
  -q,--quiet  print errors only
  -o          options of mount(8)

All options: weightfs fetch --help
)");
}

TEST(ShortHelp, HasTenOptionsAtMost) {
  bool ignored = false;
  Options many, network;
  for (char c = 'a'; c < 'i'; ++c) many.push_back(flag(std::string(2, c), "text (default: none)", ignored));
  for (const char* const name : {"stream", "offline", "format", "prefetch"})
    network.push_back(flag(name, "one; two", ignored));
  const Command command = {"weightfs", "", {}, {{"Options", many}, {"Network", network}}};
  const std::string text = short_help_of({Action::short_help, {&command}}, 80);
  EXPECT_EQ(std::count(text.begin(), text.end(), '-'), 2 * 10 + 2);
  EXPECT_NE(text.find("  --prefetch  one\n  --format    one\n"), text.npos);
  EXPECT_EQ(text.find("--offline"), text.npos);
}

TEST(HelpText, IsNeverWiderThan100Columns) {
  bool ignored = false;
  std::string words;
  for (int i = 0; i < 60; ++i) words += "word ";
  const Command command = {"weightfs", "", {}, {{"Options", {flag("all", words, ignored)}}}};
  const std::string text = help_of({Action::help, {&command, &command}}, 1000);
  size_t widest = 0;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    widest = std::max(widest, end - begin);
  EXPECT_EQ(widest, 96U) << "27 columns and 14 words";
}

}  // namespace
}  // namespace weightfs::parser_test
