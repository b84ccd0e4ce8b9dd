// Requests for ranges of a file on a server, each in a thread that writes its blocks. Readers wait for blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>

#include "base/result.h"
#include "base/verity/block_list.h"
#include "cache/blocks/block_file.h"
#include "cache/core/store_core.h"
#include "cache/download/remote_file.h"
#include "cache/remote/read_ahead.h"
#include "cache/store/blob_backend.h"

namespace weightfs::blobs {

/// Thread-safe.
class Ranges {
 public:
  /// Is called for blocks that were written, by the thread that wrote them.
  using OnWritten = std::function<void(const store::BlockFilePtr&, store::Blocks)>;

  static constexpr size_t kMaxTransfers = 8;

  struct Transfer;  // a request
  using TransferPtr = std::shared_ptr<Transfer>;

  /// With a block list, received blocks are verified before they are written.
  Ranges(download::RemoteFilePtr remote, std::shared_ptr<StoreCore> store, BlockListPtr list, OnWritten on_written);
  ~Ranges() { stop(); }
  Ranges(const Ranges&) = delete;
  Ranges& operator=(const Ranges&) = delete;

  /// Starts transfers of the absent blocks in `ahead`. Returns that of the first absent block in `wanted`; null if
  /// there is none, or if another process is downloading it. The transfer that the reader waited for may have failed
  /// since: then it is returned, so that its error is not lost, and no request is sent again. Fails as BlockFile.
  Result<TransferPtr> request(const store::BlockFilePtr& file, store::Blocks wanted, store::Blocks ahead,
                              const TransferPtr& waited_for);
  /// Waits for a moment, until the blocks before `wanted_end` were written, as far as they are the transfer's, or it
  /// has ended: then it returns true. Fails as the transfer; with resource if the thread is cancelled.
  Result<bool> wait(const TransferPtr& transfer, uint64_t wanted_end);
  bool is_idle() const;

  /// How many bytes are requested ahead at most.
  uint64_t max_ahead() const { return max_ahead_; }
  /// Halves read-ahead: prefetched blocks may have evicted others.
  void request_less_ahead() { max_ahead_ = max_ahead_ / 2; }
  uint64_t bytes_fetched() const { return bytes_fetched_; }

  /// Ends the transfers that no reader waits for, frees the space of absent blocks, and permits eviction.
  void release_space(const store::BlockFilePtr& file);
  /// Calls `work` with a claim of all blocks, when all transfers of the file have ended; none starts meanwhile. Fails
  /// with resource if other processes keep writing it, or if the thread is cancelled.
  Result<store::BlobHandle> when_idle(const store::BlockFilePtr& file,
                                      const std::function<Result<store::BlobHandle>()>& work);
  /// Ends all transfers. No other function may be called at the same time, or afterwards.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  void record_written(Transfer& transfer, store::Blocks blocks);
  void abandon_if_stalled(Transfer& transfer) const;
  static void abandon(Transfer& transfer);
  Result<TransferPtr> start_some(const store::BlockFilePtr& file, store::Blocks absent, store::Blocks wanted);
  Result<TransferPtr> start(const store::BlockFilePtr& file, store::Blocks absent, http::Urgency urgency);
  void run(Transfer& transfer, const std::stop_token& stop) noexcept;
  Result<void> fetch(Transfer& transfer, const std::stop_token& stop);
  Result<void> verified_by_list(Result<void> result) const;
  void extend(Transfer& transfer);
  bool may_start(bool is_wanted) const;
  TransferPtr transfer_of(const store::BlockFilePtr& file, uint64_t block) const;
  bool has_transfer(const store::BlockFilePtr& file) const;
  void reap();

  const download::RemoteFilePtr remote_;
  const std::shared_ptr<StoreCore> store_;
  const BlockListPtr list_;  // may be null
  const OnWritten on_written_;
  std::atomic<uint64_t> bytes_fetched_ = 0;
  std::atomic<uint64_t> max_ahead_ = ReadAhead::kMaxWindow;

  mutable std::mutex mutex_;         // guards the rest
  std::condition_variable changed_;  // blocks were written, or a transfer ended
  std::list<TransferPtr> transfers_;
  bool has_unused_space_ = false;         // of transfers that failed while others were writing
  Clock::time_point last_data_;           // of any transfer
  size_t max_transfers_ = kMaxTransfers;  // fewer after a server refused parallel requests
};

}  // namespace weightfs::blobs
