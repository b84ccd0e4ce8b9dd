// The downloads and the files on servers that are open in a store: readers of one share it, and the status lists it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/blobs.h"
#include "cache/blob_store.h"
#include "cache/core/store_core.h"
#include "cache/remote/download.h"
#include "cache/remote/remote_source.h"

namespace weightfs::blobs {

/// Owns none of them. Thread-safe.
class LiveBlobs {
 public:
  explicit LiveBlobs(std::shared_ptr<StoreCore> store) : store_(std::move(store)) {}

  const std::shared_ptr<StoreCore>& store() const { return store_; }

  /// The file on a server that is open under this key; null if there is none.
  RemoteSourcePtr find_remote(const std::string& key);
  /// Returns the source open under `key`; otherwise registers `source`. The status reports it as long as it is in use.
  RemoteSourcePtr share_remote(const std::string& key, const RemoteSourcePtr& source);

  /// The download of a blob from these origins: shared by all its readers.
  DownloadPtr download(const BlobRef& ref, std::optional<uint64_t> size, const std::vector<download::Origin>& origins);

  /// See BlobStore::verify_complete().
  Result<void> verify_complete();
  /// See Blobs::drop_unverified(): the blocks of open files, and those of closed ones that were noted.
  void drop_unverified();
  /// See Blobs::release_ranges().
  void release_ranges(const std::string& identity);

  StoreStatus status() { return with_remotes(store_->stats().status(running_downloads())); }
  StoreStatus in_progress_status() { return with_remotes(store_->stats().in_progress(running_downloads())); }

  /// Ends all downloads and starts no more; then StoreCore::stop().
  void stop();

 private:
  std::vector<RemoteSourcePtr> remotes_in_use(size_t most);
  std::vector<DownloadPtr> downloads_in_use();
  std::vector<StoreStatus::Blob> running_downloads();
  StoreStatus with_remotes(StoreStatus status);

  const std::shared_ptr<StoreCore> store_;
  std::mutex mutex_;  // guards the rest
  std::map<std::string, std::weak_ptr<const RemoteSource>> remotes_;
  uint64_t opened_remotes_ = 0;
  std::map<std::string, std::weak_ptr<Download>> downloads_;  // by name and origins
  bool stopped_ = false;
};

using LiveBlobsPtr = std::shared_ptr<LiveBlobs>;

}  // namespace weightfs::blobs
