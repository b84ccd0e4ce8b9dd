// The download of a whole blob, which is verified before it is read. Exceptions: --stream, and format detection.
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
#include "cache/download/remote_file.h"
#include "cache/store/blob_backend.h"

namespace weightfs::blobs {

class StoreCore;

/// The error for a file whose size is known only after a complete download.
Error too_large_for_size(const std::string& name);

/// Runs in a thread of its own while readers wait. Its blocks are kept when it ends early, and used by the next
/// download of any process. Thread-safe.
class Download {
 public:
  /// Downloads `ref`, which has `size` bytes if that is known, from `remote`.
  Download(std::shared_ptr<StoreCore> store, BlobRef ref, std::optional<uint64_t> size, download::RemoteFilePtr remote);
  ~Download();
  Download(const Download&) = delete;
  Download& operator=(const Download&) = delete;

  /// A download of unreported size ends after kMaxDownloadForSize bytes and is discarded, unless this is called because
  /// its bytes are needed.
  void allow_any_size() { max_bytes_ = UINT64_MAX; }
  /// Whether that limit ended it.
  bool is_too_large() const { return is_too_large_; }

  /// Starts it, unless it runs. It ends if start() and wait() are not called for a while. A reader that has read a part
  /// (`continues`) does not start it after a mismatch: it must not read another download.
  void start(bool continues);
  /// Starts it, and waits for the verified blob. Fails as RemoteSource::verify(); with resource if the calling thread
  /// is cancelled.
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
  Result<std::optional<store::BlobHandle>> write_unsized(store::PartialBlob& partial, const std::stop_token& stop);
  bool is_unused() const;

  const std::shared_ptr<StoreCore> store_;
  const BlobRef ref_;
  const download::RemoteFilePtr remote_;
  const store::BlobName name_;
  const RemoteSourcePtr source_;
  std::atomic<uint64_t> received_ = 0;                     // if the size is unknown
  std::atomic<uint64_t> max_bytes_ = kMaxDownloadForSize;  // if the size is unknown
  std::atomic<bool> is_too_large_ = false;

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
