#include "cli/findings/verdict_output.h"

#include <cstdio>
#include <utility>

namespace weightfs::verdicts {

void VerdictOutput::add(Verdict verdict) {
  sum_.add(verdict);
  if (form_ == Form::text)
    std::fputs(lines_of(verdict, detail_).c_str(), stdout);
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
    std::printf("%s\n", line_of(sum_).c_str());
  }
}

}  // namespace weightfs::verdicts
