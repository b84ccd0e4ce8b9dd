// weightfs doctor: whether this machine has what weightfs needs, and what to do where it has not.
#include <algorithm>
#include <array>
#include <cstdio>

#include "base/text.h"
#include "base/values/value.h"
#include "cli/console/table.h"
#include "cli/doctor/checks.h"
#include "cli/process/isolated.h"
#include "cli/verbs.h"

namespace weightfs {
namespace {

constexpr std::array kVerdicts = {"ok", "warning", "failure"};
constexpr std::array kMoods = {Mood::good, Mood::doubtful, Mood::bad};

Value as_value(const Check& check) {
  Map out;
  out.append("check", check.name);
  out.append("verdict", kVerdicts.at(static_cast<size_t>(check.verdict)));
  out.append("found", check.found);
  out.append("advice", check.advice.empty() ? Value() : Value(check.advice));
  return out;
}

Check check_in(const Map& map) {
  const auto text = [&](const char* key) { return text_in(map, key).value_or(""); };
  const auto verdict = std::find(kVerdicts.begin(), kVerdicts.end(), text("verdict")) - kVerdicts.begin();
  return {text("check"), static_cast<Verdict>(verdict), text("found"), text("advice")};
}

// A group of checks, which may hang: a cache may lie on a server that does not answer.
struct Group {
  const char* name;
  Checks (*look)();
};

constexpr std::array<Group, 5> kGroups = {{{"fuse", check_fuse},
                                           {"cache", check_cache},
                                           {"limits", check_limits},
                                           {"kernel", check_kernel},
                                           {"sandbox", check_sandbox}}};

Check not_looked_at(const char* name, NoAnswer why) {
  if (why == NoAnswer::in_time)
    return {name, Verdict::failure, "looking at it took too long",
            "see whether the file systems of this machine answer"};
  return {name, Verdict::failure, "cannot be looked at", "see whether there are memory and processes left"};
}

Checks look_at_everything() {
  constexpr std::chrono::seconds kLongest{10};
  std::vector<Question> questions;
  for (const Group& group : kGroups) {
    questions.emplace_back([look = group.look] {
      List list;
      for (const Check& check : look()) list.push_back(as_value(check));
      Map answer;
      answer.append("checks", std::move(list));
      return answer;
    });
  }
  const auto answers = ask_apart(questions, kLongest);
  Checks checks;
  for (size_t i = 0; i < answers.size(); ++i) {
    const Value* found = answers[i] ? answers[i]->find("checks") : nullptr;
    const List* list = found == nullptr ? nullptr : std::get_if<List>(found);
    if (list == nullptr) {
      checks.push_back(not_looked_at(kGroups.at(i).name, answers[i] ? NoAnswer::at_all : answers[i].error()));
      continue;
    }
    for (const Value& each : *list) checks.push_back(check_in(std::get<Map>(each)));
  }
  return checks;
}

void print(const Checks& checks) {
  Table table({{"check"}, {"verdict"}, {"found"}, {"what to do"}});
  for (const Check& check : checks) {
    const auto number = static_cast<size_t>(check.verdict);
    table.add({check.name, {kVerdicts.at(number), kVerdicts.at(number), kMoods.at(number)}, check.found, check.advice});
  }
  table.print();
}

void print_as_json(const Checks& checks) {
  List list;
  for (const Check& check : checks) list.push_back(as_value(check));
  std::fputs(to_json(std::move(list)).c_str(), stdout);
}

Exit examine(bool json) {
  const Checks checks = look_at_everything();
  if (json)
    print_as_json(checks);
  else
    print(checks);
  const auto failed = [](const Check& check) { return check.verdict == Verdict::failure; };
  return std::any_of(checks.begin(), checks.end(), failed) ? Exit::io : Exit::ok;
}

}  // namespace

void add_doctor(CLI::App& app, Run& run) {
  auto json = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand("doctor", "say whether this machine has what weightfs needs");
  verb->add_flag("--json", *json, "as a JSON array");
  verb->callback([&run, json] { run = [json] { return examine(*json); }; });
}

}  // namespace weightfs
