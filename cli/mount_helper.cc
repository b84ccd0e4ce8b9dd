#include "cli/mount_helper.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/os/descriptor.h"
#include "base/os/system_error.h"
#include "base/text.h"
#include "cli/mount_server/mount_at.h"
#include "cli/systemd/start_service.h"
#include "cli/verbs.h"

namespace weightfs {
namespace {

struct Arguments {
  std::vector<std::string> paths;
  std::vector<std::string> words;  // each -o
  std::string service;             // -o service=NAME: weightfs@NAME.service
  std::string mount_namespace;     // -N: mount namespace to mount in, a pid or a file; empty: the current one
  bool is_fake = false;            // -f: do not mount
  bool is_sloppy = false;          // -s: ignore unknown options
};

constexpr const char* kUsage = "mount.weightfs SOURCE DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS]";

// Exit status bits of mount(8) and its helpers.
constexpr int kWrongUsage = 1;
constexpr int kNotMounted = 32;

int wrong_usage(const std::string& what) {
  report_error({Code::io, what});
  return kWrongUsage;
}

void take(Arguments& arguments, const std::string& words) {
  constexpr std::string_view kService = "service=";
  arguments.words.push_back(words);
  for (const std::string& word : split_words(words))
    if (word.starts_with(kService)) arguments.service = word.substr(kService.size());
}

// Flags may be combined, and placed before or after the paths.
Result<Arguments> parse(const std::vector<std::string>& words) {
  Arguments arguments;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& argument = words[i];
    if (argument.size() < 2 || argument[0] != '-') {
      arguments.paths.push_back(argument);
      continue;
    }
    for (size_t at = 1; at < argument.size(); ++at) {
      const char letter = argument[at];
      if (letter == 'f') arguments.is_fake = true;
      if (letter == 's') arguments.is_sloppy = true;
      if (std::string_view("fsnvrw").find(letter) != std::string_view::npos) continue;
      if (std::string_view("otN").find(letter) == std::string_view::npos)
        return failure(Code::unsupported, fmt::format("unknown option -{}", printable(std::string(1, letter))));
      std::string value = argument.substr(at + 1);
      if (value.empty() && ++i == words.size())
        return failure(Code::unsupported, fmt::format("-{} needs a value", letter));
      if (value.empty()) value = words[i];
      if (letter == 'o') take(arguments, value);
      if (letter == 'N') arguments.mount_namespace = value;
      break;
    }
  }
  return arguments;
}

// Sources are resolved in that namespace, too.
Result<void> enter_mount_namespace(const std::string& name) {
  const bool is_process = name.find_first_not_of("0123456789") == name.npos;
  const std::string file = is_process ? fmt::format("/proc/{}/ns/mnt", name) : name;
  const Descriptor found(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (found && ::setns(found.number(), CLONE_NEWNS) == 0) return {};
  return failure(io_error(fmt::format("-N {}", name)));
}

// Starts the service; its config has the source and the options.
Exit start(const Arguments& arguments) {
  const auto started = service::start_service(arguments.service, arguments.paths[1]);
  if (started) return Exit::ok;
  return report_error(started.error(), Exit::mount);
}

}  // namespace

bool is_mount_helper(std::string_view program) {
  const std::string_view name = program.substr(program.rfind('/') + 1);
  return name == "mount.weightfs" || name == "mount.fuse.weightfs";
}

bool is_called_by_mount_fuse(const std::vector<std::string>& words) {
  // A source in fstab is an absolute path or the name of a model, and no verb has a slash or a colon in it.
  return words.size() == 4 && !words[0].starts_with('-') && words[0].find_first_of("/:") != std::string::npos &&
         words[2] == "-o";
}

int run_mount_helper(const std::vector<std::string>& words) {
  if (words.size() == 1 && (words[0] == "--help" || words[0] == "-h"))
    return std::printf("Usage: %s\nOPTIONS are those of weightfs mount; see mount.weightfs(8).\n", kUsage) < 0;
  if (words.size() == 1 && (words[0] == "--version" || words[0] == "-V"))
    return std::puts("weightfs " WEIGHTFS_VERSION) < 0;
  const auto arguments = parse(words);
  if (!arguments) return wrong_usage(arguments.error().message);
  if (arguments->paths.size() != 2) return wrong_usage(fmt::format("usage: {}", kUsage));
  if (!arguments->mount_namespace.empty())
    if (const auto entered = enter_mount_namespace(arguments->mount_namespace); !entered)
      return wrong_usage(entered.error().message);
  const bool is_service = !arguments->service.empty();
  if (is_service && !arguments->is_fake) return start(*arguments) == Exit::ok ? 0 : kNotMounted;
  MountOptions options;
  for (const std::string& each : arguments->words)
    if (const auto taken =
            parse_mount_options(options, each, arguments->is_sloppy ? OptionOrigin::sloppy_fstab : OptionOrigin::fstab);
        !taken)
      return wrong_usage(taken.error().message);
  if (arguments->is_fake) return 0;
  const Exit status = mount_at({{arguments->paths[0]}, options}, arguments->paths[1], RunMode::background);
  return status == Exit::ok ? 0 : kNotMounted;
}

}  // namespace weightfs
