// Writes the bytes of a new blob, and publishes them once they are verified.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/digest_verifier.h"
#include "cache/store/blob_backend.h"

namespace weightfs::blobs {

/// Used by one thread at a time. Errors of the cache are io and resource, so not about the bytes.
class BlobWriter {
 public:
  /// `producer` has the size and digest, as far as they are known.
  BlobWriter(store::PartialBlob& partial, const BlobProducer& producer, store::Eviction eviction)
      : partial_(partial), eviction_(eviction), verifier_(producer) {}

  /// Reserves space for so many bytes in total.
  Result<void> reserve(uint64_t size) {
    TRY_VOID(partial_.reserve(size, eviction_));
    reserved_ = size;
    return {};
  }

  /// Appends the bytes. Fails as DigestVerifier::add(), and as the cache.
  Result<void> add(std::span<const std::byte> bytes) {
    TRY_VOID(verifier_.add(bytes));
    // In growing steps: at most a sixteenth too much.
    if (size() > reserved_ && !reserve(size() + std::max(kMinStep, size() / 16))) TRY_VOID(reserve(size()));
    return partial_.write(bytes);
  }

  /// Call after the last byte; returns the digest. Fails as DigestVerifier::finish().
  Result<Digest> finish() { return verifier_.finish(); }

  /// Call last.
  Result<store::BlobHandle> publish(const Digest& digest) { return partial_.publish(digest); }

  uint64_t size() const { return verifier_.bytes_added(); }

 private:
  static constexpr uint64_t kMinStep = 1 << 20;

  store::PartialBlob& partial_;
  const store::Eviction eviction_;
  DigestVerifier verifier_;
  uint64_t reserved_ = 0;
};

}  // namespace weightfs::blobs
