// Interrupts of slow requests. A request that waits for the network may take long, and the kernel does not let a
// process exit that waits for a reply, even if it is killed. It sends an INTERRUPT, after which the request fails with
// EINTR while its work is cancelled. (fs/fuse/dev.c of Linux, request_wait_answer.)
#pragma once

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
#include <sys/types.h>

#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "base/cancel.h"

namespace weightfs::fuse {

/// Whether the thread that sent a READ has been killed; polled during the read. For a killed reader of read-ahead pages
/// the kernel sends no INTERRUPT, and no RELEASE before the reply. False if this process has never seen the thread.
class KilledReader {
 public:
  /// Looks at the thread after the time `first`, and then at this interval.
  explicit KilledReader(pid_t thread, std::chrono::milliseconds first = std::chrono::milliseconds(500),
                        std::chrono::milliseconds interval = std::chrono::milliseconds(200))
      : thread_(thread), interval_(interval), next_(std::chrono::steady_clock::now() + first) {}
  bool operator()();

 private:
  pid_t thread_;
  std::chrono::milliseconds interval_;
  std::chrono::steady_clock::time_point next_;
  bool was_seen_ = false;
  bool killed_ = false;
};

/// Callable from any thread.
class InterruptibleRequests {
 public:
  /// Interrupts all requests whose threads have been killed. For requests that came by a ring (fs/fuse/rings.h) the
  /// kernel sends an INTERRUPT by /dev/fuse, but libfuse does not find the request.
  void interrupt_killed();

  /// Calls `work` and returns its result; nothing if the request was interrupted meanwhile and failed with EINTR. An
  /// interrupt cancels `work`.
  template <class Work>
  auto interruptible(fuse_req_t request, Work work) -> std::optional<decltype(work())> {
    PendingRequest& pending = begin(request);
    std::optional<decltype(work())> result;
    const CancelScope scope([&pending] {
      const std::scoped_lock lock(pending.mutex);
      return pending.request == nullptr;
    });
    try {
      result.emplace(work());
    } catch (...) {
      if (!end(pending, request)) return std::nullopt;
      throw;
    }
    if (!end(pending, request)) result.reset();
    return result;
  }

 private:
  // A pending request. Reused but never freed, because an interrupt may still refer to it.
  struct PendingRequest {
    std::mutex mutex;
    fuse_req_t request = nullptr;  // null when it has been answered
  };

  static void interrupt(fuse_req_t request, void* which);
  static void interrupt_if_killed(PendingRequest& pending);
  PendingRequest& begin(fuse_req_t request);
  bool end(PendingRequest& pending, fuse_req_t request);

  std::mutex mutex_;  // guards the rest
  std::deque<PendingRequest> pending_;
  std::vector<PendingRequest*> free_;
};

}  // namespace weightfs::fuse
