#include "cli/completion/shells.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace weightfs::completion {
namespace {

// Readline quotes the names of files. $1 is the program.
constexpr std::string_view kBash =
    R"bash(# bash completion for weightfs: the program prints the candidates (`weightfs completion bash`).
_weightfs() {
  local candidate
  COMPREPLY=()
  while IFS= read -r candidate; do
    case $candidate in
      :file*) compopt -o default 2>/dev/null ;;
      :directory*) compopt -o dirnames 2>/dev/null ;;
      :nospace) compopt -o nospace 2>/dev/null ;;
      *) COMPREPLY+=("$candidate") ;;
    esac
  done < <(command "$1" complete bash -- "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
}
complete -F _weightfs weightfs
)bash";

constexpr std::string_view kZsh = R"zsh(#compdef weightfs
# zsh completion for weightfs: the program prints the candidates (`weightfs completion zsh`).
_weightfs() {
  local line tab=$'\t'
  local -a closed open space
  for line in ${(f)"$(command $words[1] complete zsh -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)"}; do
    case $line in
      (:file*) compset -P "${(b)line#*$tab}"; _files; return ;;
      (:directory*) compset -P "${(b)line#*$tab}"; _files -/; return ;;
      (:nospace) space=(-S '') ;;
      (*[/=:]|*[/=:]$tab*) open+=("${${line//:/\\:}/$tab/:}") ;;
      (*) closed+=("${${line//:/\\:}/$tab/:}") ;;
    esac
  done
  _describe weightfs closed "${space[@]}" -- open -S ''
}
if [[ $funcstack[1] == _weightfs ]]; then _weightfs "$@"; else compdef _weightfs weightfs; fi
)zsh";

constexpr std::string_view kFish =
    R"fish(# fish completion for weightfs: the program prints the candidates (`weightfs completion fish`).
function __weightfs_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    for line in (command $words[1] complete fish -- $words[2..-1] "$word" 2>/dev/null)
        set -l before (string split -m 1 \t -- $line)[2]
        set -l rest (string replace -- "$before" '' "$word")
        set -l paths
        switch $line
            case ':file*'
                set paths (__fish_complete_path $rest)
            case ':directory*'
                set paths (__fish_complete_directories $rest)
            case :nospace
            case '*'
                printf '%s\n' $line
        end
        for path in $paths
            printf '%s\n' "$before$path"
        end
    end
end
complete -c weightfs -f -a '(__weightfs_complete)'
)fish";

bool goes_on(std::string_view word) { return word.ends_with('/') || word.ends_with('=') || word.ends_with(':'); }

std::string path_line(const Completions& completions) {
  if (completions.paths == Completions::Paths::none) return {};
  const bool files = completions.paths == Completions::Paths::files;
  return fmt::format("{}\t{}\n", files ? ":file" : ":directory", completions.before);
}

}  // namespace

std::string_view script_of(std::string_view shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  return shell == "fish" ? kFish : std::string_view();
}

BashLine split_bash_line(std::string_view line, std::string_view breaks) {
  constexpr std::string_view kSpace = " \t\n";
  constexpr std::string_view kEscapedInQuotes = "\\\"$`\n";
  BashLine out;
  std::string word;
  bool is_open = false;  // a word has begun
  size_t begin = 0;      // of its text behind an opening quote, in `line`
  const auto restart = [&](size_t at) {
    begin = at;
    out.cut = 0;
  };
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool escapes = c == '\\' && out.quote != '\'' && i + 1 < line.size() &&
                         (out.quote == 0 || kEscapedInQuotes.find(line[i + 1]) != kEscapedInQuotes.npos);
    if (escapes) {
      word += line[++i];
      is_open = true;
    } else if (c == out.quote) {
      out.quote = 0;
    } else if (out.quote == 0 && (c == '\'' || c == '"')) {
      out.quote = c;
      is_open = true;
      restart(i + 1);
    } else if (out.quote == 0 && kSpace.find(c) != kSpace.npos) {
      if (is_open) out.words.push_back(std::exchange(word, ""));
      is_open = false;
      restart(i + 1);
    } else {
      word += c;
      is_open = true;
      if (out.quote == 0 && breaks.find(c) != breaks.npos) out.cut = i + 1 - begin;
    }
  }
  out.words.push_back(std::move(word));
  out.typed = line.substr(std::min(begin, line.size()));
  out.words.erase(out.words.begin());  // the program
  return out;
}

std::string quoted_for_bash(std::string_view text, char quote) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-";
  if (quote == '"' && text.find('!') != text.npos) return {};  // history expansion, which nothing escapes there
  std::string quoted;
  for (const char c : text) {
    const bool is_special = quote == '"'    ? std::string_view("\\\"$`").find(c) != std::string_view::npos
                            : quote == '\'' ? false
                                            : static_cast<signed char>(c) > 0 && kPlain.find(c) == kPlain.npos;
    if (is_special) quoted += '\\';
    quoted += quote == '\'' && c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted;
}

std::string lines_for_bash(const Completions& completions, const BashLine& line) {
  std::string lines = path_line(completions);
  bool continues = completions.continues;
  for (const Candidate& candidate : completions.candidates) {
    const std::string word = quoted_for_bash(candidate.text, line.quote);
    if (word.empty() || printable(word) != word || !word.starts_with(line.typed)) continue;
    continues = continues || goes_on(word);
    lines += word.substr(line.quote == 0 ? line.cut : 0) + "\n";
  }
  return lines + (continues ? ":nospace\n" : "");
}

std::string lines_with_help(const Completions& completions) {
  std::string lines = path_line(completions) + (completions.continues ? ":nospace\n" : "");
  for (const auto& [text, help] : completions.candidates) {
    if (printable(text) != text) continue;
    lines += text + (help.empty() ? "" : "\t" + printable(help)) + "\n";
  }
  return lines;
}

}  // namespace weightfs::completion
