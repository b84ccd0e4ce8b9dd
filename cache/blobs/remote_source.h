// A file on a server as a Source: only the blocks that are read are downloaded, into a file that all processes share
// (cache/store/block_file.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/source.h"
#include "cache/blobs/read_ahead.h"
#include "cache/blobs/store_core.h"
#include "cache/download/remote_file.h"
#include "cache/store/side_files.h"

namespace weightfs::blobs {

/// Thread-safe.
class RemoteSource final : public Source {
 public:
  static constexpr size_t kMaxTransfers = 8;
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

  /// Downloads absent blocks, verifies all bytes, and publishes them as the blob of the name that was given. Prevents
  /// eviction meanwhile. Fails with mismatch if the digest differs, with io if the cache cannot store or publish the
  /// blob, with resource if the thread is cancelled, and as the download does.
  ///
  /// On a mismatch all blocks are removed from the cache. If no bytes were served before, and another origin may have
  /// the right ones, they are downloaded again. Otherwise reads fail from then on, until accept(), so that no reader
  /// downloads wrong bytes again.
  Result<store::BlobHandle> verify() const;
  /// Bytes are served before verification: if they turn out to be wrong, the readers must learn of it.
  void set_served_unverified() const { served_unverified_ = true; }
  /// Compares the digest if all blocks are cached. Fails as verify() does, also if the comparison has failed before.
  Result<void> verify_if_complete() const;
  /// Drops the blocks, which are downloaded again, if they are few and have a digest that was not compared. Those that
  /// another process holds are kept.
  void drop_unverified() const;
  /// Permits reads again after a mismatch.
  void accept() const;
  bool is_refused() const;
  /// Changes when the blocks of earlier reads were dropped or evicted.
  uint64_t generation() const { return generation_; }
  /// The bytes that are cached, as far as this object knows.
  uint64_t received() const { return std::min(size(), present_ * store::kBlock); }

  const download::RemoteFile& remote() const { return *remote_; }
  StoreStatus::Remote status() const;

 private:
  using Clock = std::chrono::steady_clock;

  // A request for blocks, in a thread of its own.
  struct Transfer {
    store::Blocks blocks;
    store::BlockFilePtr file;
    std::vector<store::BlockFile::Claim> claims;
    std::optional<Result<void>> result = {};     // set when it has ended
    Clock::time_point last_data = Clock::now();  // or its start
    uint64_t written = 0;                        // the end of the blocks that it wrote last
    uint64_t wake_at = UINT64_MAX;               // the first end that a reader waits for
    size_t readers = 0;                          // that wait for it
    bool is_abandoned = false;  // stalled while others were not, or unused: its blocks may be requested again
    std::jthread thread = {};
  };
  using TransferPtr = std::shared_ptr<Transfer>;

  Result<size_t> read_blocks(uint64_t offset, std::span<std::byte> out, const std::optional<ByteRange>& expected) const;
  static inline std::atomic<int> large_reads_ = 0;   // of more than 256 KiB, in progress, of all files
  static std::atomic<int>* counter_of(size_t size);  // of reads of this size; null if they are not counted
  struct PresentBytes {
    size_t bytes;     // that were read
    uint64_t absent;  // the first absent block, if it was looked for
  };
  static Result<PresentBytes> read_present(store::BlockFile& file, uint64_t offset, std::span<std::byte> target);
  Result<size_t> read_with(uint64_t offset, std::span<std::byte> target, uint64_t ahead_end) const;
  // Blocks, or the published blob.
  struct Opened {
    store::BlockFilePtr blocks;
    store::FileRangePtr blob;
  };

  uint64_t block_count() const;
  VerifiedBy verification_by_server() const;
  void record_written(Transfer& transfer, store::Blocks blocks) const;

  Result<Opened> open() const;
  store::FileRangePtr find_blob() const;
  void write_head() const;
  Result<void> hold_space() const;
  void remove_if_empty() const;
  void drop_blocks(const std::optional<Error>& refused) const;
  bool may_drop() const;  // by drop_unverified()
  void release_space(const store::BlockFilePtr& file) const;
  // What one pass over all bytes computes.
  struct Hashes {
    Digest digest;
    std::unique_ptr<store::ListWriter> list;  // null if the blob gets none
  };
  Result<Hashes> hash() const;
  Result<store::BlobHandle> publish(const store::BlockFilePtr& file, const Digest& digest) const;
  Result<TransferPtr> request(const store::BlockFilePtr& file, store::Blocks wanted, store::Blocks ahead,
                              const TransferPtr& waited_for) const;
  Result<bool> wait(const TransferPtr& transfer, uint64_t wanted_end) const;
  void abandon_if_stalled(Transfer& transfer) const;
  static void abandon(Transfer& transfer);
  Result<TransferPtr> start_some(const store::BlockFilePtr& file, store::Blocks absent, store::Blocks wanted) const;
  Result<TransferPtr> start(const store::BlockFilePtr& file, store::Blocks absent) const;
  void run(Transfer& transfer, const std::stop_token& stop) const noexcept;
  Result<void> fetch(Transfer& transfer, const std::stop_token& stop) const;
  Result<void> verified_by_list(Result<void> result) const;
  void extend(Transfer& transfer) const;
  bool may_start(bool is_wanted) const;
  bool has_transfers() const;
  bool has_blocks_of_others() const;
  TransferPtr transfer_of(const store::BlockFilePtr& file, uint64_t block) const;
  void reap() const;

  const download::RemoteFilePtr remote_;
  const std::shared_ptr<StoreCore> store_;
  const std::optional<std::string> identity_;
  const std::optional<store::BlobName> blob_;
  const BlockListPtr list_;  // may be null
  mutable std::atomic<uint64_t> bytes_fetched_ = 0;
  mutable std::atomic<uint64_t> bytes_read_ = 0;
  mutable std::atomic<VerifiedBy> verified_;
  mutable std::atomic<uint64_t> max_ahead_ = ReadAhead::kMaxWindow;
  mutable std::atomic<uint64_t> generation_ = 0;
  mutable std::atomic<uint64_t> present_ = 0;  // blocks: at opening, and those that this object wrote
  mutable std::atomic<bool> served_unverified_ = false;
  mutable std::atomic<uint64_t> resumed_ = 0;  // bytes that were present when the file was opened
  mutable std::mutex mutex_;                   // guards the rest
  mutable std::condition_variable changed_;    // blocks were written, or a transfer ended
  mutable store::BlockFilePtr blocks_;         // null until the first read
  mutable store::BlockSet written_;            // those of its blocks that this object wrote
  mutable std::optional<Error> refused_;       // by verify(), until the next one
  mutable std::list<TransferPtr> transfers_;
  mutable bool has_unused_space_ = false;         // of transfers that failed while others were writing
  mutable Clock::time_point last_data_;           // of any transfer
  mutable size_t max_transfers_ = kMaxTransfers;  // fewer after a server refused parallel requests
  mutable ReadAhead read_ahead_;
};

using RemoteSourcePtr = std::shared_ptr<const RemoteSource>;

}  // namespace weightfs::blobs
