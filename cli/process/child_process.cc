#include "cli/process/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "base/text.h"

namespace weightfs {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

// Reads to the end, so that whoever writes never waits.
std::string all_of(const Descriptor& pipe) {
  constexpr size_t kMostKept = 4096;
  std::string text;
  std::array<char, 512> part{};
  for (ssize_t got = 0; (got = ::read(pipe.number(), part.data(), part.size())) > 0 || (got < 0 && errno == EINTR);)
    if (got > 0 && text.size() < kMostKept) text.append(part.data(), static_cast<size_t>(got));
  return text;
}

int exit_status_of(pid_t child) {
  int status = -1;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Its standard error is `errors`, where that is one.
Result<pid_t> spawn(std::vector<std::string> words, const Descriptor& errors) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t descriptors{};
  ::posix_spawn_file_actions_init(&descriptors);
  if (errors) ::posix_spawn_file_actions_adddup2(&descriptors, errors.number(), STDERR_FILENO);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, arguments[0], &descriptors, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&descriptors);
  if (error != 0) return failure(Code::io, str(words[0], ": ", reason(error)));
  return child;
}

}  // namespace

Ran run_program(std::vector<std::string> words, Stderr where) {
  std::array<int, 2> ends{-1, -1};
  if (where == Stderr::kept && ::pipe2(ends.data(), O_CLOEXEC) != 0) return {-1, reason(errno)};
  const Descriptor out(ends[0]);
  const auto child = [&] {
    const Descriptor in(ends[1]);  // closed before it is read from: who writes is the program alone
    return spawn(std::move(words), in);
  }();
  if (!child) return {-1, child.error().message};
  std::string said = out ? all_of(out) : "";
  return {exit_status_of(*child), std::move(said)};
}

Result<Running> Running::start(std::vector<std::string> words) {
  return Running(TRY(spawn(std::move(words), Descriptor())));
}

Running::Running(pid_t process) : process_(process), end_(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))) {}

Running::~Running() {
  if (process_ < 0) return;
  ::kill(process_, SIGTERM);
  exit_status_of(process_);
}

}  // namespace weightfs
