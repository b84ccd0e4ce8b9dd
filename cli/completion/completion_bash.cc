// weightfs completion bash.
#include <fmt/core.h>

#include "base/text.h"
#include "cli/completion/completion.h"

namespace weightfs::completion {
namespace {

constexpr const char* kBashStart =
    R"bash(# bash completion for weightfs: the output of `weightfs completion bash`. Needs only bash 4.4.

# The verbs, options, kinds of option values and arguments of a command.
_weightfs_know() {
  case $1 in
)bash";

constexpr const char* kBashMiddle = R"bash(  esac
}

)bash";

constexpr const char* kBashEngine = R"bash(
# The words up to the cursor as weightfs gets them: bash also splits at = and :.
_weightfs_words() {
  local line=${COMP_LINE:0:COMP_POINT} i word gap
  words=()
  for ((i = 0; i <= COMP_CWORD; i++)); do
    gap=${line%%[![:space:]]*}
    line=${line#"$gap"}
    word=${COMP_WORDS[i]}
    ((i < COMP_CWORD)) || word=$line
    line=${line#"$word"}
    if [[ $i -gt 0 && -z $gap ]]; then words[-1]+=$word; else words+=("$word"); fi
  done
}

# The kind of the value of this option.
_weightfs_kind() {
  local value
  kind=
  for value in $values; do
    [[ ${value%%:*} != "$1" ]] || kind=${value#*:}
  done
}

# Offers the candidates that begin with the word. Readline replaces only the text after the last = or :, or after a quote.
_weightfs_reply() {
  local each tail=${COMP_WORDS[COMP_CWORD]} cut
  [[ $tail != [=:@]* ]] || tail=
  cut=${cur%"$tail"}
  for each; do
    [[ $each != "$cur"* ]] || COMPREPLY+=("${each#"$cut"}")
  done
}

# Quotes a mount point to fit the typed text, so that the shell expands and runs nothing of it: any user may have chosen
# the name. Readline closes a quote; within double quotes ! cannot be escaped.
_weightfs_quoted() {
  quoted=$1
  case $cur in
    \"*)
      [[ $1 != *!* ]] || return 1
      quoted=${quoted//\\/\\\\} quoted=${quoted//\"/\\\"} quoted=${quoted//\$/\\\$} quoted=${quoted//\`/\\\`}
      ;;
    \'*) quoted=${quoted//\'/\'\\\'\'} ;;
    *) printf -v quoted %q "$1" ;;
  esac
}

# Mount points are not accessed: a server may hang.
_weightfs_mounted() {
  local type point each quoted
  while read -r _ point type _; do
    [[ $type == fuse.weightfs ]] || continue
    printf -v point "${point//%/%%}"
    for each in "$point" "${point#"$PWD/"}"; do
      _weightfs_quoted "$each" || continue
      case $cur in
        [\"\']*) [[ $quoted != "${cur:1}"* ]] || COMPREPLY+=("$quoted") ;;
        *) _weightfs_reply "$quoted" ;;
      esac
      [[ $point == "$PWD/"* ]] || break
    done
  done </proc/self/mounts
  ((${#COMPREPLY[@]})) || compopt -o dirnames 2>/dev/null
}

_weightfs_digests() {
  local digest
  local -a long=()
  ((${#cur} <= 12)) || long=(-l)
  while read -r digest _; do
    [[ $digest != *[!0-9a-f]* ]] && _weightfs_reply "$digest"
  done < <(command "${words[0]}" cache ls "${long[@]}" 2>/dev/null)
}

# An option in a list with commas, or its value.
_weightfs_options() {
  local before=$1 last=${2##*,} values=$_weightfs_mount_values each
  before+=${2%"$last"}
  compopt -o nospace 2>/dev/null
  if [[ $last == *=* ]]; then
    _weightfs_kind "${last%%=*}"
    _weightfs_offer "$kind" "$before${last%%=*}=" "${last#*=}"
    return
  fi
  for each in $_weightfs_mount_words; do
    [[ $each != *= && ",$before" == *",$each,"* ]] || _weightfs_reply "$before$each"
  done
}

# Offers values of a kind after $2; $3 is the typed part. Readline quotes file names.
_weightfs_offer() {
  local each
  case $1 in
    file) compopt -o default 2>/dev/null ;;
    directory) compopt -o dirnames 2>/dev/null ;;
    mounted) _weightfs_mounted ;;
    digest) _weightfs_digests ;;
    format) for each in $_weightfs_formats; do _weightfs_reply "$2$each"; done ;;
    options) _weightfs_options "$2" "$3" ;;
    level) for each in error warning info debug; do _weightfs_reply "$2$each"; done ;;
    user | group) while read -r each; do _weightfs_reply "$2$each"; done < <(compgen "-${1:0:1}") ;;
    shell) _weightfs_reply bash zsh ;;
  esac
}

# Offers values for the next argument; the last kind repeats if it ends in dots.
_weightfs_argument() {
  local -a kinds=($arguments)
  local last=$((${#kinds[@]} - 1))
  ((last >= 0)) || return 0
  if ((count <= last)); then
    _weightfs_offer "${kinds[count]%...}" '' "$cur"
  elif [[ ${kinds[last]} == *... ]]; then
    _weightfs_offer "${kinds[last]%...}" '' "$cur"
  fi
}

_weightfs() {
  local words cur verb= verbs= options= values= arguments= kind= ended= count=0 word i
  COMPREPLY=()
  _weightfs_words
  cur=${words[-1]}
  _weightfs_know ''
  for ((i = 1; i < ${#words[@]} - 1; i++)); do
    word=${words[i]}
    if [[ -n $kind ]]; then
      kind=
    elif [[ -z $ended && $word == -- ]]; then
      ended=yes
    elif [[ -z $ended && $word == -?* ]]; then
      _weightfs_kind "$word"
    elif [[ -n $verbs && " $verbs " == *" $word "* ]]; then
      verb+=${verb:+ }$word
      _weightfs_know "$verb"
    else
      count=$((count + 1))
    fi
  done
  if [[ -n $kind ]]; then
    _weightfs_offer "$kind" '' "$cur"
  elif [[ -z $ended && $cur == --*=* ]]; then
    _weightfs_kind "${cur%%=*}"
    _weightfs_offer "$kind" "${cur%%=*}=" "${cur#*=}"
  elif [[ -z $ended && $cur == -* ]]; then
    _weightfs_reply $options
  elif [[ -n $verbs ]]; then
    _weightfs_reply $verbs
  else
    _weightfs_argument
  fi
}

complete -F _weightfs weightfs
)bash";

void append(std::string& words, const std::string& word) {
  words += fmt::format("{}{}", words.empty() ? "" : " ", word);
}

// The table entries of this command and its subcommands.
std::string rows(const CommandSpec& command) {
  std::string verbs, options, values, arguments, below;
  for (const OptionSpec& spec : command.options)
    for (const std::string& name : spec.names) {
      append(options, name);
      if (!spec.kind.empty()) append(values, fmt::format("{}:{}", name, spec.kind));
    }
  for (const ArgumentSpec& argument : command.arguments)
    append(arguments, argument.kind + (argument.repeats ? "..." : ""));
  for (const CommandSpec& verb : command.verbs) {
    append(verbs, verb.path.substr(verb.path.rfind(' ') + 1));
    below += rows(verb);
  }
  return fmt::format("    '{}')\n      verbs='{}' arguments='{}'\n      options='{}'\n      values='{}'\n      ;;\n{}",
                     command.path, verbs, arguments, options, values, below);
}

}  // namespace

std::string bash_script(const Completion& completion) {
  std::string formats, words, values;
  for (const std::string& name : completion.formats) append(formats, name);
  for (const MountOptionSpec& word : completion.mount_options) {
    append(words, word.name + (word.value.empty() ? "" : "="));
    if (!word.value.empty()) append(values, fmt::format("{}:{}", word.name, word.kind));
  }
  return fmt::format("{}{}{}_weightfs_formats='{}'\n_weightfs_mount_words='{}'\n_weightfs_mount_values='{}'\n{}",
                     kBashStart, rows(completion.program), kBashMiddle, formats, words, values, kBashEngine);
}

}  // namespace weightfs::completion
