// The signals of a server, as bytes in a pipe: they are not blocked, so threads that were started before do not matter.
#pragma once

#include <chrono>
#include <optional>

#include "base/result.h"

namespace weightfs {

/// SIGINT, SIGTERM, SIGHUP and SIGUSR1. One object in a process.
class SignalPipe {
 public:
  /// Handles the signals. Until start(), SIGINT and SIGTERM end the process as by default, the others are ignored.
  /// Fails with io.
  static Result<SignalPipe> open();

  /// The signals are received by wait() from now on.
  void start();

  /// The next signal; nothing after this time, or when `other` can be read or its writers have closed it.
  std::optional<int> wait(std::chrono::milliseconds time, int other = -1) const;

 private:
  explicit SignalPipe(int read_end) : read_end_(read_end) {}
  int read_end_;  // as long as the process
};

}  // namespace weightfs
