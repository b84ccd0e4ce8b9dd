// A blob on servers: its bytes as they arrive, and the job that verifies and publishes all of them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>

#include "base/blobs.h"
#include "cache/decoding/blob_writer.h"
#include "cache/decoding/shared_job.h"
#include "cache/download/remote_file.h"
#include "cache/remote/remote_source.h"
#include "cache/store/blob_backend.h"

namespace weightfs::blobs {

class StoreCore;

/// Its blocks are kept when it ends early, and used by the next download of any process. Thread-safe.
class Download {
 public:
  /// Downloads `ref`, which has `size` bytes if that is known, from `remote`. Its readers wait for the verified blob;
  /// only format detection does not.
  Download(std::shared_ptr<StoreCore> store, BlobRef ref, std::optional<uint64_t> size, download::RemoteFilePtr remote);
  /// Serves the bytes of `ref` as they arrive (semantics 16.8).
  Download(std::shared_ptr<StoreCore> store, BlobRef ref, RemoteSourcePtr ranges);
  Download(const Download&) = delete;
  Download& operator=(const Download&) = delete;

  /// Downloads the absent bytes, unless that runs already, and waits for the verified blob. The result is empty if the
  /// server states no version: such a blob is not published. It ends if this is not called for a while. Fails as
  /// verify(); with resource if the calling thread is cancelled.
  Result<store::BlobHandle> wait() { return job_.wait(); }
  /// Waits until the bytes of a source that awaits it (RemoteSource::awaits_comparison()) have matched the digest; they
  /// are read again then, and published in the background. Fails as wait().
  Result<void> wait_for_match();
  /// Verifies it in the background if all bytes are there, unless that has just failed.
  void verify_if_complete();
  /// Ends it, and starts no more.
  void stop() { job_.stop(); }

  bool is_running() const { return job_.is_running(); }
  bool is_served_as_received() const { return remote_ == nullptr; }

  /// The bytes, verified or not; null if the size is unknown.
  const RemoteSourcePtr& source() const { return source_; }

  /// The digest, the bytes that were received, including those of earlier downloads, and the URL in use.
  StoreStatus::Blob status() const;

 private:
  using Clock = std::chrono::steady_clock;

  Result<store::BlobHandle> run(const std::stop_token& stop);
  Result<store::BlobHandle> verify_ranges();
  Result<store::BlobHandle> download();
  Result<store::BlobHandle> download_unsized(const std::stop_token& stop);
  Result<std::optional<store::BlobHandle>> write_unsized(BlobWriter& writer, const std::stop_token& stop);

  const std::shared_ptr<StoreCore> store_;
  const BlobRef ref_;
  const download::RemoteFilePtr remote_;  // null if it is served as received
  const store::BlobName name_;
  const RemoteSourcePtr source_;
  std::atomic<uint64_t> received_ = 0;  // if the size is unknown

  std::atomic<Clock::time_point> next_verification_ = Clock::time_point();  // not before
  // The generation of the source that was verified; a blob without a strong ETag is not published.
  std::atomic<uint64_t> verified_ = 0;
  SharedJob job_;
};

using DownloadPtr = std::shared_ptr<Download>;

}  // namespace weightfs::blobs
