#include "fs/fuse/interrupts.h"

#include <fmt/core.h>
#include <sys/types.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "base/text.h"

namespace weightfs::fuse {
namespace {

constexpr uint64_t bit(int signal) { return uint64_t{1} << (signal - 1); }

// The status of a thread in /proc (proc(5)).
struct ThreadStatus {
  bool is_known = false;
  bool has_ended = false;
  uint64_t pending = 0;  // signals: SigPnd and ShdPnd
};

ThreadStatus status_of(pid_t thread) {
  ThreadStatus out;
  std::ifstream status(fmt::format("/proc/{}/status", thread));
  for (std::string line; std::getline(status, line);) {
    out.is_known = true;
    if (line.starts_with("State:")) out.has_ended = line.find_first_of("ZX", 6) == line.find_first_not_of(" \t", 6);
    if (line.starts_with("SigPnd:") || line.starts_with("ShdPnd:")) out.pending |= std::strtoull(&line[7], nullptr, 16);
  }
  return out;
}

// Whether a signal that ends the process is pending. A fatal signal becomes SIGKILL for every thread (signal(7)). Other
// signals are ignored, because few programs expect EINTR from stat().
bool has_fatal_signal(pid_t thread) {
  constexpr uint64_t kEnds = bit(SIGKILL) | bit(SIGINT) | bit(SIGTERM) | bit(SIGHUP) | bit(SIGQUIT);
  return (status_of(thread).pending & kEnds) != 0;
}

}  // namespace

// A thread that /proc has shown and does not show any more has ended. If /proc hides the thread of another user,
// kill(2) still reports whether it exists, but the sandbox forbids it.
bool KilledReader::operator()() {
  const auto now = std::chrono::steady_clock::now();
  if (killed_ || thread_ <= 0 || now < next_) return killed_;
  next_ = now + interval_;
  const ThreadStatus status = status_of(thread_);
  killed_ = status.is_known ? status.has_ended || (status.pending & bit(SIGKILL)) != 0
                            : was_seen_ || (::kill(thread_, 0) != 0 && errno == ESRCH);
  was_seen_ = was_seen_ || status.is_known;
  return killed_;
}

// The request is still pending, so no other request has its address.
void InterruptibleRequests::interrupt(fuse_req_t request, void* which) {
  PendingRequest& pending = *static_cast<PendingRequest*>(which);
  const std::scoped_lock lock(pending.mutex);
  if (pending.request == request) interrupt_if_killed(pending);
}

// Needs the lock of a request that is pending.
void InterruptibleRequests::interrupt_if_killed(PendingRequest& pending) {
  if (!has_fatal_signal(fuse_req_ctx(pending.request)->pid)) return;
  fuse_reply_err(std::exchange(pending.request, nullptr), EINTR);
}

void InterruptibleRequests::interrupt_killed() {
  const std::scoped_lock lock(mutex_);
  for (PendingRequest& each : pending_) {
    const std::scoped_lock pending(each.mutex);
    if (each.request != nullptr) interrupt_if_killed(each);
  }
}

InterruptibleRequests::PendingRequest& InterruptibleRequests::begin(fuse_req_t request) {
  PendingRequest* pending = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) free_.push_back(&pending_.emplace_back());
    pending = free_.back();
    free_.pop_back();
  }
  // It calls interrupt() at once if an interrupt has already arrived, and uses the request afterwards: no reply yet.
  fuse_req_interrupt_func(request, interrupt, pending);
  const std::scoped_lock lock(pending->mutex);
  pending->request = request;
  if (fuse_req_interrupted(request) != 0) interrupt_if_killed(*pending);
  return *pending;
}

// Whether the request still needs a reply.
bool InterruptibleRequests::end(PendingRequest& pending, fuse_req_t request) {
  bool ours = false;
  {
    const std::scoped_lock lock(pending.mutex);
    ours = pending.request == request;
    pending.request = nullptr;
  }
  const std::scoped_lock lock(mutex_);
  free_.push_back(&pending);
  return ours;
}

}  // namespace weightfs::fuse
