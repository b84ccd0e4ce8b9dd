// Bytes of an origin that deliver nothing: they do not match, or never arrive.
#pragma once

#include <thread>

#include "base/cancel.h"
#include "base/source.h"

namespace weightfs::failing_bytes {

class MismatchedBytes final : public Source {
 public:
  explicit MismatchedBytes(uint64_t size) : size_(size) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t, std::span<std::byte>) const override {
    return failure(Code::mismatch, "the bytes do not match");
  }
  VerifiedBy verification() const override { return VerifiedBy::mismatch; }

 private:
  const uint64_t size_;
};

/// Each read waits until it is cancelled.
class SilentBytes final : public Source {
 public:
  explicit SilentBytes(uint64_t size) : size_(size) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t, std::span<std::byte>) const override {
    while (!is_cancelled()) std::this_thread::yield();
    return cancelled();
  }

 private:
  const uint64_t size_;
};

}  // namespace weightfs::failing_bytes
