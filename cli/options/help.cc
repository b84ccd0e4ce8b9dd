#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "base/text.h"
#include "cli/options/command.h"

namespace weightfs {
namespace {

constexpr size_t kNames = 27;  // columns
constexpr size_t kMinWidth = 30;
constexpr size_t kMaxWidth = 100;
constexpr size_t kNarrow = 60;  // below, a text is under its name instead of beside it

// Lines of text, broken between words.
class Page {
 public:
  explicit Page(size_t columns) : width_(std::clamp(columns, kMinWidth, kMaxWidth)) {}

  bool is_narrow() const { return width_ < kNarrow; }
  size_t width() const { return width_; }

  void line(const std::string& text) { text_ += text + "\n"; }
  void paragraph(const std::string& text, size_t indent = 0) {
    add_words("", text, indent);
    line("");
  }
  void heading(const std::string& title) { line(title + ":"); }

  // A name, and its text.
  void entry(const std::string& name, const std::string& text) {
    constexpr size_t kIndent = 6;
    if (is_narrow()) {
      line("  " + name);
      add_words(std::string(kIndent, ' '), text, kIndent);
      return;
    }
    std::string begin = "  " + name;
    begin.resize(std::max(begin.size() + 2, kNames), ' ');
    add_words(begin, text, kNames);
  }

  std::string take() && { return std::move(text_); }

 private:
  // The words behind `begin`, the lines after the first one indented.
  void add_words(std::string begin, const std::string& text, size_t indent) {
    std::istringstream words(text);
    bool is_first = true;
    for (std::string word; words >> word; is_first = false) {
      if (!is_first && begin.size() + 1 + word.size() > width_) {
        line(begin);
        begin.assign(indent, ' ');
        is_first = true;
      }
      begin += (is_first ? "" : " ") + word;
    }
    line(begin);
  }

