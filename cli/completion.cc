// weightfs completion: converts the parser to plain values for the script generators.
#include "cli/completion/completion.h"

#include <fmt/core.h>

#include <array>
#include <cstdio>

#include "base/text.h"
#include "cli/mount/mount_options.h"

namespace weightfs {
namespace {

// Maps the value names of --help to kinds. The scripts complete these kinds, and no others (sizes, numbers of seconds).
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kKinds = {{
    {"SOURCE", "file"},
    {"SOURCE... [MOUNTPOINT]", "file"},
    {"FILE", "file"},
    {"OUT", "file"},
    {"CONF", "file"},
    {"DIR", "directory"},
    {"MOUNTPOINT", "mounted"},
    {"DIGEST|NAME", "digest"},
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

completion::OptionSpec option_spec(const Option& option) {
  completion::OptionSpec spec;
  if (option.letter != 0) spec.names.push_back(fmt::format("-{}", option.letter));
  if (!option.name.empty()) spec.names.push_back("--" + option.name);
  spec.help = option.help;
  if (option.value.empty()) return spec;
  spec.value = option.value;
  spec.kind = kind_of(spec.names.back(), spec.value);
  return spec;
}

completion::CommandSpec command_spec(const Command& command, const std::string& path) {
  completion::CommandSpec spec;
  spec.path = path;
  spec.help = command.help;
  spec.options.push_back({{"-h"}, kShortHelpOption, "", ""});
  spec.options.push_back({{"--help"}, kHelpOption, "", ""});
  if (path.empty()) spec.options.push_back({{"-V", "--version"}, kVersionOption, "", ""});
  for (const OptionGroup& group : command.groups)
    for (const Option& option : group.options) spec.options.push_back(option_spec(option));
  for (const Argument& argument : command.arguments)
    spec.arguments.push_back({argument.name, kind_of("", argument.name), argument.repeats()});
  for (const Command& each : command.commands)
    spec.verbs.push_back(command_spec(each, path.empty() ? each.name : fmt::format("{} {}", path, each.name)));
  return spec;
}

std::vector<completion::MountOptionSpec> mount_options() {
  MountOptions options;
  std::vector<completion::MountOptionSpec> words;
  for (const Option& option : all_mount_options(options))
    words.push_back({option.word(), option.value, kind_of("--" + option.name, option.value), option.help});
  return words;
}

}  // namespace

completion::Completion completion::describe_commands(const Command& program) {
  completion::Completion completion{command_spec(program, ""), {}, mount_options()};
  for (const Format& format : formats()) completion.formats.emplace_back(format.name);
  return completion;
}

Command completion_command() {
  const auto shell = std::make_shared<std::string>();
  const auto take = [shell](const std::string& name) -> Result<void> {
    if (name != "bash" && name != "zsh")
      return failure(Code::unsupported, fmt::format("unknown shell {}; use bash or zsh", quoted(name)));
    *shell = name;
    return {};
  };
  return {"completion",
          "print a completion script for a shell",
          {{"SHELL", "name of the shell: bash or zsh", Argument::Count::one, take}},
          {},
          {},
          [shell] {
            const completion::Completion completion = completion::describe_commands(program());
            std::fputs(
                (*shell == "bash" ? completion::bash_script(completion) : completion::zsh_script(completion)).c_str(),
                stdout);
            return Exit::ok;
          }};
}

}  // namespace weightfs
