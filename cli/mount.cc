// weightfs mount, weightfs umount.
#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <syslog.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/text.h"
#include "cli/verbs.h"
#include "fs/forest.h"
#include "fs/session.h"

namespace weightfs {
namespace {

namespace stdfs = std::filesystem;

// On the root of a mount: the process that serves it.
constexpr const char* kPidXattr = "user.weightfs.pid";

struct MountArguments {
  std::vector<std::string> paths;  // sources, then the mount point
  std::vector<std::string> options;
  bool foreground = false;
  Opening opening;
};

Error cannot_mount(const std::string& where, int error) {
  return {Code::io, str(where, ": ", std::generic_category().message(error))};
}

// The options of -o: for us, for the kernel, or already true of every mount.
Result<std::vector<std::string>> kernel_options(const std::vector<std::string>& given, Opening& opening) {
  constexpr std::array kPassed = {"allow_other", "allow_root", "auto_unmount", "noexec", "noatime"};
  constexpr std::array kAlways = {"ro", "nosuid", "nodev", "default_permissions"};
  constexpr std::string_view kFormat = "format=";
  std::vector<std::string> passed;
  for (const std::string& option : given) {
    const auto is = [&](const char* name) { return option == name; };
    if (std::any_of(kPassed.begin(), kPassed.end(), is)) {
      passed.push_back(option);
    } else if (option == "all") {
      opening.all_files = true;
    } else if (option.starts_with(kFormat)) {
      if (!set_format(opening, option.substr(kFormat.size())))
        return failure(Code::unsupported, str("-o ", quoted(option), ": there are ", format_names()));
    } else if (!std::any_of(kAlways.begin(), kAlways.end(), is)) {
      return failure(Code::unsupported,
                     str("unknown mount option ", quoted(option),
                         "; known are all, format=NAME, allow_other, allow_root, auto_unmount, noexec, noatime"));
    }
  }
  return passed;
}

// A directory to mount on; made if it is not there, and then removed again.
class MountPoint {
 public:
  static Result<MountPoint> at(const std::string& path) {
    MountPoint point(stdfs::absolute(path).lexically_normal());
    // The attribute first: the kernel may still know the stat of a mount whose server is gone.
    if (::getxattr(point.path_.c_str(), kPidXattr, nullptr, 0) >= 0)
      return failure(Code::io, str(path, ": weightfs is mounted there already"));
    if (errno == ENOTCONN)
      return failure(Code::io, str(path, ": a mount whose server died; `weightfs umount ", path, "` removes it"));
    struct stat found {};
    if (::stat(point.path_.c_str(), &found) == 0) {
      if (!S_ISDIR(found.st_mode)) return failure(Code::io, str(path, ": not a directory"));
      return point;
    }
    if (errno != ENOENT) return tl::unexpected(cannot_mount(path, errno));
    if (::mkdir(point.path_.c_str(), 0755) != 0) return tl::unexpected(cannot_mount(path, errno));
    point.made_ = true;
    return point;
  }

  const std::string& path() const { return path_; }
  void remove_if_made() const {
    if (made_) ::rmdir(path_.c_str());
  }

 private:
  explicit MountPoint(std::string path) : path_(std::move(path)) {
    while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  }
  std::string path_;
  bool made_ = false;
};

// Opens the sources and serves them; `on_usable` is called once they can be used.
Exit serve_sources(const MountArguments& arguments, const MountPoint& point, const std::vector<std::string>& options,
                   const std::function<void()>& on_usable, const std::function<void(const std::string&)>& log) {
  const std::vector<std::string> sources(arguments.paths.begin(), arguments.paths.end() - 1);
  Opening opening = arguments.opening;
  opening.hidden = point.path();
  auto tree = open_sources(sources, opening);
  if (!tree) return complain(tree.error());
  Forest forest(std::move(*tree), {{kPidXattr, std::to_string(::getpid())}});
  const std::string source = sources.size() == 1 ? stdfs::absolute(sources[0]).lexically_normal().string() : "weightfs";
  const auto served = serve(forest, {point.path(), source, options, on_usable, log});
  if (served) return Exit::ok;
  complain(served.error());
  return Exit::mount;
}

void log_to_stderr(const std::string& line) { std::fprintf(stderr, "weightfs: %s\n", line.c_str()); }

void log_to_syslog(const std::string& line) { ::syslog(LOG_WARNING, "%s", line.c_str()); }

void point_at_null(std::initializer_list<int> descriptors) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int descriptor : descriptors) ::dup2(null, descriptor);
  ::close(null);
}

