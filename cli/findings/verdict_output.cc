#include "cli/findings/verdict_output.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "report/text/style.h"

namespace weightfs::verdicts {
namespace {

void print(const std::string& lines) {
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  std::fputs((is_terminal ? wrapped(lines, info::style_of_stdout().width) : lines).c_str(), stdout);
}

}  // namespace

void VerdictOutput::add(Verdict verdict) {
  sum_.add(verdict);
  if (form_ == Form::text)
    print(lines_of(verdict, detail_));
  else
    report_.verdicts.push_back(std::move(verdict));
}

void VerdictOutput::add_unopened(const std::string& name, const Error& error) {
  if (form_ != Form::text || sources_ == Sources::several) add(failed(name, error));
}

void VerdictOutput::add_beside(Problem problem) {
  if (form_ != Form::text) report_.beside.push_back(std::move(problem));
}

void VerdictOutput::end(bool is_directory) const {
  if (form_ == Form::json) {
    std::fputs(to_json(report_).c_str(), stdout);
  } else if (form_ == Form::sarif) {
    std::fputs(to_sarif(report_, WEIGHTFS_VERSION).c_str(), stdout);
  } else if (sum_.models() > 0 && (is_directory || sources_ == Sources::several)) {
    print(line_of(sum_) + "\n");
  }
}

}  // namespace weightfs::verdicts
