#include "fs/fuse/interrupts.h"

#include <sys/types.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/text.h"

namespace weightfs {
namespace {

constexpr uint64_t bit(int signal) { return uint64_t{1} << (signal - 1); }

// What /proc says of a thread (proc(5)).
struct ThreadStatus {
  bool is_known = false;
  bool has_ended = false;
  uint64_t pending = 0;  // signals: SigPnd and ShdPnd
};

ThreadStatus status_of(pid_t thread) {
  ThreadStatus out;
  std::ifstream status(str("/proc/", thread, "/status"));
  for (std::string line; std::getline(status, line);) {
    out.is_known = true;
    if (line.starts_with("State:")) out.has_ended = line.find_first_of("ZX", 6) == line.find_first_not_of(" \t", 6);
    if (line.starts_with("SigPnd:") || line.starts_with("ShdPnd:")) out.pending |= std::strtoull(&line[7], nullptr, 16);
  }
  return out;
}

// Whether a signal waits for the thread that asks it to end; of one that kills, SIGKILL waits for every thread of the
// process (signal(7)). Other signals are no reason: few programs expect EINTR of stat().
bool is_told_to_end(pid_t thread) {
  constexpr uint64_t kEnds = bit(SIGKILL) | bit(SIGINT) | bit(SIGTERM) | bit(SIGHUP) | bit(SIGQUIT);
  return (status_of(thread).pending & kEnds) != 0;
}

constexpr std::chrono::milliseconds kBetweenLooks{200};

}  // namespace

// A thread of another user may be hidden in /proc; then the kernel still says whether there is one.
bool KilledReader::operator()() {
  const auto now = std::chrono::steady_clock::now();
  if (killed_ || thread_ <= 0 || now < next_) return killed_;
  next_ = now + kBetweenLooks;
  const ThreadStatus status = status_of(thread_);
  killed_ = status.is_known ? status.has_ended || (status.pending & bit(SIGKILL)) != 0
                            : ::kill(thread_, 0) != 0 && errno == ESRCH;
  return killed_;
}

// The request that comes with it is still there, so no other has its address.
void Waits::interrupt(fuse_req_t request, void* which) {
  Wait& wait = *static_cast<Wait*>(which);
  const std::scoped_lock lock(wait.mutex);
  if (wait.request != request || !is_told_to_end(fuse_req_ctx(request)->pid)) return;
  wait.request = nullptr;
  fuse_reply_err(request, EINTR);
}

Waits::Wait& Waits::begin(fuse_req_t request) {
  Wait* wait = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) free_.push_back(&waits_.emplace_back());
    wait = free_.back();
    free_.pop_back();
    const std::scoped_lock setting(wait->mutex);
    wait->request = request;
  }
  fuse_req_interrupt_func(request, interrupt, wait);  // which calls it, when it came already
  return *wait;
}

// Whether the request is still to be answered.
bool Waits::end(Wait& wait, fuse_req_t request) {
  bool ours = false;
  {
    const std::scoped_lock lock(wait.mutex);
    ours = wait.request == request;
    wait.request = nullptr;
  }
  const std::scoped_lock lock(mutex_);
  free_.push_back(&wait);
  return ours;
}

}  // namespace weightfs
