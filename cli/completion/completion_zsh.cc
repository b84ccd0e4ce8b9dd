// weightfs completion zsh.
#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "cli/completion/completion.h"

namespace weightfs::completion {
namespace {

constexpr const char* kZshStart = R"zsh(#compdef weightfs
# zsh completion for weightfs: the output of `weightfs completion zsh`.

)zsh";

constexpr const char* kZshEngine = R"zsh(
_weightfs_file() { _files }
_weightfs_directory() { _files -/ }
_weightfs_shell() { compadd "$@" bash zsh }
_weightfs_level() { compadd "$@" error warning info debug }
_weightfs_user() { _users }
_weightfs_group() { _groups }
_weightfs_other() { _message 'a value' }

# Mount points are not accessed: a server may hang.
_weightfs_mounted() {
  local point type
  local -a points expl
  while read -r _ point type _; do
    [[ $type == fuse.weightfs ]] || continue
    point=${(g:o:)point}
    points+=("$point")
    [[ $point == $PWD/* ]] && points+=("${point#$PWD/}")
  done </proc/self/mounts
  _wanted mount-points expl 'mount point' compadd -M 'r:|/=* r:|=*' -a points || _files -/
}

_weightfs_digest() {
  setopt localoptions extendedglob
  local -a digests expl
  local short=-l
  ((${#PREFIX} > 12)) || short=
  digests=(${(M)${${(f)"$(_call_program digests weightfs cache ls $short 2>/dev/null)"}%% *}:#[0-9a-f](#c12,64)})
  _wanted digests expl 'digest' compadd -a digests
}

if [[ $funcstack[1] == _weightfs ]]; then _weightfs "$@"; else compdef _weightfs weightfs; fi
)zsh";

std::string escaped(const std::string& text, std::string_view specials) {
  std::string out;
  for (const char c : text) {
    if (specials.find(c) != std::string_view::npos) out += '\\';
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out;
}

// Without the list of values after a colon, which the completion offers itself.
std::string description(const std::string& help, const std::string& kind) {
  const bool lists = kind == "format" || kind == "level" || kind == "options";
  return escaped(lists ? help.substr(0, help.find(": ")) : help, "[]:\\");
}

std::string function_of(const std::string& path) {
  std::string name = fmt::format("_weightfs{}{}", path.empty() ? "" : "_", path);
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

// An option in the syntax of _arguments: '(-h --help)'{-h,--help}'[what]',
// '*--blob-dir=[what]:DIR:_weightfs_directory'.
std::string spec_of(const OptionSpec& spec) {
  std::string all, braced;
  for (const std::string& name : spec.names) {
    const std::string suffix = spec.value.empty() ? "" : name.starts_with("--") ? "=" : "+";
    all += fmt::format("{}{}", all.empty() ? "" : " ", name);
    braced += fmt::format("{}{}{}", braced.empty() ? "" : ",", name, suffix);
  }
  const bool several = spec.names.size() > 1;
  const std::string head = several ? fmt::format("'({})'{{{}}}'", all, braced)
                                   : fmt::format("{}{}", spec.value.empty() ? "'" : "'*", braced);
  const std::string tail =
      spec.value.empty() ? "" : fmt::format(":{}:_weightfs_{}", escaped(spec.value, ":"), spec.kind);
  return fmt::format("{}[{}]{}'", head, description(spec.help, spec.kind), tail);
}

std::string specs_of(const CommandSpec& command) {
  std::string specs;
  for (const OptionSpec& spec : command.options) specs += fmt::format(" \\\n    {}", spec_of(spec));
  size_t place = 0;
  for (const ArgumentSpec& argument : command.arguments) {
    ++place;
    specs += fmt::format(" \\\n    '{}:{}:_weightfs_{}'", argument.repeats ? "*" : std::to_string(place),
                         escaped(argument.name, ":"), argument.kind);
  }
  return specs;
}

// The functions of this command and its subcommands.
std::string functions(const CommandSpec& command) {
  const std::string name = function_of(command.path);
  if (command.verbs.empty()) return fmt::format("{}() {{\n  _arguments -s -S{}\n}}\n\n", name, specs_of(command));
  std::string verbs, below;
  for (const CommandSpec& verb : command.verbs) {
    verbs += fmt::format("    '{}:{}'\n", verb.path.substr(verb.path.rfind(' ') + 1), escaped(verb.help, ":\\"));
    below += functions(verb);
  }
  return fmt::format(
      "{}{}() {{\n  local curcontext=$curcontext state line\n  local -a verbs=(\n{}  )\n  _arguments -C -s -S{} \\\n   "
      " '1:command:->verb' '*::argument:->rest' && return\n  case $state in\n    verb) _describe -t commands '{}' "
      "verbs ;;\n    rest) (( $+functions[{}_$words[1]] )) && {}_$words[1] ;;\n  esac\n}}\n\n",
      below, name, verbs, specs_of(command), command.path.empty() ? "command" : command.path + " command", name, name);
}

// The options of -o in the syntax of _values, separated by commas.
std::string options_function(const Completion& completion) {
  std::string out = "_weightfs_options() {\n  _values -s , 'mount option'";
  for (const MountOptionSpec& word : completion.mount_options) {
    out += fmt::format(" \\\n    '{}[{}]{}'", word.name, description(word.help, word.kind),
                       word.value.empty() ? "" : fmt::format(":{}:_weightfs_{}", word.value, word.kind));
  }
  return out + "\n}\n";
}

}  // namespace

std::string zsh_script(const Completion& completion) {
  std::string formats;
  for (const std::string& name : completion.formats) formats += " " + name;
  return fmt::format("{}{}_weightfs_format() {{ compadd \"$@\"{} }}\n\n{}{}", kZshStart, functions(completion.program),
                     formats, options_function(completion), kZshEngine);
}

}  // namespace weightfs::completion
