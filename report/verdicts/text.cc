#include "report/verdicts/text.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "report/inspect/safety.h"
#include "report/text/style.h"
#include "report/text/words.h"

namespace weightfs::verdicts {
namespace {

// What the line does not show of the model.
std::string rest_of(const Verdict& verdict) {
  const bool is_whole = verdict.state == State::whole;
  // A single warning is shown; of problems the worst one is the text.
  const bool shows_warning =
      is_whole && verdict.problems.empty() && verdict.code.empty() && verdict.warnings.size() == 1;
  if (shows_warning) return "; warning: " + verdict.warnings.front();
  const uint64_t problems = verdict.problems.size() - (is_whole || verdict.problems.empty() ? 0 : 1);
  const uint64_t hidden = problems + verdict.warnings.size() + verdict.more;
  if (hidden == 0) return {};
  const bool are_warnings = problems + verdict.more == 0;
  return fmt::format("; --verbose prints {}", are_warnings ? counted(hidden, "warning", "warnings")
                                                           : counted(hidden, "more line", "more lines"));
}

// "WHOLE", "WHOLE, RUNS CODE (os.system when the file is unpickled)": whole bytes are not harmless ones.
std::string state_text(const Verdict& verdict) {
  if (verdict.code.empty()) return name_of(verdict.state);
  return fmt::format("{}, RUNS CODE ({})", name_of(verdict.state), printable(reasons_of(verdict.code)));
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
  return lines + fmt::format("{}: {}: {}{}\n", name, state_text(verdict), printable(verdict.text),
                             has_all ? "" : printable(rest_of(verdict)));
}

std::string wrapped(std::string_view lines, size_t width) {
  constexpr std::string_view kIndent = "    ";
  std::string out;
  size_t column = 0;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find_first_of(" \n", 1), lines.size());  // a blank stays before its word
    std::string_view word = lines.substr(0, end);
    lines.remove_prefix(end);
    if (word.front() == '\n') column = 0;
    const size_t columns = info::width_of(word.substr(word.front() == '\n' ? 1 : 0));
    if (word.front() == ' ' && column + columns > width) {
      out.append("\n").append(kIndent);
      column = kIndent.size() + columns - 1;
      word.remove_prefix(1);
    } else {
      column += columns;
    }
    out += word;
  }
  return out;
}

std::string line_of(const Sum& sum) {
  std::vector<std::string> parts;
  if (sum.whole > 0) parts.push_back(fmt::format("{} whole", sum.whole));
  if (sum.damaged > 0) parts.push_back(fmt::format("{} damaged", sum.damaged));
  if (sum.failed > 0) parts.push_back(fmt::format("{} failed", sum.failed));
  std::string out = fmt::format("{}: {}", counted(sum.models(), "model", "models"), enumerated(parts));
  if (sum.run_code > 0) out += fmt::format("; {} {} CODE", sum.run_code, sum.run_code == 1 ? "RUNS" : "RUN");
  if (sum.may_run_code > 0) out += fmt::format("; {} may run code", sum.may_run_code);
  return out;
}

}  // namespace weightfs::verdicts
