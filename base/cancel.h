// Lets a decoder, or a thread that waits, learn that its result is no longer needed: the reader was killed, the file
// was closed, the mount is ending.
#pragma once

#include <functional>

namespace weightfs {

/// While it lives, what the calling thread works on is cancelled as soon as `cancelled` returns true. `cancelled` is
/// called often, keeps returning true once it did, and takes no lock that the thread may hold.
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

/// Whether what the calling thread works on is cancelled. A long computation asks now and then, and fails with
/// unavailable; so does every read of a file (open_file()), so that decoding ends with the next bytes that it needs.
bool is_cancelled();

/// Whether anything can cancel what the calling thread works on.
bool is_cancellable();

}  // namespace weightfs
