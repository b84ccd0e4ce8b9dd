#include "cli/console/help.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/text.h"
#include "cli/console/terminal.h"

namespace weightfs {
namespace {

constexpr size_t kNameColumns = 27;  // columns
constexpr size_t kMaxColumns = 100;

// Collapses several empty lines into one.
std::string with_single_blank_lines(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (c != '\n' || !out.ends_with("\n\n")) out += c;
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace

Help::Help() {
  label("Positionals", "Arguments");
  label("SUBCOMMAND", "COMMAND");
}

std::string Help::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  return with_single_blank_lines(Formatter::make_help(app, std::move(name), mode));
}

std::string Help::make_usage(const CLI::App* app, std::string name) const {
  return "\n" + Formatter::make_usage(app, std::move(name));
}

std::string Help::make_option(const CLI::Option* option, bool is_positional) const {
  const std::string value = is_positional || option->get_type_size() == 0 ? "" : " " + option->get_type_name();
  return entry(make_option_name(option, is_positional) + value, option->get_description());
}

std::string Help::make_subcommands(const CLI::App* app, CLI::AppFormatMode) const {
  std::string out;
  for (const CLI::App* verb : app->get_subcommands({})) out += make_subcommand(verb);
  return out.empty() ? out : "\nCommands:\n" + out;
}

std::string Help::make_subcommand(const CLI::App* verb) const {
  return entry(verb->get_name(), verb->get_description());
}

// A name and its description, wrapped between words.
std::string Help::entry(const std::string& name, const std::string& text) const {
  const size_t columns = std::clamp<size_t>(columns_of(STDOUT_FILENO).value_or(80), 2 * kNameColumns, kMaxColumns);
  std::string out, line = "  " + name;
  line.resize(std::max(line.size() + 2, kNameColumns), ' ');
  std::istringstream words(text);
  bool begins = true;
  for (std::string word; words >> word; begins = false) {
    if (!begins && line.size() + 1 + word.size() > columns) {
      out += line + "\n";
      line.assign(kNameColumns, ' ');
      begins = true;
    }
    line += (begins ? "" : " ") + word;
  }
  return out + line + "\n";
}

}  // namespace weightfs
