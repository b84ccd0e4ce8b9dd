// The download of a whole blob, which is verified before it is read. Exception: format detection.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/blobs.h"
#include "cache/blobs/remote_source.h"
#include "cache/decoding/blob_writer.h"
#include "cache/download/remote_file.h"
#include "cache/store/blob_backend.h"

namespace weightfs::blobs {

class StoreCore;

/// Runs in a thread of its own while readers wait. Its blocks are kept when it ends early, and used by the next
/// download of any process. Thread-safe.
class Download {
 public:
  /// Downloads `ref`, which has `size` bytes if that is known, from `remote`.
  Download(std::shared_ptr<StoreCore> store, BlobRef ref, std::optional<uint64_t> size, download::RemoteFilePtr remote);
  ~Download();
  Download(const Download&) = delete;
  Download& operator=(const Download&) = delete;

  /// Starts it, unless it runs, and waits for the verified blob. It ends if this is not called for a while. Fails as
  /// RemoteSource::verify(); with resource if the calling thread is cancelled.
  Result<store::BlobHandle> wait();
  /// Ends it, and starts no more.
  void stop();

  bool is_running() const;

  /// The bytes, verified or not; null if the size is unknown.
  const RemoteSourcePtr& source() const { return source_; }

  /// The digest, the bytes that were received, including those of earlier downloads, and the URL in use.
  StoreStatus::Blob status() const;

 private:
  using Clock = std::chrono::steady_clock;

  void start_locked();
  void run(const std::stop_token& stop) noexcept;
  Result<store::BlobHandle> download();
  Result<store::BlobHandle> download_unsized(const std::stop_token& stop);
  Result<std::optional<store::BlobHandle>> write_unsized(BlobWriter& writer, const std::stop_token& stop);
  bool is_unused() const;

  const std::shared_ptr<StoreCore> store_;
  const BlobRef ref_;
  const download::RemoteFilePtr remote_;
  const store::BlobName name_;
  const RemoteSourcePtr source_;
  std::atomic<uint64_t> received_ = 0;  // if the size is unknown

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  bool is_running_ = false;
  bool is_stopped_ = false;
  size_t waiting_ = 0;
  Clock::time_point last_wanted_;
  Result<store::BlobHandle> result_;  // of the last run; without a blob if it was cancelled
  std::jthread thread_;
};

using DownloadPtr = std::shared_ptr<Download>;

}  // namespace weightfs::blobs
