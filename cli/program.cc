#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verbs.h"

namespace weightfs {
namespace {

struct Example {
  std::string_view command;
  std::array<const char*, 2> lines;
};

// Two lines of -h for each command, "cache" for all of its commands.
constexpr auto kExamples = std::to_array<Example>({
    {"weightfs", {"weightfs model.gguf", "weightfs mount hf://org/repo mnt"}},
    {"mount", {"weightfs mount model.gguf mnt", "weightfs mount -f --offline ollama:llama3.2"}},
    {"umount", {"weightfs umount mnt", "weightfs umount --all"}},
    {"mounts", {"weightfs mounts", "weightfs mounts --json"}},
    {"refresh", {"weightfs refresh mnt", "weightfs refresh /srv/weights"}},
    {"serve", {"weightfs serve model.gguf", "weightfs serve --listen 0.0.0.0:8421 --token-file token models/"}},
    {"open", {"weightfs open model.gguf", "weightfs open base.safetensors tuned.safetensors"}},
    {"ls", {"weightfs ls model.gguf", "weightfs ls -l hf://org/repo tensors"}},
    {"cat", {"weightfs cat model.gguf metadata.json", "weightfs cat model.safetensors lm_head.weight >lm_head.bin"}},
    {"info", {"weightfs info model.gguf", "weightfs info --json hf://org/repo"}},
    {"stats", {"weightfs stats model.gguf", "weightfs stats model.gguf --sort std --top 20"}},
    {"diff", {"weightfs diff a.safetensors b.safetensors", "weightfs diff --stat base/ tuned/"}},
    {"plot", {"weightfs plot model.gguf", "weightfs plot model.gguf blk.0.attn_q.weight -o q.png"}},
    {"export", {"weightfs export model.gguf model.safetensors", "weightfs export --to npy model.gguf arrays"}},
    {"verify", {"weightfs verify model.carton", "weightfs verify --tree model.blocks model.gguf"}},
    {"fetch", {"weightfs fetch hf://org/repo", "weightfs fetch model.carton tensors/lm_head.weight"}},
    {"cache", {"weightfs cache ls", "weightfs cache gc --size 20G"}},
    {"service", {"weightfs service show /etc/weightfs/mounts.d/llama.conf", "systemctl start weightfs@llama"}},
    {"doctor", {"weightfs doctor", "weightfs doctor hf://org/repo"}},
    {"completion", {"weightfs completion bash", "weightfs completion zsh"}},
});

std::vector<std::string> examples_of(std::string_view command) {
  const auto* const found = std::ranges::find(kExamples, command, &Example::command);
  if (found == kExamples.end()) return {};
  return {found->lines.begin(), found->lines.end()};
}

// A path that exists, the name of a model on a server, or a word that is not a mistyped command: no command has these
// characters, and `info` says what is wrong with the word.
bool is_source(const std::string& word) {
  struct stat status {};
  return word.find_first_of("/.:") != word.npos || ::lstat(word.c_str(), &status) == 0;
}

}  // namespace

Command program() {
  Command program{"weightfs", "Mount machine-learning model files as read-only directories."};
  program.commands = {mount_command(), umount_command(),  mounts_command(), refresh_command(),   serve_command(),
                      open_command(),  ls_command(),      cat_command(),    info_command(),      stats_command(),
                      diff_command(),  plot_command(),    export_command(), verify_command(),    fetch_command(),
                      cache_command(), service_command(), doctor_command(), completion_command()};
  for (Command& command : program.commands) {
    command.examples = examples_of(command.name);
    for (Command& each : command.commands) each.examples = command.examples;
    if (command.name == "info") command.aliases = {"show"};
    if (command.name == "ls") command.aliases = {"list"};
    if (command.name == "umount") command.aliases = {"unmount"};
  }
  program.examples = examples_of(program.name);
  program.implied = {"info", is_source};
  program.hints = {{"convert", "weightfs export SOURCE OUT"}};
  return program;
}

}  // namespace weightfs
