// Writes a new blob to a file in the cache, from its first byte to its last, and publishes it once it is verified.
// Other readers, also in other processes, read its blocks meanwhile. The last block is written after the verification,
// so a reader of all bytes has read verified ones.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/digest_verifier.h"
#include "cache/store/blob_backend.h"

namespace weightfs::blobs {

/// Used by one thread at a time. Errors of the cache are io, resource and not_found, so not about the bytes.
class BlobWriter {
 public:
  /// The writer of a file with new_blob_identity(). `producer` has the size and digest, as far as they are known.
  /// Null if another process writes it; also if the blob is cached, or if a killed process was writing the file: then
  /// the file is removed.
  static std::unique_ptr<BlobWriter> claim(store::BlobBackend& backend, store::BlobName name,
                                           const BlobProducer& producer, store::Eviction eviction,
                                           store::BlockFilePtr file);

  /// Removes the file, unless the blob was published.
  ~BlobWriter();
  BlobWriter(const BlobWriter&) = delete;
  BlobWriter& operator=(const BlobWriter&) = delete;

  /// To be called first: reserves space for all bytes, if their number is known, and prevents that the file is removed.
  /// Fails with not_found if it was removed before.
  Result<void> reserve();

  /// Appends the bytes. Fails as DigestVerifier::add(), and as the cache.
  Result<void> add(std::span<const std::byte> bytes);

  /// Call after the last byte; returns the digest. Fails as DigestVerifier::finish(), and as the cache.
  Result<Digest> finish();

  /// Call last.
  Result<store::BlobHandle> publish(const Digest& digest);

  const store::BlockFilePtr& file() const { return file_; }
  uint64_t size() const { return verifier_.bytes_added(); }  ///< bytes added
  uint64_t written() const { return written_; }              ///< of them those in present blocks

 private:
  BlobWriter(store::BlobBackend& backend, store::BlobName name, const BlobProducer& producer, store::Eviction eviction,
             store::BlockFilePtr file, store::BlockFile::Claim claim)
      : backend_(backend),
        name_(std::move(name)),
        size_(producer.size),
        eviction_(eviction),
        file_(std::move(file)),
        claim_(std::move(claim)),
        verifier_(producer) {}

  Result<void> grow();
  Result<void> append(std::span<const std::byte> bytes);
  Result<void> write(std::span<const std::byte> blocks);

  store::BlobBackend& backend_;
  const store::BlobName name_;
  const std::optional<uint64_t> size_;  // if known
  const store::Eviction eviction_;
  const store::BlockFilePtr file_;
  const store::BlockFile::Claim claim_;
  DigestVerifier verifier_;
  uint64_t reserved_ = 0;
  uint64_t written_ = 0;            // a multiple of the block size before the last block
  std::vector<std::byte> pending_;  // at most a block: it is written when there is a byte after it, or at the end
  bool is_published_ = false;
};

}  // namespace weightfs::blobs
