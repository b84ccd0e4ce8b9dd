// The threads that serve the requests of a session. libfuse's loop would let all idle threads wait for requests; the
// kernel wakes them in turn, so that each one finds a processor cache of others.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <functional>

struct fuse_session;

namespace weightfs::fuse {

struct WorkerLimits {
  size_t threads;                              ///< the maximum number
  size_t prompt = 4;                           ///< up to so many threads, another one begins at once when none waits
  std::chrono::milliseconds stuck{2};          ///< threads that serve the same requests for so long are not waited for
  std::chrono::milliseconds unused{2'000};     ///< a thread that is not needed for so long ends
  std::chrono::milliseconds grace{1'000};      ///< requests that take longer after the end of the session are cancelled
  std::chrono::microseconds soon{200};         ///< the next request is polled for if the last two followed so soon
  std::chrono::microseconds polled{50};        ///< the duration of a poll
  int (*poll)(pollfd*, nfds_t, int) = ::poll;  ///< tests replace it
  std::function<void()> on_interrupt = {};     ///< called before an INTERRUPT is processed
};

/// The signal that interrupts a thread that waits for a request. Its handler must do nothing.
inline constexpr int kWake = 23;  // SIGURG, otherwise unused

/// Serves requests until the session ends: the kernel has unmounted it, or fuse_session_exit() was called and the
/// calling thread then receives kWake. Returns 0, or a negative errno value: -EAGAIN if no thread can be started, else
/// that of reading from the device.
///
/// Few threads wait for requests at a time. When none waits, another one begins to: at once while there are fewer than
/// limits.prompt threads, otherwise when all of them have served the same requests for limits.stuck. So a request that
/// takes long (a read from the network) delays others by limits.stuck at most. Short requests need few threads; many
/// would serve them more slowly.
///
/// While requests follow each other soon and no other one is being served, a thread polls for the next one before it
/// waits: to wake a sleeping thread takes longer than to serve a short request. Unsuccessful polls back off. With a
/// single processor there are none: the readers need it.
int serve_requests(fuse_session* session, const WorkerLimits& limits);

}  // namespace weightfs::fuse
