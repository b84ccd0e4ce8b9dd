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
#include <cstdlib>

#include "base/source.h"
#include "base/values/json.h"

namespace weightfs {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLongestAnswer = 1 << 20;

// A process that was asked, and what it said until now.
struct Asked {
  pid_t process = -1;
  int answers = -1;  // the end of its pipe; -1 once it has said all, or there is none
  std::string said;
};

// Whoever captures our output must not wait for a process that hangs.
void let_go_of_standard_descriptors() {
  int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) null = ::memfd_create("null", MFD_CLOEXEC);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, descriptor);
}

// Nor for what our caller had open beside them, such as a lock or a pipe.
void let_go_of_all_but(int out) {
  if (out > STDERR_FILENO + 1) ::close_range(STDERR_FILENO + 1, static_cast<unsigned>(out) - 1, 0);
  ::close_range(static_cast<unsigned>(out) + 1, ~0U, 0);
  let_go_of_standard_descriptors();
}

[[noreturn]] void answer(const Question& question, int out) {
  let_go_of_all_but(out);
  end_with_parent();
  const std::string text = to_json_line(question());
  for (size_t written = 0; written < text.size();) {
    const ssize_t count = ::write(out, text.data() + written, text.size() - written);
    if (count <= 0) std::_Exit(1);
    written += static_cast<size_t>(count);
  }
  std::_Exit(0);  // what stdio holds is our parent's to write
}

// No process where there is none to be had, or no descriptor.
Asked ask(const Question& question) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    answer(question, ends[1]);
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

void listen_to(Asked& asked) {
  std::array<char, 4096> piece{};
  const ssize_t count = ::read(asked.answers, piece.data(), piece.size());
  if (count < 0 && errno == EINTR) return;
  if (count > 0) asked.said.append(piece.data(), static_cast<size_t>(count));
  if (count > 0 && asked.said.size() <= kLongestAnswer) return;
  ::close(asked.answers);
  asked.answers = -1;
}

// To what has been said by then, however late we are.
void listen_until(Clock::time_point end, std::vector<Asked>& all) {
  for (;;) {
    std::vector<pollfd> open;
    std::vector<Asked*> of;
    for (Asked& each : all) {
      if (each.answers < 0) continue;
      open.push_back({each.answers, POLLIN, 0});
      of.push_back(&each);
    }
    const int left = milliseconds_until(end);
    if (open.empty()) return;
    const int ready = ::poll(open.data(), open.size(), left);
    if (ready < 0 && errno != EINTR) return;
    if (ready == 0 && left == 0) return;
    for (size_t i = 0; ready > 0 && i < open.size(); ++i)
      if (open[i].revents != 0) listen_to(*of[i]);
  }
}

// One that is killed in the mount that it asks keeps that busy until it has died, which takes a moment.
void end_silent(const std::vector<Asked>& all) {
  constexpr std::chrono::milliseconds kDeath{500};
  for (const Asked& asked : all)
    if (asked.answers >= 0) ::kill(asked.process, SIGKILL);
  const auto end = Clock::now() + kDeath;
  for (const Asked& asked : all) {
    if (asked.answers < 0) continue;
    ::close(asked.answers);
    pollfd process{static_cast<int>(::syscall(SYS_pidfd_open, asked.process, 0)), POLLIN, 0};
    if (process.fd < 0) continue;
    ::poll(&process, 1, milliseconds_until(end));
    ::close(process.fd);
  }
}

Reply conclude(const Asked& asked) {
  if (asked.process < 0) return tl::unexpected(NoAnswer::at_all);
  const bool said_all = asked.answers < 0;
  int status = 0;
  const pid_t ended = ::waitpid(asked.process, &status, said_all ? 0 : WNOHANG);
  if (!said_all) return tl::unexpected(NoAnswer::in_time);
  if (ended != asked.process || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return tl::unexpected(NoAnswer::at_all);
  const auto value = parse_json(*in_memory(asked.said), 0, asked.said.size());
  const Map* map = value ? std::get_if<Map>(&*value) : nullptr;
  return map == nullptr ? Reply(tl::unexpected(NoAnswer::at_all)) : *map;
}

// As many of them as there are descriptors and processes for, and one at least, even if in vain.
std::vector<Asked> ask_from(const std::vector<Question>& questions, size_t first) {
  std::vector<Asked> all;
  for (size_t i = first; i < questions.size(); ++i) {
    Asked asked = ask(questions[i]);
    if (asked.process < 0 && !all.empty()) break;
    all.push_back(std::move(asked));
  }
  return all;
}

}  // namespace

void end_with_parent() { ::prctl(PR_SET_PDEATHSIG, SIGKILL); }

std::vector<Reply> ask_apart(const std::vector<Question>& questions, std::chrono::milliseconds patience) {
  std::vector<Reply> answers;
  while (answers.size() < questions.size()) {
    std::vector<Asked> all = ask_from(questions, answers.size());
    listen_until(Clock::now() + patience, all);
    end_silent(all);
    for (const Asked& asked : all) answers.push_back(conclude(asked));
  }
  return answers;
}

Reply ask_apart_if_possible(const Question& question) {
  Reply answer = ask_apart({question}).front();
  return answer || answer.error() == NoAnswer::in_time ? answer : question();
}

std::optional<std::string> text_in(const Map& map, std::string_view key) {
  const Value* value = map.find(key);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? std::nullopt : std::optional<std::string>(*text);
}

std::optional<uint64_t> number_in(const Map& map, std::string_view key) {
  const Value* value = map.find(key);
  if (value == nullptr) return {};
  if (const auto* number = std::get_if<uint64_t>(value)) return *number;
  const auto* number = std::get_if<int64_t>(value);
  return number == nullptr || *number < 0 ? std::nullopt : std::optional<uint64_t>(static_cast<uint64_t>(*number));
}

}  // namespace weightfs
