#include <fmt/core.h>

#include <algorithm>
#include <sstream>

#include "base/text.h"
#include "cli/options/command.h"

namespace weightfs {
namespace {

constexpr size_t kNames = 27;  // columns
constexpr size_t kMaxWidth = 100;

class Page {
 public:
  explicit Page(size_t columns) : width_(std::clamp<size_t>(columns, 2 * kNames, kMaxWidth)) {}

  void paragraph(const std::string& text) { text_ += text + "\n\n"; }
  void heading(const std::string& title) { text_ += title + ":\n"; }
  void end_of_list() { text_ += "\n"; }

  // A name, and beside it its text, broken between words.
  void entry(const std::string& name, const std::string& text) {
    std::string line = "  " + name;
    line.resize(std::max(line.size() + 2, kNames), ' ');
    std::istringstream words(text);
    bool begins = true;
    for (std::string word; words >> word; begins = false) {
      if (!begins && line.size() + 1 + word.size() > width_) {
        text_ += line + "\n";
        line.assign(kNames, ' ');
        begins = true;
      }
      line += (begins ? "" : " ") + word;
    }
    text_ += line + "\n";
  }

  std::string take() && { return std::move(text_); }

 private:
  size_t width_;
  std::string text_;
};

std::string name_of(const Option& option) {
  std::string name = option.letter == 0 ? "" : fmt::format("-{}", option.letter);
  if (!option.name.empty()) name += fmt::format("{}--{}", name.empty() ? "" : ",", option.name);
  return option.value.empty() ? name : fmt::format("{} {}", name, option.value);
}

std::string usage_of(const Invocation& invocation) {
  std::string usage;
  for (const Command* const command : invocation.path) usage += command->name + " ";
  usage += "[OPTIONS]";
  if (!invocation.command().commands.empty()) usage += " COMMAND";
  for (const Argument& argument : invocation.command().arguments) {
    const bool required = argument.count == Argument::Count::one || argument.count == Argument::Count::some;
    const bool has_dots = argument.name.find("...") != argument.name.npos;
    const std::string name = argument.repeats() && !has_dots ? argument.name + "..." : argument.name;
    usage += required || has_dots ? " " + name : fmt::format(" [{}]", name);
  }
  return usage;
}

}  // namespace

std::string help_of(const Invocation& invocation, size_t columns) {
  const Command& command = invocation.command();
  Page page(columns);
  page.paragraph(command.help);
  page.paragraph("Usage: " + usage_of(invocation));
  if (!command.arguments.empty()) {
    page.heading("Arguments");
    for (const Argument& argument : command.arguments) page.entry(argument.name, argument.help);
    page.end_of_list();
  }
  page.heading("Options");
  page.entry("-h,--help", kHelpOption);
  if (invocation.path.size() == 1) page.entry("--version", kVersionOption);
  for (const OptionGroup& group : command.groups) {
    if (group.title != "Options") {
      page.end_of_list();
      page.heading(group.title);
    }
    for (const Option& option : group.options) page.entry(name_of(option), option.help);
  }
  page.end_of_list();
  if (!command.commands.empty()) {
    page.heading("Commands");
    for (const Command& each : command.commands) page.entry(each.name, each.help);
    page.end_of_list();
  }
  return std::move(page).take() + kExitStatuses;
}

}  // namespace weightfs
