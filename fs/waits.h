// Requests that wait, and processes that are told to end meanwhile. Who waits for the network waits long, and the
// kernel lets no process go that waits for an answer, not even one that is killed: it sends an interrupt, and that is
// answered, whatever becomes of the work. (fs/fuse/dev.c of Linux, request_wait_answer.)
#pragma once

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#include <deque>
#include <mutex>
#include <optional>
#include <vector>

namespace weightfs {

/// Callable from any thread.
class Waits {
 public:
  /// Calls `make` and returns what it made; nothing when the request was answered meanwhile, with EINTR.
  template <class Make>
  auto interruptible(fuse_req_t request, Make make) -> std::optional<decltype(make())> {
    Wait& wait = begin(request);
    std::optional<decltype(make())> made;
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
