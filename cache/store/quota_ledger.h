// The lock of a store and the one number that it guards: how many bytes are counted as used.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "cache/paths.h"

namespace weightfs {

/// The lock, held as long as this lives: nothing is evicted meanwhile by others, and nobody takes room.
class Count {
 public:
  /// Fails with unavailable when it cannot be had for two seconds, and when it is told to stop.
  static Result<Count> locked(const Folders& folders, const std::atomic<bool>& stop);

  /// What was counted last; nothing when that cannot be believed.
  std::optional<uint64_t> read() const;
  void write(uint64_t used) const;

 private:
  explicit Count(OpenFilePtr file) : file_(std::move(file)) {}

  OpenFilePtr file_;
};

}  // namespace weightfs
