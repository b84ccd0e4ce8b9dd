#include "base/text.h"
#include "base/values/value.h"
#include "report/text/map_of.h"
#include "report/verdicts/documents.h"

namespace weightfs::verdicts {
namespace {

Map value_of(const Problem& problem) {
  Map out = map_of({{"code", problem.code}, {"message", problem.message}});
  if (!problem.file.empty()) out.append("file", problem.file);
  return out;
}

Map value_of(const Verdict& verdict) {
  List problems, warnings;
  for (const Problem& problem : verdict.problems) problems.emplace_back(value_of(problem));
  for (const std::string& line : verdict.warnings) warnings.emplace_back(line);
  Map out = map_of({{"name", verdict.name}, {"state", lower_case(name_of(verdict.state))}, {"text", verdict.text}});
  if (!verdict.format.empty()) out.append("format", verdict.format);
  out.append("matching", map_of({{"files", verdict.files},
                                 {"ranges", verdict.ranges},
                                 {"tensors", verdict.tensors},
                                 {"layers", verdict.layers}}));
  out.append("files_without_checksum", verdict.unchecked);
  out.append("problems", std::move(problems));
  out.append("warnings", std::move(warnings));
  out.append("code", to_list(verdict.code));
  if (verdict.more > 0) out.append("omitted", verdict.more);
  return out;
}

}  // namespace

std::string to_json(const Report& report) {
  List models;
  Sum sum;
  for (const Verdict& verdict : report.verdicts) {
    models.emplace_back(value_of(verdict));
    sum.add(verdict);
  }
  List beside;
  for (const Problem& problem : report.beside) beside.emplace_back(value_of(problem));
  Map out;
  out.append("models", std::move(models));
  out.append("beside", std::move(beside));
  out.append("whole", sum.whole);
  out.append("damaged", sum.damaged);
  out.append("failed", sum.failed);
  out.append("run_code", sum.run_code);
  return weightfs::to_json(std::move(out));
}

}  // namespace weightfs::verdicts
