// weightfs mount, weightfs umount.
#include <fcntl.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <set>
#include <system_error>

#include "base/text.h"
#include "cli/mount_point.h"
#include "cli/status.h"
#include "cli/verbs.h"
#include "fs/forest.h"
#include "fs/session.h"

namespace weightfs {
namespace {

struct MountArguments {
  std::vector<std::string> paths;  // sources, then the mount point
  std::vector<std::string> options;
  bool foreground = false;
  Storing storing;
  Opening opening;
};

Error cannot(const char* what, int error) {
  return {Code::io, str(what, ": ", std::generic_category().message(error))};
}

// The options of -o: for us, for the kernel, or already true of every mount.
Result<std::vector<std::string>> kernel_options(MountArguments& arguments) {
  Opening& opening = arguments.opening;
  constexpr std::array kPassed = {"allow_other", "allow_root", "auto_unmount", "noexec", "noatime"};
  constexpr std::array kAlways = {"ro", "nosuid", "nodev", "default_permissions"};
  constexpr std::string_view kFormat = "format=";
  std::vector<std::string> passed;
  for (const std::string& option : arguments.options) {
    const auto is = [&](const char* name) { return option == name; };
    if (std::any_of(kPassed.begin(), kPassed.end(), is)) {
      passed.push_back(option);
    } else if (option == "all") {
      opening.all_files = true;
    } else if (option.starts_with(kFormat)) {
      if (!set_format(opening, option.substr(kFormat.size())))
        return failure(Code::unsupported, str("-o ", quoted(option), ": there are ", format_names()));
    } else if (!TRY(take_store_option(arguments.storing, option)) && !std::any_of(kAlways.begin(), kAlways.end(), is)) {
      return failure(Code::unsupported, str("unknown mount option ", quoted(option), "; known are ", mount_option_names()));
    }
  }
  return passed;
}

// The store and the session each say a thing once; where both say it, it is still said once.
class SaidOnce {
 public:
  explicit SaidOnce(std::function<void(const std::string&)> log) : log_(std::move(log)) {}
  void say(const std::string& line) {
    {
      const std::scoped_lock lock(mutex_);
      if (lines_.size() == kMost || !lines_.insert(line).second) return;
    }
    log_(line);
  }

 private:
  static constexpr size_t kMost = 10'000;
  const std::function<void(const std::string&)> log_;
  std::mutex mutex_;  // guards lines_
  std::set<std::string> lines_;
};

// Opens the sources and serves them; `on_usable` is called once they can be used.
Exit serve_sources(const MountArguments& arguments, MountPoint& point, const std::vector<std::string>& options,
                   const std::function<void()>& on_usable, const std::function<void(const std::string&)>& write) {
  const auto log = [said = std::make_shared<SaidOnce>(write)](const std::string& line) { said->say(line); };
  const std::vector<std::string> sources(arguments.paths.begin(), arguments.paths.end() - 1);
  Opening opening = arguments.opening;
  opening.hidden = point.path();
  if (const auto directory = cache_directory(); directory && !arguments.storing.no_cache)
    if (const auto apart = check_not_in_a_mount(*directory, point.path()); !apart) {
      complain(apart.error());
      return Exit::mount;
    }
  const auto store = use_store(opening, arguments.storing, log);
  if (!store) return complain(store.error());
  auto tree = open_sources(sources, opening);
  if (!tree) return complain(tree.error());
  Forest forest(std::move(*tree), {{kPidXattr, std::to_string(::getpid())}});
  forest.hide(kStatusDirectory, status_tree(*store));
  const std::string source = sources.size() == 1 ? absolute_path(sources[0]).value_or(sources[0]) : "weightfs";
  const auto served = point.make().and_then([&] {
    return serve(forest, {point.path(), source, options, on_usable, [&] { opening.blobs->stop(); },
                          arguments.storing.stream, log});
  });
  // A reader that was never told of the end may hold what it reads, and with it the store, for as long as we live.
  opening.blobs->stop();
  point.remove_if_made();
  if (served) return Exit::ok;
  complain(served.error());
  return Exit::mount;
}

void log_to_syslog(const std::string& line) { ::syslog(LOG_WARNING, "%s", line.c_str()); }

void point_at_null(std::initializer_list<int> descriptors) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int descriptor : descriptors) ::dup2(null, descriptor);
  ::close(null);
}

// Runs `serve` in a process of its own and returns when it can be used, or with its exit status if it never can.
Exit in_background(const std::function<Exit(const std::function<void()>& on_usable)>& serve) {
  std::array<int, 2> ready{};
  if (::pipe2(ready.data(), O_CLOEXEC) != 0) return complain(cannot("pipe", errno));
  const pid_t child = ::fork();
  if (child < 0) return complain(cannot("fork", errno));
  if (child == 0) {
    ::close(ready[0]);
    point_at_null({STDIN_FILENO, STDOUT_FILENO});
    const Exit status = serve([&] {
      // From here on nobody reads standard error, and whoever captures it must not wait for us; nor must the directory
      // that we were started in stay busy. Until here Ctrl-C ended both processes.
      point_at_null({STDERR_FILENO});
      (void)!::chdir("/");
      ::setsid();
      (void)!::write(ready[1], "u", 1);
      ::close(ready[1]);
    });
    std::exit(static_cast<int>(status));
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
class PlainUsage : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string name) const override {
    return "\nUsage: " + name + " [OPTIONS] SOURCE... MOUNTPOINT\n";
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_positional() ? "" : Formatter::make_option_opts(option);
  }
};

Exit mount(MountArguments& arguments) {
  if (arguments.paths.size() < 2) {
    complain({Code::io, str("mount needs ", arguments.paths.empty() ? "a SOURCE and a MOUNTPOINT" : "a MOUNTPOINT",
                            " (see weightfs mount --help)")});
    return Exit::usage;
  }
  const auto options = kernel_options(arguments);
  if (!options) {
    complain(options.error());
    return Exit::usage;
  }
  auto point = MountPoint::at(arguments.paths.back());
  if (!point) {
    complain(point.error());
    return Exit::mount;
  }
  const auto serve_until_the_end = [&](const std::function<void()>& on_usable, void (*log)(const std::string&)) {
    return serve_sources(arguments, *point, *options, on_usable, log);
  };
  if (arguments.foreground) return serve_until_the_end({}, log_to_stderr);
  return in_background([&](const std::function<void()>& on_usable) {
    ::openlog("weightfs", LOG_PID, LOG_DAEMON);
    return serve_until_the_end(on_usable, log_to_syslog);
  });
}

Exit umount(const std::string& path) {
  const auto done = unmount(path);
  if (done) return Exit::ok;
  complain(done.error());
  return Exit::mount;
}

}  // namespace

std::string mount_option_names() {
  return str("all, format=NAME, ", store_option_names(), ", allow_other, allow_root, auto_unmount, noexec, noatime");
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
  verb->add_option("-o", arguments->options,
                   "mount options, separated by commas: " + mount_option_names())
      ->delimiter(',')
      ->type_name("OPTIONS")
      ->allow_extra_args(false);  // what follows the one argument is a source
  add_opening_options(*verb, arguments->opening);
  add_store_options(*verb, arguments->storing);
  verb->callback([&run, arguments] { run = [arguments] { return mount(*arguments); }; });
}

void add_umount(CLI::App& app, Run& run) {
  auto path = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("umount", "unmount, and wait until the server has ended");
  verb->add_option("MOUNTPOINT", *path, "where it is mounted")->required();
  verb->callback([&run, path] { run = [path] { return umount(*path); }; });
}

}  // namespace weightfs
