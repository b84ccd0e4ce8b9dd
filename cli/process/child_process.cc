#include "cli/process/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sstream>

#include "base/os/system_error.h"
#include "base/text.h"

namespace weightfs {
namespace {

// Reads to the end, so that the writer never blocks.
std::string read_all(const Descriptor& pipe) {
  constexpr size_t kMaxStderrBytes = 4096;
  std::string text;
  std::array<char, 512> part{};
  for (ssize_t got = 0; (got = ::read(pipe.number(), part.data(), part.size())) > 0 || (got < 0 && errno == EINTR);)
    if (got > 0 && text.size() < kMaxStderrBytes) text.append(part.data(), static_cast<size_t>(got));
  return text;
}

int wait_for(pid_t child) {
  int status = -1;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Standard error of the program is `errors`, if it is open.
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
  if (error != 0) return failure(io_error(words[0], error));
  return child;
}

}  // namespace

void close_all_but(std::vector<int> kept) {
  std::ranges::sort(kept);
  unsigned from = STDERR_FILENO + 1;
  for (const int each : kept) {
    const auto number = static_cast<unsigned>(each);
    if (each < 0 || number < from) continue;
    if (number > from) ::close_range(from, number - 1, 0);
    from = number + 1;
  }
  ::close_range(from, ~0U, 0);
}

void close_standard_descriptors() {
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.number(), standard);
}

std::string ProcessResult::last_line(std::string_view program) const {
  std::string_view text = stderr_text;
  while (text.ends_with('\n')) text.remove_suffix(1);
  text = text.substr(text.rfind('\n') + 1);
  const std::string prefix = std::string(program) + ": ";
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return std::string(text);
}

std::string find_on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    std::string file = (directory.empty() ? "." : directory) + "/" + program;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

ProcessResult run_program(std::vector<std::string> words, Stderr where) {
  std::array<int, 2> ends{-1, -1};
  if (where == Stderr::captured && ::pipe2(ends.data(), O_CLOEXEC) != 0) return {-1, errno_text(errno)};
  const Descriptor out(ends[0]);
  const auto child = [&] {
    const Descriptor in(ends[1]);  // closed before reading, so that only the program holds the write end
    return spawn(std::move(words), in);
  }();
  if (!child) return {-1, child.error().message};
  std::string stderr_text = out ? read_all(out) : "";
  return {wait_for(*child), std::move(stderr_text)};
}

Result<ChildProcess> ChildProcess::start(std::vector<std::string> words) {
  return ChildProcess(TRY(spawn(std::move(words), Descriptor())));
}

ChildProcess::ChildProcess(pid_t process)
    : process_(process), end_(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))) {}

ChildProcess::~ChildProcess() {
  if (process_ < 0) return;
  ::kill(process_, SIGTERM);
  wait_for(process_);
}

}  // namespace weightfs
