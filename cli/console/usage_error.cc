#include "cli/console/usage_error.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "cli/console/suggestions.h"

namespace weightfs {
namespace {

using Words = std::vector<std::string>;

Words verbs_of(const CLI::App& app) {
  Words names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

bool has_short_option(const CLI::App& app, char letter) {
  const auto is = [letter](const std::string& name) { return name[0] == letter; };
  const auto all = app.get_options();
  return std::any_of(all.begin(), all.end(), [&](const CLI::Option* option) {
    return std::any_of(option->get_snames().begin(), option->get_snames().end(), is);
  });
}

Words long_options_of(const CLI::App& app) {
  Words names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// The parts of `text` before, between and after `pieces`; empty unless it contains all of them in this order.
Words parts_of(const std::string& text, std::initializer_list<std::string_view> pieces) {
  Words parts;
  size_t begin = 0;
  for (const std::string_view piece : pieces) {
    const size_t at = text.find(piece, begin);
    if (at == std::string::npos) return {};
    parts.push_back(text.substr(begin, at - begin));
    begin = at + piece.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// Converts CLI11's message to the form of the other messages.
std::string reworded(const std::string& problem, const std::string& command) {
  for (const char* extra : {"argument was not expected: ", "arguments were not expected: "})
    if (const Words parts = parts_of(problem, {extra}); !parts.empty())
      return str("too many arguments: ", printable(parts[1]));
  if (const Words parts = parts_of(problem, {" is required"}); !parts.empty())
    return str(command, ": missing ", parts[0]);
  if (const Words parts = parts_of(problem, {": 1 required ", " missing"}); !parts.empty())
    return str(parts[0], " needs a value: ", parts[1]);
  if (const Words parts = parts_of(problem, {" excludes "}); !parts.empty())
    return str(parts[0], " and ", parts[1], " exclude each other");
  return problem;
}

bool contains(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string joined(const Words& words) {
  std::string out;
  for (const std::string& word : words) out += str(out.empty() ? "" : ", ", word);
  return out;
}

// `family` is the parent command: "cache ".
std::string no_command(const std::string& family, const std::string& word, const Words& known) {
  const std::string guess = did_you_mean(word, known);
  return str("unknown command ", quoted(family + word), guess.empty() ? "; known commands: " + joined(known) : guess);
}

}  // namespace

std::string usage_error(const CLI::App& app, int argc, char** argv, const std::string& problem) {
  const CLI::App* verb = &app;
  std::string family;
  const auto see = [&family] { return str(" (see weightfs ", family, "--help)"); };
  int i = 1;
  Words known = verbs_of(app);
  for (; i < argc && argv[i][0] != '-' && !known.empty(); known = verbs_of(*verb), ++i) {
    if (!contains(known, argv[i])) return no_command(family, argv[i], known) + see();
    verb = verb->get_subcommand(argv[i]);
    family += str(argv[i], " ");
  }
  const Words options = long_options_of(*verb);
  for (; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") break;
    const std::string option = word.substr(0, word.find('='));
    if (word.starts_with("--") ? !contains(options, option)
                               : word.size() > 1 && word[0] == '-' && !has_short_option(*verb, word[1]))
      return str(printable(option), ": unknown option", did_you_mean(option, options), see());
  }
  const std::string command = family.substr(0, family.size() - (family.empty() ? 0 : 1));
  if (!known.empty()) return str(command, command.empty() ? "" : ": ", "missing command: ", joined(known), see());
  return reworded(problem, command) + see();
}

}  // namespace weightfs
