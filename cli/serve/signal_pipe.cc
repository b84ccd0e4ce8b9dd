#include "cli/serve/signal_pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

#include "base/os/system_error.h"

namespace weightfs {
namespace {

std::atomic<int> write_end = -1;
std::atomic<bool> has_started = false;

// Calls only what a signal handler may (signal-safety(7)).
void on_signal(int signal) {
  const int error = errno;
  if (has_started) {
    const auto byte = static_cast<unsigned char>(signal);
    (void)!::write(write_end, &byte, 1);
  } else if (signal == SIGINT || signal == SIGTERM) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
  errno = error;
}

}  // namespace

Result<SignalPipe> SignalPipe::open() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return failure(io_error("pipe"));
  write_end = ends[1];
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) ::sigaction(signal, &action, nullptr);
  return SignalPipe(ends[0]);
}

void SignalPipe::start() { has_started = true; }

std::optional<int> SignalPipe::wait(std::chrono::milliseconds time, int other) const {
  std::array<pollfd, 2> ready{pollfd{read_end_, POLLIN, 0}, pollfd{other, POLLIN, 0}};
  ::poll(ready.data(), ready.size(), static_cast<int>(time.count()));
  unsigned char signal = 0;
  return ::read(read_end_, &signal, 1) == 1 ? std::optional<int>(signal) : std::nullopt;
}

}  // namespace weightfs
