// The store's lock, and the recorded number of bytes in use that it protects.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "cache/paths.h"

namespace weightfs {

/// The lock, held during the lifetime: no other process evicts or reserves space.
class QuotaLedger {
 public:
  /// Fails with resource when the lock is busy for two seconds, and when `stop` is set.
  static Result<QuotaLedger> lock(const Folders& folders, const std::atomic<bool>& stop);

  /// The recorded bytes; nothing when the record is not valid.
  std::optional<uint64_t> read() const;
  void write(uint64_t used) const;

 private:
  explicit QuotaLedger(OpenFilePtr file) : file_(std::move(file)) {}

  OpenFilePtr file_;
};

}  // namespace weightfs
