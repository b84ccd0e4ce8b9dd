// A file on a server as a Source: only the blocks that are read are downloaded, into a file that all processes share
// (cache/store/block_file.h).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "base/source.h"
#include "cache/blobs/store_core.h"
#include "cache/download/remote_file.h"

namespace weightfs::blobs {

/// Reads that follow each other, and how many bytes to request ahead of them.
class ReadAhead {
 public:
  /// The end of the bytes to request for a read of [from, to) by a reader that will probably read the bytes of
  /// `expected`; at least `to`. Without `expected`, at most a tenth of what was read in order.
  uint64_t end_for(uint64_t from, uint64_t to, const std::optional<ByteRange>& expected);

 private:
  struct Stream {
    uint64_t begin = 0;
    uint64_t next = UINT64_MAX;  ///< the end of its last read
    uint64_t window = 0;
    uint64_t requested = 0;  ///< the end of the bytes that were requested ahead
    uint64_t used = 0;       ///< the number of the last read that belonged to it
  };

  Stream& stream_at(uint64_t from, uint64_t to, uint64_t gap);

  std::array<Stream, 16> streams_;
  uint64_t reads_ = 0;
};

/// Thread-safe.
class RemoteSource final : public Source {
 public:
  static constexpr size_t kMaxTransfers = 8;
  static constexpr uint64_t kMaxOccupied = 256 << 20;
  static constexpr uint64_t kMaxWindow = 64 << 20;  ///< bytes that are requested ahead

  RemoteSource(download::RemoteFilePtr remote, std::shared_ptr<StoreCore> store);
  ~RemoteSource() override;

  /// Identifies the bytes across processes: the URL and its version. Nothing without a strong ETag.
  static std::optional<std::string> identity_of(const std::string& url, const download::FileVersion& version);

  uint64_t size() const override { return remote_->version().size; }
  /// Limited, because the server states the size: it extends the budget of a container.
  uint64_t occupied() const override { return std::min(size(), kMaxOccupied); }
  std::string identity() const override { return identity_.value_or(""); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return read_blocks(offset, out, std::nullopt);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return read_blocks(offset, out, expected);
  }
  Result<void> fetch(ByteRange range) const override;

  /// Whether all blocks are cached. Cheap if asked repeatedly.
  bool is_complete() const;
  /// The digest of all bytes, with the checksums for the cache. Downloads absent ones. Fails with resource if `stop` is
  /// set.
  Result<std::pair<Digest, store::BlockSums>> digest(const std::stop_token& stop) const;
  /// Makes the blob of complete blocks that have this digest.
  Result<void> publish(const Digest& digest, store::BlockSums sums) const;
  /// Removes all blocks from the cache, because they do not match their digest.
  void drop_blocks() const;
  const download::RemoteFile& remote() const { return *remote_; }
  StoreStatus::Remote status() const;

 private:
  // A request for blocks, in a thread of its own.
  struct Transfer {
    store::Blocks blocks;
    store::BlockFilePtr file;
    std::unique_ptr<store::BlockFile::Claim> claim;
    std::optional<Result<void>> result = {};  // set when it has ended
    std::jthread thread = {};
  };
  using TransferPtr = std::shared_ptr<Transfer>;

  Result<size_t> read_blocks(uint64_t offset, std::span<std::byte> out, const std::optional<ByteRange>& expected) const;
  Result<size_t> read_with(uint64_t offset, std::span<std::byte> target, uint64_t ahead_end) const;
  Result<store::BlockFilePtr> open_blocks() const;
  Result<TransferPtr> request(const store::BlockFilePtr& file, store::Blocks wanted, store::Blocks ahead) const;
  Result<bool> wait(const TransferPtr& transfer) const;
  Result<TransferPtr> start_some(const store::BlockFilePtr& file, store::Blocks absent, store::Blocks wanted) const;
  Result<TransferPtr> start(const store::BlockFilePtr& file, store::Blocks absent) const;
  void run(Transfer& transfer, const std::stop_token& stop) const noexcept;
  Result<void> fetch(const Transfer& transfer, const std::stop_token& stop) const;
  TransferPtr transfer_of(const store::BlockFilePtr& file, uint64_t block) const;
  void reap() const;

  const download::RemoteFilePtr remote_;
  const std::shared_ptr<StoreCore> store_;
  const std::optional<std::string> identity_;
  mutable std::atomic<uint64_t> bytes_fetched_ = 0;
  mutable std::atomic<uint64_t> bytes_read_ = 0;
  mutable std::atomic<const char*> verified_ = "transport";
  mutable std::atomic<uint64_t> max_ahead_ = kMaxWindow;
  mutable std::mutex mutex_;                 // guards the rest
  mutable std::condition_variable changed_;  // blocks were written, or a transfer ended
  mutable store::BlockFilePtr blocks_;       // null until the first read
  mutable std::list<TransferPtr> transfers_;
  mutable ReadAhead read_ahead_;
};

using RemoteSourcePtr = std::shared_ptr<const RemoteSource>;

}  // namespace weightfs::blobs
