// weightfs doctor: checks the requirements of weightfs on this machine, or whether a SOURCE opens, with advice.
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/values/value.h"
#include "cli/doctor/check_source.h"
#include "cli/doctor/checks.h"
#include "cli/process/isolated.h"
#include "cli/verbs.h"
#include "report/text/map_of.h"
#include "report/text/table.h"

namespace weightfs {
namespace {

constexpr std::array kVerdicts = {"ok", "warning", "failure"};
constexpr std::array kColors = {CellColor::green, CellColor::yellow, CellColor::red};

Map as_value(const doctor::Check& check) {
  return map_of({{"check", check.name},
                 {"verdict", kVerdicts.at(static_cast<size_t>(check.verdict))},
                 {"found", check.found},
                 {"advice", check.advice.empty() ? Value() : Value(check.advice)}});
}

doctor::Check check_in(const Map& map) {
  const auto text = [&](const char* key) { return find_text(map, key).value_or(""); };
  const auto verdict = std::find(kVerdicts.begin(), kVerdicts.end(), text("verdict")) - kVerdicts.begin();
  return {text("check"), static_cast<doctor::Verdict>(verdict), text("found"), text("advice")};
}

// A group of checks. Each runs in a process of its own, because it may hang: the cache may be on an unresponsive
// server.
struct Group {
  const char* name;
  doctor::Checks (*run)();
};

constexpr std::array<Group, 6> kGroups = {{{"fuse", doctor::check_fuse},
                                           {"cache", doctor::check_cache},
                                           {"limits", doctor::check_limits},
                                           {"kernel", doctor::check_kernel},
                                           {"libraries", doctor::check_libraries},
                                           {"sandbox", doctor::check_sandbox}}};

doctor::Check unchecked(const char* name, IsolationError why) {
  if (why == IsolationError::timed_out)
    return {name, doctor::Verdict::failure, "check timed out",
            "check whether a file system of this machine is unresponsive"};
  return {name, doctor::Verdict::failure, "check failed", "check for free memory and the limit of processes"};
}

doctor::Checks run_checks() {
  constexpr std::chrono::seconds kTimeout{10};
  std::vector<IsolatedTask> tasks;
  for (const Group& group : kGroups) {
    tasks.emplace_back([run = group.run] {
      List list;
      for (const doctor::Check& check : run()) list.push_back(as_value(check));
      Map result;
      result.append("checks", std::move(list));
      return result;
    });
  }
  const auto results = run_isolated(tasks, kTimeout);
  doctor::Checks checks;
  for (size_t i = 0; i < results.size(); ++i) {
    const List* const list = results[i] ? results[i]->find_as<List>("checks") : nullptr;
    if (list == nullptr) {
      checks.push_back(unchecked(kGroups.at(i).name, results[i] ? IsolationError::failed : results[i].error()));
      continue;
    }
    for (const Value& each : *list) checks.push_back(check_in(std::get<Map>(each)));
  }
  return checks;
}

void print(const doctor::Checks& checks) {
  Table table({{"check"}, {"verdict"}, {"found"}, {"what to do"}});
  for (const doctor::Check& check : checks) {
    const auto number = static_cast<size_t>(check.verdict);
    table.add(
        {check.name, {kVerdicts.at(number), kVerdicts.at(number), kColors.at(number)}, check.found, check.advice});
  }
  table.print();
}

void print_as_json(const doctor::Checks& checks) {
  List list;
  for (const doctor::Check& check : checks) list.push_back(as_value(check));
  std::fputs(to_json(std::move(list)).c_str(), stdout);
}

struct DoctorArguments {
  SourceInput input;
  bool json = false;
};

Exit run_doctor(DoctorArguments& given) {
  std::optional<doctor::SourceFacts> facts;
  if (!given.input.source.empty()) facts = doctor::try_to_open(given.input);
  const doctor::Checks checks = facts ? doctor::checks_of(*facts) : run_checks();
  if (given.json)
    print_as_json(checks);
  else
    print(checks);
  if (facts) return facts->error ? exit_of(facts->error->code) : Exit::ok;
  const auto failed = [](const doctor::Check& check) { return check.verdict == doctor::Verdict::failure; };
  return std::any_of(checks.begin(), checks.end(), failed) ? Exit::io : Exit::ok;
}

}  // namespace

Command doctor_command() {
  const auto given = std::make_shared<DoctorArguments>();
  Argument source = source_argument(given->input);
  source.help += "; without one, the machine is checked";
  source.count = Argument::Count::optional;
  return {"doctor",
          "check whether this machine can run weightfs, or whether a source opens",
          {std::move(source)},
          source_options(given->input, {flag("json", "print a JSON array", given->json)}),
          {},
          [given] { return run_doctor(*given); }};
}

}  // namespace weightfs
