// Verdicts about models: their states, their lines, and the documents for programs.
#include "report/verdicts/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/model.h"
#include "report/verdicts/documents.h"
#include "report/verdicts/text.h"

namespace weightfs::verdict_test {
namespace {

using testing::HasSubstr;
using verdicts::Detail;
using verdicts::Report;
using verdicts::State;
using verdicts::Sum;
using verdicts::Verdict;

Model model_with_files(const std::vector<std::string>& paths) {
  Model model;
  model.format = "gguf";
  for (const std::string& path : paths) model.parts.push_back({path, Later<SourcePtr>::of(in_memory("bytes"))});
  return model;
}

Verification with_wrong(std::vector<std::string> lines) {
  Verification found;
  found.wrong = std::move(lines);
  return found;
}

TEST(Verdict, WholeModelHasItsOnlyWarningInTheLine) {
  Model model = model_with_files({"a"});
  model.warnings = {"key \"x\" is unknown"};
  const Verdict verdict = verdicts::judge(model, {.checked = 1}, "m.gguf");
  EXPECT_EQ(verdict.state, State::whole);
  EXPECT_EQ(lines_of(verdict, Detail::one_line),
            "m.gguf: WHOLE: 1 file matches its checksum; warning: key \"x\" is unknown\n");
  model.warnings.emplace_back("another");
  EXPECT_EQ(lines_of(verdicts::judge(model, {.checked = 1}, "m.gguf"), Detail::one_line),
            "m.gguf: WHOLE: 1 file matches its checksum; --verbose prints 2 warnings\n");
}

TEST(Verdict, FirstProblemIsInTheLineAndTheOthersAreCounted) {
  const Model model = model_with_files({"a", "b"});
  const Verdict verdict = verdicts::judge(model, with_wrong({"\"a\": differs", "\"b\": differs"}), "m");
  EXPECT_EQ(verdict.state, State::damaged);
  EXPECT_EQ(lines_of(verdict, Detail::one_line), "m: DAMAGED: \"a\": differs; --verbose prints 1 more line\n");
  EXPECT_EQ(lines_of(verdict, Detail::all), "m: \"b\": differs\nm: DAMAGED: \"a\": differs\n");
  ASSERT_EQ(verdict.problems.size(), 2u);
  EXPECT_EQ(verdict.problems[1].file, "b");
}

TEST(Verdict, FileThatCannotBeDownloadedIsNoDamage) {
  Verification found;
  found.unreadable = {{Code::network, "\"a\": timed out"}};
  EXPECT_EQ(verdicts::judge(model_with_files({"a"}), found, "m").state, State::failed);
  found.unreadable.push_back({Code::corrupt, "\"a\": CRC-32 differs"});
  EXPECT_EQ(verdicts::judge(model_with_files({"a"}), found, "m").state, State::damaged);
}

TEST(Verdict, ProblemsBeyondTheLimitAreCounted) {
  const std::vector<std::string> lines(verdicts::kMaxKept, "\"a\": differs");
  Verification found = with_wrong(lines);
  found.more = 7;
  const Verdict verdict = verdicts::judge(model_with_files({"a"}), found, "m");
  EXPECT_EQ(verdict.problems.size() + verdict.more, verdicts::kMaxKept + 7);
}

TEST(Verdict, ControlCharactersOfNamesAreEscapedInLines) {
  const Verdict verdict = verdicts::failed("m\x1b[2J", {Code::io, "bad\nline"});
  EXPECT_EQ(lines_of(verdict, Detail::one_line), "m\\x1b[2J: FAILED: bad\\x0aline\n");
}

TEST(Verdict, SumLeavesOutWhatThereIsNot) {
  Sum sum;
  sum.add({.name = "a", .state = State::whole, .text = ""});
  EXPECT_EQ(line_of(sum), "1 model: 1 whole");
  sum.add(verdicts::failed("b", {Code::not_found, "b: missing"}));
  Verdict code{.name = "c", .state = State::whole, .text = ""};
  add_code(code, {Code::unsupported, "c: names os.system, which can run code"});
  sum.add(code);
  EXPECT_EQ(line_of(sum), "3 models: 2 whole, 1 failed; 1 may run code");
}

TEST(Verdict, WholeModelThatRunsCodeSaysSoInEachForm) {
  Model model = model_with_files({"a"});
  add_pickled_code(model.common, "os.system", kUnpickled);
  model.warnings = {"names os.system"};
  const Verdict verdict = verdicts::judge(model, {.checked = 1}, "m.pkl");
  EXPECT_EQ(verdict.state, State::whole);
  EXPECT_EQ(
      lines_of(verdict, Detail::one_line),
      "m.pkl: WHOLE, RUNS CODE (os.system when the file is unpickled): 1 file matches its checksum; --verbose prints "
      "1 warning\n");
  Sum sum;
  sum.add(verdict);
  EXPECT_EQ(line_of(sum), "1 model: 1 whole; 1 RUNS CODE");
  Report report;
  report.verdicts.push_back(verdict);
  EXPECT_THAT(verdicts::to_json(report), HasSubstr("\"what\": \"os.system\""));
  EXPECT_THAT(verdicts::to_json(report), HasSubstr("\"run_code\": 1"));
  EXPECT_THAT(to_sarif(report, "1"), HasSubstr("\"level\": \"warning\""));
  add_code(report.verdicts.front(), {Code::unsupported, "m.pkl: names os.system, which can run code"});
  EXPECT_THAT(to_sarif(report, "1"), testing::Not(HasSubstr("\"level\": \"warning\""))) << "--safe has the error";
}

TEST(Verdict, LinesOfATerminalAreBrokenAtBlanks) {
  EXPECT_EQ(verdicts::wrapped("m.gguf: WHOLE: 2 files match\nb: no\n", 14),
            "m.gguf: WHOLE:\n    2 files\n    match\nb: no\n");
  EXPECT_EQ(verdicts::wrapped("/a/long/path/m.gguf: WHOLE\n", 10), "/a/long/path/m.gguf:\n    WHOLE\n");
}

TEST(Verdict, SarifHasUrisOfFilesAndMembers) {
  const Model archive = model_with_files({"a b", "c"});
  Report report;
  report.verdicts.push_back(verdicts::judge(archive, with_wrong({"\"a b\": differs"}), "dir/\xc3\xa4 #1.zip"));
  report.verdicts.push_back(verdicts::failed("hf://org/repo@main", {Code::network, "timed out"}));
  report.verdicts.push_back(verdicts::failed("/abs/m.gguf", {Code::corrupt, "cut"}));
  const std::string log = to_sarif(report, "1.2.3");
  EXPECT_THAT(log, HasSubstr("\"uri\": \"dir/%C3%A4%20%231.zip\""));
  EXPECT_THAT(log, HasSubstr("\"fullyQualifiedName\": \"dir/\xc3\xa4 #1.zip/a b\""));
  EXPECT_THAT(log, HasSubstr("\"uri\": \"hf://org/repo%40main\""));
  EXPECT_THAT(log, HasSubstr("\"uri\": \"file:///abs/m.gguf\""));
  EXPECT_THAT(log, HasSubstr("\"version\": \"1.2.3\""));
}

}  // namespace
}  // namespace weightfs::verdict_test
