// The store's lock, and the recorded number of bytes in use that it protects.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

#include "base/os/descriptor.h"
#include "cache/paths.h"

namespace weightfs::store {

/// The lock, held during the lifetime: no other process evicts or reserves space.
class QuotaLedger {
 public:
  /// Fails with resource when the lock is busy for two seconds, and when `stop` is set.
  static Result<QuotaLedger> lock(const Folders& folders, const std::stop_token& stop);

  /// The recorded bytes; nothing when the record is not valid.
  std::optional<uint64_t> read() const;
  void write(uint64_t used) const;

 private:
  explicit QuotaLedger(SharedDescriptor file) : file_(std::move(file)) {}

  SharedDescriptor file_;
};

}  // namespace weightfs::store
