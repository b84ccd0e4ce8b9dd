// weightfs mount: serves in the foreground, or in a background process.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/os/system_error.h"
#include "base/text.h"
#include "cli/mount/mount_name.h"
#include "cli/mount/unmount.h"
#include "cli/mount_server/mount_at.h"
#include "cli/mount_server/serve.h"
#include "cli/verbs.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

void point_at_null(std::initializer_list<int> descriptors) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int descriptor : descriptors) ::dup2(null, descriptor);
  ::close(null);
}

// Writes to syslog. Until the mount is usable, errors also go to the command's standard error.
Log::Sink background_log(const std::atomic<bool>& is_usable) {
  return [&is_usable, write = syslog_sink(), tell = stderr_sink()](Level level, const std::string& line) {
    write(level, line);
    if (!is_usable && level == Level::error) tell(level, line);
  };
}

// Serves in a child process. Returns when the mount is usable, or with the exit status of the child.
Exit in_background(ServeParams params, MountPoint& point) {
  std::array<int, 2> ready{};
  if (::pipe2(ready.data(), O_CLOEXEC) != 0) return report_error(io_error("pipe"));
  const pid_t child = ::fork();
  if (child < 0) return report_error(io_error("fork"));
  if (child == 0) {
    ::close(ready[0]);
    point_at_null({STDIN_FILENO, STDOUT_FILENO});
    std::atomic<bool> is_usable = false;
    Log log(params.options.log_level, background_log(is_usable));
    params.observer.on_usable = [&](const ServerState&) {
      // The command returns now: a caller that captures its output must not wait for the server, and its working
      // directory must not stay busy. Until here Ctrl-C ends both processes.
      is_usable = true;
      point_at_null({STDERR_FILENO});
      (void)!::chdir("/");
      ::setsid();
      // If the command was killed, the mount is not wanted.
      if (::write(ready[1], "u", 1) != 1) ::kill(::getpid(), SIGTERM);
      ::close(ready[1]);
    };
    std::exit(static_cast<int>(serve_sources(std::move(params), point, log)));
  }
  ::close(ready[1]);
  char usable = 0;
  ssize_t got = 0;
  while ((got = ::read(ready[0], &usable, 1)) < 0 && errno == EINTR) {
  }
  if (got == 1) return Exit::ok;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) return static_cast<Exit>(WEXITSTATUS(status));
  return report_error({Code::io, fmt::format("the server process was killed by signal {}", WTERMSIG(status))});
}

struct MountArguments {
  std::vector<std::string> paths;  // sources, then the mount point
  std::vector<std::string> words;  // each -o
  bool foreground = false;
  MountOptions options;
};

// Where a mount without MOUNTPOINT goes: a new or empty directory here, named after the model.
Result<std::string> implied_mount_point(const std::string& source) {
  const std::string point = "./" + TRY(mount_name(source));
  if (weightfs_at(point)) return point;  // MountPoint::at() refuses it, or removes it if its server died
  std::error_code error;
  const auto status = std::filesystem::symlink_status(point, error);
  if (status.type() == std::filesystem::file_type::not_found) return point;
  if (status.type() == std::filesystem::file_type::directory && std::filesystem::is_empty(point, error) && !error)
    return point;
  const auto word = command_word(printable_source(source));
  return failure(Code::io, fmt::format("{}: exists and is not an empty directory; {}", point,
                                       word ? fmt::format("use weightfs mount {} MOUNTPOINT", *word)
                                            : std::string("name a MOUNTPOINT after SOURCE")));
}

Exit mount(MountArguments& arguments) {
  if (arguments.paths.empty())
    return report_error({Code::io, "mount: missing SOURCE (see weightfs mount --help)"}, Exit::usage);
  for (const std::string& words : arguments.words)
    if (const auto taken = parse_mount_options(arguments.options, words, OptionOrigin::command_line); !taken)
      return report_error(taken.error(), Exit::usage);
  const auto mode = arguments.foreground ? RunMode::foreground : RunMode::background;
  if (arguments.paths.size() == 1) {
    const auto point = implied_mount_point(arguments.paths.front());
    if (!point) return report_error(point.error(), Exit::mount);
    return mount_at({arguments.paths, arguments.options}, *point, mode, Announce::on_stdout);
  }
  const std::string mountpoint = arguments.paths.back();
  arguments.paths.pop_back();
  return mount_at({arguments.paths, arguments.options}, mountpoint, mode);
}

}  // namespace

Exit mount_at(ServeParams params, const std::string& mountpoint, RunMode mode, Announce announce) {
  // Descriptors of the caller (locks, pipes) must not stay open in the server.
  if (mode == RunMode::background) ::close_range(STDERR_FILENO + 1, ~0U, 0);
  auto point = MountPoint::at(mountpoint);
  if (!point) return report_error(point.error(), Exit::mount);
  const auto print_point = [&] {
    if (announce != Announce::on_stdout) return;
    const auto word = command_word(mountpoint);
    const std::string hint = word ? fmt::format("; weightfs umount {} unmounts it", *word) : "";
    std::printf("mounted at %s%s\n", printable(mountpoint).c_str(), hint.c_str());
  };
  if (mode == RunMode::background) {
    const Exit status = in_background(std::move(params), *point);
    if (status == Exit::ok) print_point();
    return status;
  }
  params.observer.on_usable = [&](const ServerState&) {
    print_point();
    std::fflush(stdout);
  };
  Log log(params.options.log_level, stderr_sink());
  return serve_sources(std::move(params), *point, log);
}

Command mount_command() {
  const auto given = std::make_shared<MountArguments>();
  Option words = list(
      "", "OPTIONS",
      "options below in the syntax of fstab, separated by commas: " + option_names(all_mount_options(given->options)),
      given->words);
  words.letter = 'o';
  Option verbose =
      flag('v', "verbose",
           "also log debug messages; print the formats that were tried, and why each refused it, if a file is not a "
           "model",
           given->options.open_options.lists_tried);
  verbose.take = [given](const std::string&) -> Result<void> {
    given->options.open_options.lists_tried = true;
    given->options.log_level = Level::debug;
    return {};
  };
  Option quiet{"quiet", "", "log only errors", {}, 'q'};
  quiet.take = [given](const std::string&) -> Result<void> {
    given->options.log_level = Level::error;
    return {};
  };
  auto groups = source_options(given->options.open_options, given->options.store_flags,
                               {flag('f', "foreground", "run in the foreground; Ctrl-C unmounts", given->foreground),
                                std::move(verbose), std::move(quiet), std::move(words)});
  groups.insert(groups.begin() + 1, {"Mounting", own_mount_options(given->options)});
  return {"mount",
          "mount models as a read-only directory",
          {arguments("SOURCE... [MOUNTPOINT]",
                     "model files, directories of models, Ollama stores or names such as ollama:llama3.2 or "
                     "hf://org/repo, then the directory to mount on, created if missing (default, for one SOURCE: a "
                     "new directory here, named after the model)",
                     given->paths, Argument::Count::any)},
          std::move(groups),
          {},
          [given] { return mount(*given); }};
}

}  // namespace weightfs
