// Statistics about the blobs that a store was asked for by digest; shown in status.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/blob_store.h"
#include "cache/blobs/in_flight_blob.h"

namespace weightfs::blobs {

/// Thread-safe.
class CacheStats {
 public:
  using InFlightBlobs = std::vector<std::shared_ptr<InFlightBlob>>;

  /// A blob of that digest was requested.
  void add(const BlobRef& ref, std::optional<uint64_t> size);
  /// The blob is local and verified; its first read counts as a hit.
  void record_local(const Digest& digest, uint64_t size, const std::string& from);
  /// The blob is being downloaded.
  void record_miss(const Digest& digest);
  /// The download could not start.
  void record_failure(const Digest& digest, const Error& error);
  /// Bytes of a file that is read by ranges were received.
  void record_range(uint64_t bytes);
  /// A download ended, with or without success.
  void record_download(const InFlightBlob& in_flight);

  /// The counters, and the state of all blobs including active downloads.
  StoreStatus status(const InFlightBlobs& fetching) const;
  /// The same, limited to blobs that are being downloaded.
  StoreStatus in_progress(const InFlightBlobs& fetching) const;

 private:
  struct Entry {
    size_t index;       // in blobs_
    bool read = false;  // counted as a hit or a miss
  };

  StoreStatus::Blob* blob(const Digest& digest);
  std::optional<size_t> index_of(const Digest& digest) const;
  bool is_first_read(const Digest& digest);

  mutable std::mutex mutex_;  // guards the rest
  StoreStatus counted_;       // without blobs
  std::vector<StoreStatus::Blob> blobs_;
  std::unordered_map<std::string, Entry> entries_;  // by digest
};

}  // namespace weightfs::blobs
