// Requests that wait, and processes that are told to end meanwhile. Who waits for the network waits long, and the
// kernel lets no process go that waits for an answer, not even one that is killed: it sends an interrupt, and that is
// answered, whatever becomes of the work. (fs/fuse/dev.c of Linux, request_wait_answer.)
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

namespace weightfs {

/// Whether the thread that asked for bytes was killed since; asked now and then while a READ waits. The kernel reads
/// ahead for that thread and lets it go when it is killed, but sends no interrupt, and no RELEASE before the READ is
/// answered. False for a thread that this process cannot see.
class KilledReader {
 public:
  explicit KilledReader(pid_t thread) : thread_(thread) {}
  bool operator()();

 private:
  pid_t thread_;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  bool killed_ = false;
};

/// Callable from any thread.
class Waits {
 public:
  /// Calls `make` and returns what it made; nothing when the request was answered meanwhile, with EINTR. Then what
  /// `make` works on is cancelled.
  template <class Make>
  auto interruptible(fuse_req_t request, Make make) -> std::optional<decltype(make())> {
    Wait& wait = begin(request);
    std::optional<decltype(make())> made;
    const CancelScope scope([&wait] {
      const std::scoped_lock lock(wait.mutex);
      return wait.request == nullptr;
    });
    try {
      made.emplace(make());
    } catch (...) {
      if (!end(wait, request)) return std::nullopt;
      throw;
    }
    if (!end(wait, request)) made.reset();
    return made;
  }

 private:
  // One request that waits. Used again for another, but never gone: an interrupt may still be on its way to it.
  struct Wait {
    std::mutex mutex;
    fuse_req_t request = nullptr;  // null once it was answered, or needs no answer from here
  };

  static void interrupt(fuse_req_t request, void* which);
  Wait& begin(fuse_req_t request);
  bool end(Wait& wait, fuse_req_t request);

  std::mutex mutex_;  // guards the rest
  std::deque<Wait> waits_;
  std::vector<Wait*> free_;
};

}  // namespace weightfs
