// Statistics about the blobs that a store was asked for by digest; shown in status.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/blobs.h"
#include "cache/store_status.h"

namespace weightfs::blobs {

/// Thread-safe.
class CacheStats {
 public:
  /// A blob of that digest was requested.
  void add(const BlobRef& ref, std::optional<uint64_t> size);
  /// The blob is local and verified; its first read counts as a hit.
  void record_local(const Digest& digest, uint64_t size, const std::string& from);
  /// The blob is being downloaded.
  void record_miss(const Digest& digest);
  /// A download failed, or could not start.
  void record_failure(const Digest& digest, const Error& error);
  /// Bytes were received from a server.
  void record_received(uint64_t bytes);
  /// The blob was downloaded and verified.
  void record_download(const Digest& digest, uint64_t size, const std::string& from);

  /// Whether record_download() was called for it.
  bool is_downloaded(const Digest& digest);
  /// Whether record_download() was called for it since the last call of this function.
  bool take_downloaded(const Digest& digest);

  /// The counters, and the state of all blobs. Those in `running` have `digest`, `fetched` and `from`.
  StoreStatus status(const std::vector<StoreStatus::Blob>& running);
  /// The status, limited to blobs that are being downloaded.
  StoreStatus in_progress(const std::vector<StoreStatus::Blob>& running);

 private:
  struct Entry {
    StoreStatus::Blob blob;
    bool is_read = false;  // counted as a hit or a miss
    bool is_downloaded = false;
  };

  Entry* find(const Digest& digest);

  std::mutex mutex_;     // guards the rest
  StoreStatus counted_;  // without blobs
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> indices_;  // of the entries, by digest
};

}  // namespace weightfs::blobs
