// A file on a server as a Source: only the blocks that are read are downloaded, into a file that all processes share
// (cache/blocks/block_file.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/source.h"
#include "cache/blocks/block_set.h"
#include "cache/core/store_core.h"
#include "cache/download/remote_file.h"
#include "cache/remote/delivery.h"
#include "cache/remote/ranges.h"
#include "cache/remote/read_ahead.h"

namespace weightfs::blobs {

/// Thread-safe.
class RemoteSource final : public Source {
 public:
  static constexpr uint64_t kMaxOccupied = 256 << 20;

  /// `identity` names the blocks in the cache (BlobBackend::open_blocks). `blob` is the name under which they are
  /// published when they are complete and match its digest, by any process. With a block list, received blocks are
  /// verified before they are written. The size of the file must be known.
  RemoteSource(download::RemoteFilePtr remote, std::shared_ptr<StoreCore> store, std::optional<std::string> identity,
               std::optional<store::BlobName> blob = {}, BlockListPtr list = nullptr);
  ~RemoteSource() override;

  uint64_t size() const override { return remote_->size(); }
  /// Limited, because the server states the size: it extends the budget of a container.
  uint64_t occupied() const override { return std::min(size(), kMaxOccupied); }
  std::string identity() const override { return identity_.value_or(""); }
  VerifiedBy verification() const override { return verified_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return read_blocks(offset, out, std::nullopt);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return read_blocks(offset, out, expected);
  }
  Result<void> prefetch(ByteRange range) const override;
  Result<CachedBytes> cached(ByteRange range) const override;

  /// Whether the digest of all bytes is known: verify() compares it.
  bool has_digest() const { return blob_ && blob_->digest; }
  /// Whether all blocks are cached. Cheap if asked repeatedly.
  bool is_complete() const;
  /// Whether blocks were cached when the file was opened, by this process or another one before.
  bool has_earlier_bytes() const { return open() && resumed_ > 0; }

  /// Whether a read must wait for the comparison before it returns its bytes (semantics 21.6): a reader may have all
  /// bytes then, or all were cached before the first one was served, by a process that ended before its comparison.
  /// Also with a block list: it is trusted by a digest of its own, and no digest ties it to that of the blob.
  bool awaits_comparison() const;
  /// Serves this file without a comparison, because the cache has no space for it. What readers have got so far does
  /// not count any more.
  void serve_uncompared() const;
  /// To be called when a verified copy is gone. Readers may have got any bytes of it, so reads wait for a comparison
  /// from now on.
  void set_served_verified() const;
  /// To be called before a reader gets bytes of that generation unverified: if they turn out to be wrong, reads fail
  /// from then on. False if the blocks were dropped meanwhile: the bytes must be read again.
  bool begin_serving(uint64_t generation) const;
  /// Drops the blocks, which are downloaded again, if they are few and have a digest that was not compared. Those that
  /// another process holds are kept.
  void drop_unverified() const;
  /// Drops the blocks that tell nothing about the format: all but one at the beginning and two at the end. Keeps those
  /// of which this object has not written all, which are pinned or kept, or whose digest is known.
  void release_middle() const;
  /// Permits reads again after a mismatch.
  void accept() const;
  bool is_refused() const;
  /// Changes when the blocks of earlier reads were dropped or evicted.
  uint64_t generation() const { return generation_; }
  /// The bytes that are cached, as far as this object knows.
  uint64_t received() const { return std::min(size(), present_ * store::kBlock); }

  const download::RemoteFile& remote() const { return *remote_; }
  StoreStatus::Remote status() const;

  // What follows is for verify().

  /// The cached blocks, or the published blob; the other one is null.
  struct Opened {
    store::BlockFilePtr blocks;
    store::FileRangePtr blob;
  };
  /// Opens the blocks, or a new file if they were evicted. Fails after drop_blocks() with an error, until accept().
  Result<Opened> open() const;
  /// Reads all of `target`, and requests the bytes up to `ahead_end`. Does not feed read-ahead, unlike
  /// read().
  Result<size_t> read_through(uint64_t offset, std::span<std::byte> target, uint64_t ahead_end) const;
  /// Under which it is published.
  const std::optional<store::BlobName>& name() const { return blob_; }
  StoreCore& store() const { return *store_; }
  Ranges& ranges() const { return ranges_; }
  /// All bytes match the digest.
  void set_verified() const { verified_ = VerifiedBy::whole; }
  /// The blocks were published as the blob.
  void set_published() const;
  /// Removes the blocks, which do not match. Returns whether they are to be downloaded again: another origin may have
  /// the right bytes, and no reader has got the wrong ones. Otherwise reads fail with `mismatch`.
  bool drop_blocks(const Error& mismatch) const;
  /// What was read; null without a digest.
  Delivery* delivery() const { return delivery_.get(); }
  /// How many bytes the running comparison has hashed; nothing at its end.
  void set_comparing(std::optional<uint64_t> bytes) const { comparing_ = bytes.value_or(kNotComparing); }
  /// Removes the file if no block was written.
  void remove_if_empty() const;

 private:
  Result<size_t> read_blocks(uint64_t offset, std::span<std::byte> out, const std::optional<ByteRange>& expected) const;
  void note(uint64_t generation, uint64_t offset, std::span<const std::byte> bytes) const;
  static inline std::atomic<int> large_reads_ = 0;   // of more than 256 KiB, in progress, of all files
  static std::atomic<int>* counter_of(size_t size);  // of reads of this size; null if they are not counted
  struct PresentBytes {
    size_t bytes;     // that were read
    uint64_t absent;  // the first absent block, if it was looked for
  };
  static Result<PresentBytes> read_present(store::BlockFile& file, uint64_t offset, std::span<std::byte> target);
  uint64_t block_count() const;
  VerifiedBy verification_by_server() const;
  void record_written(const store::BlockFilePtr& file, store::Blocks blocks) const;

  store::FileRangePtr find_blob() const;
  std::vector<Name> names() const;
  void write_head() const;
  bool drop_middle(const store::BlockFilePtr& file) const;
  void write_back(uint64_t first, std::span<const std::byte> bytes) const;
  bool may_drop() const;              // by drop_unverified()
  bool has_blocks_of_others() const;  // call with the lock

  static constexpr uint64_t kNotComparing = UINT64_MAX;

  const download::RemoteFilePtr remote_;
  const std::shared_ptr<StoreCore> store_;
  const std::optional<std::string> identity_;
  const std::optional<store::BlobName> blob_;
  const bool has_list_;
  const std::unique_ptr<Delivery> delivery_;  // null without a digest
  mutable std::atomic<uint64_t> comparing_ = kNotComparing;
  mutable std::atomic<uint64_t> bytes_read_ = 0;
  mutable std::atomic<VerifiedBy> verified_;
  mutable std::atomic<uint64_t> generation_ = 0;
  mutable std::atomic<uint64_t> present_ = 0;            // blocks: at opening, and those that this object wrote
  mutable std::atomic<bool> served_unverified_ = false;  // to a reader
  mutable std::atomic<uint64_t> resumed_ = 0;            // bytes that were present when the file was opened
  mutable std::mutex mutex_;                             // guards the next four
  mutable store::BlockFilePtr blocks_;                   // null until the first read
  mutable store::BlockSet written_;                      // those of its blocks that this object wrote
  mutable std::optional<Error> refused_;                 // by verify(), until the next one
  mutable ReadAhead read_ahead_;
  mutable Ranges ranges_;  // its transfers call record_written(), so they end first
};

using RemoteSourcePtr = std::shared_ptr<const RemoteSource>;

}  // namespace weightfs::blobs
