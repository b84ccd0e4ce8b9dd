// Verifies size and digest of a stream of bytes before its last byte is served.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/blob_producer.h"

namespace weightfs {

/// Hashes the bytes of a producer in order, and compares them with its declared size and digest.
class DigestVerifier {
 public:
  explicit DigestVerifier(const BlobProducer& producer)
      : name_(producer.name), size_(producer.size), digest_(producer.digest) {}

  /// Fails with corrupt when the bytes exceed the declared size.
  Result<void> add(std::span<const std::byte> bytes);

  /// Call after the last byte; returns the digest. Fails with corrupt when bytes are missing, with mismatch when the
  /// digest differs from the declared one.
  Result<Digest> finish();

  uint64_t bytes_added() const { return bytes_added_; }

 private:
  std::string name_;
  std::optional<uint64_t> size_;
  std::optional<Digest> digest_;
  uint64_t bytes_added_ = 0;
  Sha256 hash_;
};

/// Wraps the producer so that its streams fail at the end when size or digest differ.
BlobProducer with_verification(BlobProducer producer);

}  // namespace weightfs
