#include "report/verdicts/verdict.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/text.h"
#include "formats/code/code.h"
#include "formats/model.h"
#include "formats/other_files.h"
#include "report/inspect/verified.h"
#include "report/text/errors.h"

namespace weightfs::verdicts {
namespace {

// Bytes that are not those of the model, or are missing; all else is about the server, the rules or this machine.
bool is_damage(Code code) {
  constexpr auto kDamage = std::to_array({Code::mismatch, Code::corrupt, Code::not_found, Code::absent});
  return std::ranges::find(kDamage, code) != kDamage.end();
}

// Lines about a file begin with its quoted path.
class FilesByName {
 public:
  explicit FilesByName(const Model& model) {
    for (const Part& part : model.parts) paths_.emplace(quoted(part.path), &part.path);
  }

  std::string file_of(std::string_view line) const {
    const size_t end = line.find("\": ");
    const auto found = end == line.npos ? paths_.end() : paths_.find(std::string(line.substr(0, end + 1)));
    return found == paths_.end() ? "" : *found->second;
  }

 private:
  std::unordered_map<std::string, const std::string*> paths_;
};

void add(Verdict& verdict, Problem problem) {
  if (verdict.problems.size() < kMaxKept)
    verdict.problems.push_back(std::move(problem));
  else
    ++verdict.more;
}

void add_problems(Verdict& verdict, const Model& model, const Verification& found) {
  if (found.wrong.empty() && found.unreadable.empty()) return;
  const FilesByName files(model);
  const std::string mismatch(error_name({Code::mismatch, {}}));
  for (const std::string& line : found.wrong) add(verdict, {mismatch, line, files.file_of(line)});
  for (const Error& error : found.unreadable)
    add(verdict, {std::string(error_name(error)), error.message, files.file_of(error.message)});
  verdict.more += found.more;
}

void add_warnings(Verdict& verdict, const Model& model, const Verification& found) {
  const auto keep = [&](const std::string& line) {
    const auto is_same = [&](const Problem& problem) { return problem.message == line; };
    if (verdict.problems.size() < 100 && std::ranges::any_of(verdict.problems, is_same)) return;
    if (verdict.warnings.size() < kMaxKept)
      verdict.warnings.push_back(line);
    else
      ++verdict.more;
  };
  for (const std::string& line : found.edited) keep(line);
  for (const std::string& line : model.warnings) keep(line);
}

State state_of(const Verification& found, const Completeness& completeness) {
  const auto damages = [](const Error& error) { return is_damage(error.code); };
  const bool is_damaged = !found.wrong.empty() || std::ranges::any_of(found.unreadable, damages) ||
                          (completeness.reason && is_damage(completeness.reason->code));
  if (is_damaged) return State::damaged;
  return found.unreadable.empty() && completeness.is_complete() ? State::whole : State::failed;
}

}  // namespace

const char* name_of(State state) {
  constexpr std::array kNames = {"WHOLE", "DAMAGED", "FAILED"};
  return kNames.at(static_cast<size_t>(state));
}

Verdict judge(const Model& model, const Verification& found, const std::string& name) {
  const Completeness completeness = completeness_of(model);
  Verdict verdict{.name = name,
                  .state = state_of(found, completeness),
                  .text = {},
                  .format = std::string(model.format),
                  .files = found.checked,
                  .ranges = found.ranges,
                  .tensors = found.tensors,
                  .layers = found.packed.size(),
                  .unchecked = found.unchecked,
                  .is_directory = model.chosen.is_set(),
                  .code = code_of(model).items};
  if (!completeness.is_complete())
    add(verdict, {std::string(error_name(*completeness.reason)), to_sentence(completeness)});
  add_problems(verdict, model, found);
  add_warnings(verdict, model, found);
  verdict.text = verdict.state == State::whole ? summarize(model, found) : verdict.problems.front().message;
  return verdict;
}

Verdict failed(const std::string& name, const Error& error) {
  const std::string message = without_name(name, error.message);
  Verdict verdict{.name = name, .state = State::failed, .text = message};
  if (error.code == Code::corrupt || error.code == Code::mismatch) verdict.state = State::damaged;
  verdict.problems.push_back({std::string(error_name(error)), message});
  return verdict;
}

Problem problem_of_code(const Error& error) {
  const bool is_code = error.code == Code::unsupported && error.name == nullptr;
  return {is_code ? kRunsCode : std::string(error_name(error)), error.message};
}

void add_code(Verdict& verdict, const Error& error) {
  Problem problem = problem_of_code(error);
  problem.message = without_name(verdict.name, problem.message);
  // The path in the model of a file in it.
  if (const std::string above = printable(verdict.name) + "/"; problem.message.starts_with(above))
    problem.message.erase(0, above.size());
  add(verdict, std::move(problem));
}

void Sum::add(const Verdict& verdict) {
  ++(verdict.state == State::whole ? whole : verdict.state == State::damaged ? damaged : failed);
  const auto is_code = [](const Problem& problem) { return problem.code == kRunsCode; };
  if (!verdict.code.empty())
    ++run_code;
  else if (std::ranges::any_of(verdict.problems, is_code))
    ++may_run_code;
}

}  // namespace weightfs::verdicts
