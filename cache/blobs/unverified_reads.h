// Bytes that parsers got before the blob was verified, so that they can be compared afterwards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/digest.h"

namespace weightfs::blobs {

/// Thread-safe.
class UnverifiedReads {
 public:
  struct Read {
    uint64_t offset;
    size_t size;
    Digest digest;

    bool operator==(const Read&) const = default;
  };

  static Read describe(uint64_t offset, std::span<const std::byte> bytes) {
    Sha256 hash;
    hash.update(bytes);
    return {offset, bytes.size(), hash.finish()};
  }
  void record(uint64_t offset, std::span<const std::byte> bytes) { add(describe(offset, bytes)); }
  void add(const Read& read) {
    const std::scoped_lock lock(mutex_);
    reads_.push_back(read);
  }
  /// One that was not removed; nothing if there is none.
  std::optional<Read> next() const {
    const std::scoped_lock lock(mutex_);
    return reads_.empty() ? std::nullopt : std::optional(reads_.back());
  }
  /// Removes it, and equal ones.
  void remove(const Read& read) {
    const std::scoped_lock lock(mutex_);
    std::erase(reads_, read);
  }
  /// Removes all of these reads, and each once from `others`, which has those of other readers, too.
  void forget_in(UnverifiedReads& others) {
    while (const auto read = next()) {
      take(*read);
      others.take(*read);
    }
  }

 private:
  void take(const Read& read) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = std::find(reads_.begin(), reads_.end(), read); found != reads_.end()) reads_.erase(found);
  }

  mutable std::mutex mutex_;
  std::vector<Read> reads_;
};

}  // namespace weightfs::blobs
