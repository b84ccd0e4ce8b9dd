#include "report/verdicts/text.h"

#include <fmt/core.h>

#include "base/text.h"
#include "report/text/words.h"

namespace weightfs::verdicts {
namespace {

// What the line does not show of the model.
std::string rest_of(const Verdict& verdict) {
  const bool is_whole = verdict.state == State::whole;
  // A single warning is shown; of problems the worst one is the text.
  const bool shows_warning = is_whole && verdict.problems.empty() && verdict.warnings.size() == 1;
  if (shows_warning) return "; warning: " + verdict.warnings.front();
  const uint64_t problems = verdict.problems.size() - (is_whole || verdict.problems.empty() ? 0 : 1);
  const uint64_t hidden = problems + verdict.warnings.size() + verdict.more;
  if (hidden == 0) return {};
  const bool are_warnings = problems + verdict.more == 0;
  return fmt::format("; --verbose prints {}", are_warnings ? counted(hidden, "warning", "warnings")
                                                           : counted(hidden, "more line", "more lines"));
}

}  // namespace

std::string lines_of(const Verdict& verdict, Detail detail) {
  const std::string name = printable(verdict.name);
  std::string lines;
  const bool has_all = detail == Detail::all;
  if (has_all) {
    for (const Problem& problem : verdict.problems)
      if (verdict.state == State::whole || problem.message != verdict.text)
        lines += fmt::format("{}: {}\n", name, printable(problem.message));
    if (verdict.more > 0) lines += fmt::format("{}: ... and {} more\n", name, verdict.more);
    for (const std::string& line : verdict.warnings) lines += fmt::format("{}: warning: {}\n", name, printable(line));
  }
  return lines + fmt::format("{}: {}: {}{}\n", name, name_of(verdict.state), printable(verdict.text),
                             has_all ? "" : printable(rest_of(verdict)));
}

std::string line_of(const Sum& sum) {
  std::vector<std::string> parts;
  if (sum.whole > 0) parts.push_back(fmt::format("{} whole", sum.whole));
  if (sum.damaged > 0) parts.push_back(fmt::format("{} damaged", sum.damaged));
  if (sum.failed > 0) parts.push_back(fmt::format("{} failed", sum.failed));
  const std::string code = sum.run_code == 0 ? "" : fmt::format("; {} may run code", sum.run_code);
  return fmt::format("{}: {}{}", counted(sum.models(), "model", "models"), enumerated(parts), code);
}

}  // namespace weightfs::verdicts
