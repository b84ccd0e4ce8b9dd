#include "cli/mistake.h"

#include <algorithm>
#include <vector>

#include "base/nearest.h"
#include "base/text.h"

namespace weightfs {
namespace {

using Words = std::vector<std::string>;

Words verbs_of(const CLI::App& app) {
  Words names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

Words long_options_of(const CLI::App& app) {
  Words names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

bool contains(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string joined(const Words& words) {
  std::string out;
  for (const std::string& word : words) out += str(out.empty() ? "" : ", ", word);
  return out;
}

// `family` is the command that it would be one of: "cache ".
std::string no_command(const std::string& family, const std::string& word, const Words& known) {
  const std::string guess = did_you_mean(word, known);
  return str("no command ", quoted(family + word), guess.empty() ? "; there are " + joined(known) : guess);
}

}  // namespace

std::string mistake_in(const CLI::App& app, int argc, char** argv, const std::string& problem) {
  const std::string see = " (see weightfs --help)";
  const CLI::App* verb = &app;
  std::string family;
  int i = 1;
  for (Words known = verbs_of(app); i < argc && argv[i][0] != '-' && !known.empty(); known = verbs_of(*verb), ++i) {
    if (!contains(known, argv[i])) return no_command(family, argv[i], known) + see;
    verb = verb->get_subcommand(argv[i]);
    family += str(argv[i], " ");
  }
  const Words options = long_options_of(*verb);
  const std::string see_verb = str(" (see weightfs ", family, "--help)");
  for (; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") break;
    const std::string option = word.substr(0, word.find('='));
    if (word.starts_with("--") && !contains(options, option))
      return str(printable(option), ": no such option", did_you_mean(option, options), see_verb);
  }
  return problem + see_verb;
}

}  // namespace weightfs
