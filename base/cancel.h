// Cancellation of work in a thread: a decoder or a waiting thread learns that its result is no longer needed, because
// the reader was killed, the file was closed or the mount is ending.
#pragma once

#include <chrono>
#include <functional>

#include "base/result.h"

namespace weightfs {

/// While it exists, the work of the calling thread is cancelled as soon as `cancelled` returns true. `cancelled` is
/// called often, must keep returning true after the first time, and must not take a lock that the thread may hold.
class CancelScope {
 public:
  explicit CancelScope(std::function<bool()> cancelled);
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  friend bool is_cancelled();
  std::function<bool()> cancelled_;
  const CancelScope* outer_;
};

/// How often a thread that waits polls is_cancelled(): nothing announces that a reader was killed.
inline constexpr std::chrono::milliseconds kCancelCheck{100};

/// Whether the work of the calling thread is cancelled. A long computation polls it and fails with Code::resource.
/// Every read of a file (open_file()) polls it too, so decoding ends with the next input that it needs.
bool is_cancelled();

/// The error of work that is_cancelled().
inline tl::unexpected<Error> cancelled() { return failure(Code::resource, "cancelled"); }

/// Whether a CancelScope is active in the calling thread.
bool is_cancellable();

}  // namespace weightfs
