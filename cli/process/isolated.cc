#include "cli/process/isolated.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "base/source.h"
#include "base/values/json.h"
#include "cli/process/child_process.h"

namespace weightfs {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxOutput = 1 << 20;

// A child process and its output so far.
struct IsolatedChild {
  pid_t process = -1;
  int pipe = -1;  // read end; -1 at the end of its output, or if there is no process
  std::string output;
};

// A caller that captures the output must not wait for a child that hangs.
void redirect_standard_descriptors() {
  int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) null = ::memfd_create("null", MFD_CLOEXEC);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, descriptor);
}

// Nor must the child keep other inherited descriptors open, such as a lock or a pipe.
[[noreturn]] void run_child(const IsolatedTask& task, int out, int kept) {
  close_all_but({out, kept});
  redirect_standard_descriptors();
  die_with_parent();
  const std::string text = to_json_line(task());
  for (size_t written = 0; written < text.size();) {
    const ssize_t count = ::write(out, text.data() + written, text.size() - written);
    if (count <= 0) std::_Exit(1);
    written += static_cast<size_t>(count);
  }
  std::_Exit(0);  // the buffers of stdio belong to the parent
}

// Returns a child without a process if fork or pipe failed.
IsolatedChild start_child(const IsolatedTask& task, int kept) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    run_child(task, ends[1], kept);
  }
  ::close(ends[1]);
  if (child > 0) return {child, ends[0], {}};
  ::close(ends[0]);
  return {};
}

int milliseconds_until(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::max<decltype(left)>(left, 0));
}

void read_output(IsolatedChild& child) {
  std::array<char, 4096> piece{};
  const ssize_t count = ::read(child.pipe, piece.data(), piece.size());
  if (count < 0 && errno == EINTR) return;
  if (count > 0) child.output.append(piece.data(), static_cast<size_t>(count));
  if (count > 0 && child.output.size() <= kMaxOutput) return;
  ::close(child.pipe);
  child.pipe = -1;
}

// Reads what is available by `end`, even if it has already passed.
void read_outputs_until(Clock::time_point end, std::vector<IsolatedChild>& all) {
  for (;;) {
    std::vector<pollfd> open;
    std::vector<IsolatedChild*> of;
    for (IsolatedChild& each : all) {
      if (each.pipe < 0) continue;
      open.push_back({each.pipe, POLLIN, 0});
      of.push_back(&each);
    }
    const int left = milliseconds_until(end);
    if (open.empty()) return;
    const int ready = ::poll(open.data(), open.size(), left);
    if (ready < 0 && errno != EINTR) return;
    if (ready == 0 && left == 0) return;
    for (size_t i = 0; ready > 0 && i < open.size(); ++i)
      if (open[i].revents != 0) read_output(*of[i]);
  }
}

// Waits a short time for killed children: until they exit, they keep the mount that they access busy.
void kill_unfinished(const std::vector<IsolatedChild>& all) {
  constexpr std::chrono::milliseconds kKillTimeout{500};
  for (const IsolatedChild& child : all)
    if (child.pipe >= 0) ::kill(child.process, SIGKILL);
  const auto end = Clock::now() + kKillTimeout;
  for (const IsolatedChild& child : all) {
    if (child.pipe < 0) continue;
    ::close(child.pipe);
    pollfd process{static_cast<int>(::syscall(SYS_pidfd_open, child.process, 0)), POLLIN, 0};
    if (process.fd < 0) continue;
    ::poll(&process, 1, milliseconds_until(end));
    ::close(process.fd);
  }
}

IsolatedResult result_of(const IsolatedChild& child) {
  if (child.process < 0) return tl::unexpected(IsolationError::failed);
  const bool is_finished = child.pipe < 0;
  int status = 0;
  const pid_t ended = ::waitpid(child.process, &status, is_finished ? 0 : WNOHANG);
  if (!is_finished) return tl::unexpected(IsolationError::timed_out);
  if (ended != child.process || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return tl::unexpected(IsolationError::failed);
  const auto value = parse_json(*in_memory(child.output), 0, child.output.size());
  const Map* map = value ? std::get_if<Map>(&*value) : nullptr;
  return map == nullptr ? IsolatedResult(tl::unexpected(IsolationError::failed)) : *map;
}

// Starts as many children as descriptors and processes allow; at least one is tried.
std::vector<IsolatedChild> start_children(const std::vector<IsolatedTask>& tasks, size_t first, int kept) {
  std::vector<IsolatedChild> all;
  for (size_t i = first; i < tasks.size(); ++i) {
    IsolatedChild child = start_child(tasks[i], kept);
    if (child.process < 0 && !all.empty()) break;
    all.push_back(std::move(child));
  }
  return all;
}

}  // namespace

void die_with_parent() { ::prctl(PR_SET_PDEATHSIG, SIGKILL); }

std::vector<IsolatedResult> run_isolated(const std::vector<IsolatedTask>& tasks, std::chrono::milliseconds timeout,
                                         int kept) {
  std::vector<IsolatedResult> results;
  while (results.size() < tasks.size()) {
    std::vector<IsolatedChild> all = start_children(tasks, results.size(), kept);
    read_outputs_until(Clock::now() + timeout, all);
    kill_unfinished(all);
    for (const IsolatedChild& child : all) results.push_back(result_of(child));
  }
  return results;
}

IsolatedResult run_isolated_or_here(const IsolatedTask& task, std::chrono::milliseconds timeout, int kept) {
  IsolatedResult result = run_isolated({task}, timeout, kept).front();
  return result || result.error() == IsolationError::timed_out ? result : task();
}

std::optional<std::string> find_text(const Map& map, std::string_view key) {
  const auto* const text = map.find_as<std::string>(key);
  return text == nullptr ? std::nullopt : std::optional<std::string>(*text);
}

std::optional<uint64_t> find_number(const Map& map, std::string_view key) {
  if (const auto* const number = map.find_as<uint64_t>(key)) return *number;
  const auto* const number = map.find_as<int64_t>(key);
  return number == nullptr || *number < 0 ? std::nullopt : std::optional<uint64_t>(static_cast<uint64_t>(*number));
}

}  // namespace weightfs
