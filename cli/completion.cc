// weightfs completion: converts the parser to plain values for the script generators.
#include "cli/completion/completion.h"

#include <array>
#include <cstdio>

#include "base/text.h"
#include "cli/mount/mount_options.h"

namespace weightfs {
namespace {

// Maps the value names of --help to kinds. The scripts complete these kinds, and no others (sizes, numbers of seconds).
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

OptionSpec option_spec(const CLI::Option& option) {
  OptionSpec spec;
  for (const std::string& name : option.get_snames()) spec.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) spec.names.push_back("--" + name);
  spec.help = option.get_description();
  if (option.get_items_expected_max() == 0) return spec;
  spec.value = option.get_type_name();
  spec.kind = kind_of(spec.names.back(), spec.value);
  return spec;
}

CommandSpec command_spec(const CLI::App& app, const std::string& path) {
  CommandSpec command;
  command.path = path;
  command.help = app.get_description();
  for (const CLI::Option* option : app.get_options(is_shown)) {
    if (option->nonpositional()) command.options.push_back(option_spec(*option));
    if (!option->get_positional()) continue;
    const std::string name = option->get_name(true);
    command.arguments.push_back({name, kind_of("", name), option->get_items_expected_max() > 1});
  }
  for (const CLI::App* verb : app.get_subcommands(is_verb))
    command.verbs.push_back(command_spec(*verb, path.empty() ? verb->get_name() : str(path, " ", verb->get_name())));
  return command;
}

std::vector<MountOptionSpec> mount_options() {
  MountOptions options;
  std::vector<MountOptionSpec> words;
  for (const Option& option : all_mount_options(options))
    words.push_back({option.word(), option.value, kind_of("--" + option.name, option.value), option.help});
  return words;
}

}  // namespace

Completion describe_commands(const CLI::App& app) {
  Completion completion{command_spec(app, ""), {}, mount_options()};
  for (const Format& format : formats()) completion.formats.emplace_back(format.name);
  return completion;
}

void add_completion(CLI::App& app, Run& run) {
  auto shell = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("completion", "print a completion script for a shell");
  verb->add_option_function<std::string>(
          "SHELL",
          [shell](const std::string& name) {
            if (name != "bash" && name != "zsh")
              throw CLI::ValidationError("SHELL", str("unknown shell ", weightfs::quoted(name), "; use bash or zsh"));
            *shell = name;
          },
          "name of the shell: bash or zsh")
      ->required();
  verb->callback([&app, &run, shell] {
    run = [&app, shell] {
      const Completion completion = describe_commands(app);
      std::fputs((*shell == "bash" ? bash_script(completion) : zsh_script(completion)).c_str(), stdout);
      return Exit::ok;
    };
  });
}

}  // namespace weightfs
