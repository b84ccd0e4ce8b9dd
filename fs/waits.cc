#include "fs/waits.h"

#include <sys/types.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/text.h"

namespace weightfs {
namespace {

// Whether a signal waits for the thread that asks it to end; of one that kills, SIGKILL waits for every thread of the
// process (signal(7), proc(5): SigPnd and ShdPnd). Other signals are no reason: few programs expect EINTR of stat().
bool is_told_to_end(pid_t thread) {
  constexpr uint64_t kEnds = uint64_t{1} << (SIGKILL - 1) | uint64_t{1} << (SIGINT - 1) | uint64_t{1} << (SIGTERM - 1) |
                             uint64_t{1} << (SIGHUP - 1) | uint64_t{1} << (SIGQUIT - 1);
  std::ifstream status(str("/proc/", thread, "/status"));
  uint64_t pending = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigPnd:") || line.starts_with("ShdPnd:")) pending |= std::strtoull(&line[7], nullptr, 16);
  return (pending & kEnds) != 0;
}

}  // namespace

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
