// weightfs completion: the parser as plain values.
#include "cli/completion/completion.h"

#include <array>
#include <cstdio>

#include "base/text.h"
#include "cli/mount/mount_options.h"

namespace weightfs {
namespace {

// What a value is, by the name that --help gives it. Both scripts know how to complete each of these; of others (a
// size, a number of seconds) there is nothing to offer.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kKinds = {{
    {"SOURCE", "file"},
    {"SOURCE... MOUNTPOINT", "file"},
    {"FILE", "file"},
    {"CONF", "file"},
    {"DIR", "directory"},
    {"MOUNTPOINT", "mounted"},
    {"DIGEST", "digest"},
    {"OPTIONS", "options"},
    {"SHELL", "shell"},
    {"USER", "user"},
    {"GROUP", "group"},
    {"LEVEL", "level"},
}};

std::string kind_of(const std::string& option, const std::string& value) {
  if (option == "--format") return "format";
  for (const auto& [name, kind] : kKinds)
    if (value == name) return std::string(kind);
  return "other";
}

bool is_shown(const CLI::Option* option) { return !option->get_group().empty(); }
bool is_verb(const CLI::App* app) { return !app->get_name().empty() && !app->get_group().empty(); }

Choice choice_of(const CLI::Option& option) {
  Choice choice;
  for (const std::string& name : option.get_snames()) choice.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) choice.names.push_back("--" + name);
  choice.what = option.get_description();
  if (option.get_items_expected_max() == 0) return choice;
  choice.value = option.get_type_name();
  choice.kind = kind_of(choice.names.back(), choice.value);
  return choice;
}

Command command_of(const CLI::App& app, const std::string& path) {
  Command command;
  command.path = path;
  command.what = app.get_description();
  for (const CLI::Option* option : app.get_options(is_shown)) {
    if (option->nonpositional()) command.choices.push_back(choice_of(*option));
    if (!option->get_positional()) continue;
    const std::string name = option->get_name(true);
    command.arguments.push_back({name, kind_of("", name), option->get_items_expected_max() > 1});
  }
  for (const CLI::App* verb : app.get_subcommands(is_verb))
    command.verbs.push_back(command_of(*verb, path.empty() ? verb->get_name() : str(path, " ", verb->get_name())));
  return command;
}

std::vector<MountWord> mount_words() {
  MountOptions options;
  std::vector<MountWord> words;
  for (const Option& option : all_mount_options(options))
    words.push_back({option.word(), option.value, kind_of("--" + option.name, option.value), option.help});
  return words;
}

}  // namespace

Completion completion_of(const CLI::App& app) {
  Completion completion{command_of(app, ""), {}, mount_words()};
  for (const Format& format : formats()) completion.formats.emplace_back(format.name);
  return completion;
}

void add_completion(CLI::App& app, Run& run) {
  auto shell = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("completion", "print what a shell needs to complete these commands");
  verb->add_option_function<std::string>(
          "SHELL",
          [shell](const std::string& name) {
            if (name != "bash" && name != "zsh")
              throw CLI::ValidationError("SHELL",
                                         str("no script for ", weightfs::quoted(name), "; there are bash, zsh"));
            *shell = name;
          },
          "bash or zsh")
      ->required();
  verb->callback([&app, &run, shell] {
    run = [&app, shell] {
      const Completion completion = completion_of(app);
      std::fputs((*shell == "bash" ? bash_script(completion) : zsh_script(completion)).c_str(), stdout);
      return Exit::ok;
    };
  });
}

}  // namespace weightfs
