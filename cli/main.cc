// weightfs: mounts machine-learning model files as read-only directories.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "cli/mount_helper.h"
#include "cli/process/name_service.h"
#include "cli/process/secrets.h"
#include "cli/systemd/generator.h"
#include "cli/systemd/inherited.h"
#include "cli/verbs.h"
#include "report/text/terminal.h"

namespace weightfs {
namespace {

// With TZ unset the C library examines /etc/localtime for every date conversion, and libzip converts a date per member.
void name_time_zone() { ::setenv("TZ", ":/etc/localtime", 0); }

// Open files of a mount, and decoded members of archives, keep a descriptor each.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// If the program is started with closed standard descriptors, an opened model file must not become one of them. Writing
// to a closed output fails.
void fill_standard_descriptors() {
  for (int wanted = STDIN_FILENO; wanted <= STDERR_FILENO; ++wanted) {
    const int flags = wanted == STDERR_FILENO ? O_WRONLY : O_RDONLY;
    if (::fcntl(wanted, F_GETFD) < 0 && ::open("/dev/null", flags | O_CLOEXEC) != wanted) return;
  }
}

// A failed write to standard output is an error of the command. Every other failure is worse (docs/semantics.md, 25.1),
// but the statuses of `diff` are not ordered: `different` is not a failure. After a failed fputs(3) the buffer is
// empty, so fflush(3) succeeds.
int flushed(Exit status, Exit write_failed = Exit::io) {
  if (std::ferror(stdout) == 0 && std::fflush(stdout) == 0) return static_cast<int>(status);
  log_to_stderr("cannot write to standard output");
  const bool is_worse = status == Exit::ok || write_failed != Exit::io;
  return static_cast<int>(is_worse ? write_failed : status);
}

int run(const std::vector<std::string>& words) {
  if (!words.empty() && words[0] == "complete") return flushed(print_completions({words.begin() + 1, words.end()}));
  const Command weightfs = program();
  const auto invocation = parse(weightfs, words);
  if (!invocation) {
    log_to_stderr(invocation.error().message);
    return static_cast<int>(Exit::usage);
  }
  const size_t columns = columns_of(STDOUT_FILENO).value_or(80);
  switch (invocation->action) {
    case Invocation::Action::usage:
      std::fputs(short_help_of(*invocation, columns).c_str(), stdout);
      return flushed(Exit::usage);
    case Invocation::Action::short_help:
      std::fputs(short_help_of(*invocation, columns).c_str(), stdout);
      return flushed(Exit::ok);
    case Invocation::Action::help:
      std::fputs(help_of(*invocation, columns).c_str(), stdout);
      return flushed(Exit::ok);
    case Invocation::Action::exit_statuses:
      std::fputs(kExitStatuses, stdout);
      return flushed(Exit::ok);
    case Invocation::Action::version:
      std::puts("weightfs " WEIGHTFS_VERSION);
      return flushed(Exit::ok);
    case Invocation::Action::run:
      return flushed(invocation->command().run(), invocation->command().write_failed);
  }
  return static_cast<int>(Exit::usage);
}

}  // namespace
}  // namespace weightfs

int main(int argc, char** argv) {
  using namespace weightfs;
  hide_memory();
  configure_name_service();
  // A closed pipe ends `weightfs cat` like cat, even if the parent ignores the signal.
  std::signal(SIGPIPE, SIG_DFL);
  // A file size limit is a write error of the cache, not a reason to be killed.
  std::signal(SIGXFSZ, SIG_IGN);
  service::close_inherited_descriptors(argc, argv);
  fill_standard_descriptors();
  name_time_zone();
  raise_descriptor_limit();
  if (service::is_generator(argv[0])) return static_cast<int>(service::generate(argc, argv));
  try {
    const std::vector<std::string> words = take_arguments(argc, argv);
    if (is_mount_helper(argv[0]) || is_called_by_mount_fuse(words)) return run_mount_helper(words);
    return run(words);
  } catch (const std::bad_alloc&) {
    return static_cast<int>(report_error({Code::io, "out of memory"}));
  } catch (const std::exception& error) {
    return static_cast<int>(report_error({Code::io, error.what()}));
  }
}
