// weightfs completion: the scripts for shells, and the hidden command that they call.
#include <unistd.h>

#include <cstdio>

#include "cli/completion/shells.h"
#include "cli/verbs.h"

namespace weightfs {

// A completion that takes longer, on a file system that is not responding, ends without candidates.
constexpr unsigned kMaxSeconds = 3;

Exit print_completions(const std::vector<std::string>& words) {
  if (words.size() < 3 || words[1] != "--" || std::freopen("/dev/null", "w", stderr) == nullptr) return Exit::usage;
  ::alarm(kMaxSeconds);
  const std::vector<std::string> line(words.begin() + 2, words.end());
  std::string lines;
  if (words[0] == "bash") {
    const completion::BashLine split = completion::split_bash_line(line[0], line.size() > 1 ? line[1] : "");
    lines = completion::lines_for_bash(completion::complete(program(), split.words), split);
  } else {
    lines = completion::lines_with_help(completion::complete(program(), line));
  }
  std::fputs(lines.c_str(), stdout);
  return Exit::ok;
}

Command completion_command() {
  const auto script = std::make_shared<std::string_view>();
  const auto take = [script](const std::string& shell) -> Result<void> {
    *script = completion::script_of(shell);
    if (!script->empty()) return {};
    return failure(Code::unsupported, "unknown shell " + quoted(shell) + "; use bash, zsh or fish");
  };
  return {"completion",
          "print a completion script for a shell",
          {{"SHELL",
            "name of the shell: bash, zsh or fish",
            Argument::Count::one,
            take,
            {completion::kShells.begin(), completion::kShells.end()}}},
          {},
          {},
          [script] {
            std::fwrite(script->data(), 1, script->size(), stdout);
            return Exit::ok;
          }};
}

}  // namespace weightfs