  size_t width_;
  std::string text_;
};

std::string name_of(const Option& option) {
  std::string name = option.letter == 0 ? "" : fmt::format("-{}", option.letter);
  if (!option.name.empty()) name += fmt::format("{}--{}", name.empty() ? "" : ",", option.name);
  return option.value.empty() ? name : fmt::format("{} {}", name, option.value);
}

// The names behind each other: "weightfs cache rm".
std::string command_line_of(const Invocation& invocation) {
  std::string line;
  for (const Command* const command : invocation.path) line += (line.empty() ? "" : " ") + command->name;
  return line;
}

std::string usage_of(const Invocation& invocation) {
  std::string usage = command_line_of(invocation) + " [OPTIONS]";
  if (!invocation.command().commands.empty()) usage += " COMMAND";
  for (const Argument& argument : invocation.command().arguments) {
    const bool required = argument.count == Argument::Count::one || argument.count == Argument::Count::some;
    const bool has_dots = argument.name.find("...") != argument.name.npos;
    const std::string name = argument.repeats() && !has_dots ? argument.name + "..." : argument.name;
    usage += required || has_dots ? " " + name : fmt::format(" [{}]", name);
  }
  return usage;
}

// Where the rest of the documentation is.
std::string references_of(const Invocation& invocation) {
  const std::string statuses = invocation.command().statuses;
  return "Exit status: " + (statuses.empty() ? "weightfs help exit-status" : statuses);
}

// Options of -h besides a command's own ones, the most used first.
constexpr std::array<std::string_view, 12> kMostUsed = {"allow-other", "idle-timeout", "prefetch", "format",
                                                        "offline",     "cache-size",   "no-cache", "verify",
                                                        "blob-dir",    "follow-links", "insecure", "verbose"};
constexpr size_t kShortOptions = 10;

std::vector<const Option*> most_used_options(const Command& command) {
  std::vector<const Option*> own, others;
  for (const OptionGroup& group : command.groups)
    for (const Option& option : group.options) (group.title == "Options" ? own : others).push_back(&option);
  for (const std::string_view name : kMostUsed)
    for (const Option* const option : others)
      if (option->name == name) own.push_back(option);
  if (own.size() > kShortOptions) own.resize(kShortOptions);
  return own;
}

// The begin of a help text in one line: up to a semicolon, colon or parenthesis, or the last comma that fits. "..."
// ends a text that is cut elsewhere.
std::string clause_of(const std::string& help, size_t width) {
  std::string clause = help;
  for (const char* const end : {"; ", ": ", " ("}) clause = clause.substr(0, clause.find(end));
  if (clause.size() <= width) return clause;
  if (const size_t comma = clause.rfind(", ", width); comma != clause.npos) return clause.substr(0, comma);
  constexpr std::string_view kCut = " ...";
  const size_t space = width < kCut.size() ? clause.npos : clause.rfind(' ', width - kCut.size());
  return space == clause.npos ? "" : clause.substr(0, space) + std::string(kCut);
}

using Entries = std::vector<std::pair<std::string, std::string>>;

// One line for each.
void add_lines(Page& page, const Entries& entries) {
  size_t names = 0;
  for (const auto& [name, help] : entries) names = std::max(names, name.size());
  for (const auto& [name, help] : entries) {
    const size_t before = names + 4;
    const std::string clause = clause_of(help, page.width() - std::min(before, page.width()));
    page.line(clause.empty() ? "  " + name : fmt::format("  {:{}}  {}", name, names, clause));
  }
}

Entries short_entries(const Page& page, const Command& command) {
  Entries entries;
  for (const Command& each : command.commands) entries.emplace_back(each.name, each.help);
  for (const Option* const option : most_used_options(command)) {
    std::string name = name_of(*option);
    if (page.is_narrow()) name.resize(std::min(name.find(' '), name.size()));
    entries.emplace_back(std::move(name), option->help);
  }
  return entries;
}

}  // namespace

std::string help_of(const Invocation& invocation, size_t columns) {
  const Command& command = invocation.command();
  const bool is_program = invocation.path.size() == 1;
  Page page(columns);
  page.paragraph(command.help);
  page.paragraph("Usage: " + usage_of(invocation), 7);
  if (!command.arguments.empty()) {
    page.heading("Arguments");
    for (const Argument& argument : command.arguments) page.entry(argument.name, argument.help);
    page.line("");
  }
  page.heading("Options");
  page.entry("-h", kShortHelpOption);
  page.entry("--help", kHelpOption);
  if (is_program) page.entry("-V,--version", kVersionOption);
  for (const OptionGroup& group : command.groups) {
    if (group.title != "Options") {
      page.line("");
      page.heading(group.title);
    }
    for (const Option& option : group.options) page.entry(name_of(option), option.help);
  }
  page.line("");
  if (!command.commands.empty()) {
    page.heading("Commands");
    for (const Command& each : command.commands) {
      const bool is_implied = command.implied.command == each.name;
      page.entry(each.name, each.help + (is_implied ? " (its name may be left out)" : ""));
    }
    page.line("");
  }
  page.line(references_of(invocation));
  return std::move(page).take();
}

std::string short_help_of(const Invocation& invocation, size_t columns) {
  const Command& command = invocation.command();
  Page page(columns);
  // More leave no room for the last lines in 24.
  constexpr size_t kMaxCommands = 17;
  const bool is_full = command.commands.size() > kMaxCommands;
  page.paragraph("Usage: " + usage_of(invocation) + (is_full ? " [-h]" : ""), 7);
  for (const std::string& example : command.examples) page.line("  " + example);
  if (!command.examples.empty()) page.line("");
  add_lines(page, short_entries(page, command));
  if (is_full) return std::move(page).take();
  page.line("");
  const std::string line = command_line_of(invocation);
  page.line(command.commands.empty() ? fmt::format("All options: {} --help", line)
                                     : fmt::format("Options of a command: {} COMMAND -h", line));
  return std::move(page).take();
}

}  // namespace weightfs
