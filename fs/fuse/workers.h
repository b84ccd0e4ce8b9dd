// The threads that serve the requests of a session. libfuse's loop would let all idle threads wait for requests; the
// kernel wakes them in turn, so that each one finds a processor cache of others.
#pragma once

#include <chrono>
#include <cstddef>

struct fuse_session;

namespace weightfs::fuse {

struct WorkerLimits {
  size_t threads;                           ///< the maximum number
  std::chrono::milliseconds unused{2'000};  ///< a thread that is not needed for so long ends
  std::chrono::milliseconds grace{1'000};   ///< requests that take longer after the end of the session are cancelled
};

/// The signal that interrupts a thread that waits for a request. Its handler must do nothing.
inline constexpr int kWake = 23;  // SIGURG, otherwise unused

/// Serves requests until the session ends: the kernel has unmounted it, or fuse_session_exit() was called and the
/// calling thread then receives kWake. Returns 0, or a negative errno value: -EAGAIN if no thread can be started, else
/// that of reading from the device.
///
/// Few threads wait for requests at a time. Whenever none waits, another one begins to, so that requests that take long
/// (a read from the network) do not delay others.
int serve_requests(fuse_session* session, const WorkerLimits& limits);

}  // namespace weightfs::fuse