// Runs `serve` in a process of its own and returns when it can be used, or with its exit status if it never can.
Exit in_background(const std::function<Exit(const std::function<void()>& on_usable)>& serve) {
  std::array<int, 2> ready{};
  if (::pipe2(ready.data(), O_CLOEXEC) != 0) return complain(cannot_mount("pipe", errno));
  const pid_t child = ::fork();
  if (child < 0) return complain(cannot_mount("fork", errno));
  if (child == 0) {
    ::close(ready[0]);
    ::setsid();
    point_at_null({STDIN_FILENO, STDOUT_FILENO});
    const Exit status = serve([&] {
      // From here on nobody reads standard error; and whoever captures it must not wait for us.
      point_at_null({STDERR_FILENO});
      (void)!::write(ready[1], "u", 1);
      ::close(ready[1]);
    });
    std::_Exit(static_cast<int>(status));
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

Exit mount(MountArguments& arguments) {
  const auto options = kernel_options(arguments.options, arguments.opening);
  if (!options) {
    complain(options.error());
    return Exit::usage;
  }
  const auto point = MountPoint::at(arguments.paths.back());
  if (!point) {
    complain(point.error());
    return Exit::mount;
  }
  const auto serve_until_the_end = [&](const std::function<void()>& on_usable, void (*log)(const std::string&)) {
    const Exit status = serve_sources(arguments, *point, *options, on_usable, log);
    point->remove_if_made();
    return status;
  };
  if (arguments.foreground) return serve_until_the_end({}, log_to_stderr);
  return in_background([&](const std::function<void()>& on_usable) {
    ::openlog("weightfs", LOG_PID, LOG_DAEMON);
    return serve_until_the_end(on_usable, log_to_syslog);
  });
}

// The process that serves the mount at `path`, as a descriptor that can be waited on; -1 if that is not known.
int server_of(const std::string& path) {
  std::array<char, 32> text{};
  if (::getxattr(path.c_str(), kPidXattr, text.data(), text.size() - 1) <= 0) return -1;
  const long pid = std::strtol(text.data(), nullptr, 10);
  return pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)) : -1;
}

// As root by umount(2), else through fusermount3, which checks that the mount is the user's.
bool unmounted(const std::string& path, std::string& why) {
  if (::umount2(path.c_str(), UMOUNT_NOFOLLOW) == 0) return true;
  why = std::generic_category().message(errno);
  if (errno != EPERM) return false;
  const pid_t child = ::fork();
  if (child == 0) {
    ::execlp("fusermount3", "fusermount3", "-u", path.c_str(), nullptr);
    ::perror("weightfs: fusermount3");
    std::_Exit(127);
  }
  int status = 0;
  why = "fusermount3 could not unmount it";
  return child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Exit umount(const std::string& path) {
  constexpr int kLongestWaitMs = 10'000;
  std::string absolute = stdfs::absolute(path).lexically_normal();
  while (absolute.size() > 1 && absolute.ends_with('/')) absolute.pop_back();
  const int server = server_of(absolute);
  std::string why;
  if (!unmounted(absolute, why)) {
    complain({Code::io, str(path, ": ", why)});
    return Exit::mount;
  }
  // Until the server has ended, the mount point that it made is still there.
  if (server >= 0) {
    pollfd ended{server, POLLIN, 0};
    ::poll(&ended, 1, kLongestWaitMs);
    ::close(server);
  }
  return Exit::ok;
}

}  // namespace

void add_mount(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<MountArguments>();
  CLI::App* verb = app.add_subcommand("mount", "show models as a read-only directory");
  verb->add_option("SOURCE... MOUNTPOINT", arguments->paths,
                   "model files or directories of models, then the directory to mount on (made if missing)")
      ->required()
      ->expected(2, -1);
  verb->add_flag("-f,--foreground", arguments->foreground, "stay in the foreground; Ctrl-C unmounts");
  verb->add_option("-o", arguments->options,
                   "mount options, separated by commas: all, format=NAME, allow_other, allow_root, auto_unmount, "
                   "noexec, noatime")
      ->delimiter(',')
      ->type_name("OPTIONS")
      ->expected(1)
      ->take_all();
  add_opening_options(*verb, arguments->opening);
  verb->callback([&run, arguments] { run = [arguments] { return mount(*arguments); }; });
}

void add_umount(CLI::App& app, Run& run) {
  auto path = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("umount", "unmount, and wait until the server has ended");
  verb->add_option("MOUNTPOINT", *path, "where it is mounted")->required();
  verb->callback([&run, path] { run = [path] { return umount(*path); }; });
}

}  // namespace weightfs
