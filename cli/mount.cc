// weightfs mount: serves in the foreground, or in a process of its own.
#include "cli/mount/mount.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include "base/text.h"
#include "cli/console/help.h"
#include "cli/verbs.h"

namespace weightfs {
namespace {

Error cannot(const char* what, int error) {
  return {Code::io, str(what, ": ", std::generic_category().message(error))};
}

void point_at_null(std::initializer_list<int> descriptors) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int descriptor : descriptors) ::dup2(null, descriptor);
  ::close(null);
}

// To the system's log; as long as somebody waits for the mount, what keeps it from being made is for them.
Log::Write background_log(const std::atomic<bool>& is_usable) {
  return [&is_usable, write = system_log(), tell = standard_error()](Level level, const std::string& line) {
    write(level, line);
    if (!is_usable && level == Level::error) tell(level, line);
  };
}

// Serves in a process of its own, and returns when it can be used, or with the exit status if it never can.
Exit in_background(Serving serving, MountPoint& point) {
  std::array<int, 2> ready{};
  if (::pipe2(ready.data(), O_CLOEXEC) != 0) return complain(cannot("pipe", errno));
  const pid_t child = ::fork();
  if (child < 0) return complain(cannot("fork", errno));
  if (child == 0) {
    ::close(ready[0]);
    point_at_null({STDIN_FILENO, STDOUT_FILENO});
    std::atomic<bool> is_usable = false;
    Log log(serving.options.log_level, background_log(is_usable));
    serving.watch.on_usable = [&](const Mounted&) {
      // From here on nobody reads standard error, and whoever captures it must not wait for us; nor must the directory
      // that we were started in stay busy. Until here Ctrl-C ended both processes.
      is_usable = true;
      point_at_null({STDERR_FILENO});
      (void)!::chdir("/");
      ::setsid();
      // Whoever killed the command wanted no mount.
      if (::write(ready[1], "u", 1) != 1) ::kill(::getpid(), SIGTERM);
      ::close(ready[1]);
    };
    std::exit(static_cast<int>(serve_sources(std::move(serving), point, log)));
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
  return complain({Code::io, str("the server died of signal ", WTERMSIG(status))});
}

// CLI11 puts dots behind the whole of "SOURCE... MOUNTPOINT", and brackets around it.
class PlainUsage : public Help {
 public:
  std::string make_usage(const CLI::App*, std::string name) const override {
    return "\nUsage: " + name + " [OPTIONS] SOURCE... MOUNTPOINT\n";
  }
};

struct MountArguments {
  std::vector<std::string> paths;  // sources, then the mount point
  std::vector<std::string> words;  // each -o
  bool foreground = false;
  MountOptions options;
};

Exit mount(MountArguments& arguments) {
  if (arguments.paths.size() < 2) {
    complain({Code::io, str("mount needs ", arguments.paths.empty() ? "a SOURCE and a MOUNTPOINT" : "a MOUNTPOINT",
                            " (see weightfs mount --help)")});
    return Exit::usage;
  }
  for (const std::string& words : arguments.words)
    if (const auto taken = take_words(arguments.options, words, Words::ours); !taken) {
      complain(taken.error());
      return Exit::usage;
    }
  const std::string mountpoint = arguments.paths.back();
  arguments.paths.pop_back();
  const auto stay = arguments.foreground ? Stay::foreground : Stay::background;
  return mount_at({arguments.paths, arguments.options}, mountpoint, stay);
}

}  // namespace

Exit mount_at(Serving serving, const std::string& mountpoint, Stay stay) {
  // What a caller has open (a lock, a pipe) must not stay open as long as the mount.
  if (stay == Stay::background) ::close_range(STDERR_FILENO + 1, ~0U, 0);
  auto point = MountPoint::at(mountpoint);
  if (!point) {
    complain(point.error());
    return Exit::mount;
  }
  if (stay == Stay::background) return in_background(std::move(serving), *point);
  Log log(serving.options.log_level, standard_error());
  return serve_sources(std::move(serving), *point, log);
}

void add_mount(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<MountArguments>();
  CLI::App* verb = app.add_subcommand("mount", "show models as a read-only directory");
  // Not required, so that what is missing is said in our words.
  verb->add_option("SOURCE... MOUNTPOINT", arguments->paths,
                   "model files, directories of models, Ollama stores or names such as ollama:llama3.2, then the "
                   "directory to mount on (made if it is missing)")
      ->expected(0, -1);
  verb->formatter(std::make_shared<PlainUsage>());
  verb->add_flag("-f,--foreground", arguments->foreground, "stay in the foreground; Ctrl-C unmounts");
  verb->add_option("-o", arguments->words,
                   "the options below, as fstab has them: " + words_of(all_mount_options(arguments->options)))
      ->type_name("OPTIONS")
      ->expected(1)
      ->allow_extra_args(false)  // what follows the one argument is a source
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_options(*verb, own_mount_options(arguments->options), "Mounting");
  add_opening_options(*verb, arguments->options.opening);
  add_store_options(*verb, arguments->options.storing);
  verb->callback([&run, arguments] { run = [arguments] { return mount(*arguments); }; });
}

}  // namespace weightfs
