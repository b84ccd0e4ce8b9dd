// Inspects, verifies and cleans a cache while other processes use it: removing a blob does not affect readers that have
// it open, and files that are being written are kept.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/store/inventory.h"

namespace weightfs {

/// Disk usage.
struct Usage {
  uint64_t blobs = 0;
  uint64_t blob_bytes = 0;
  uint64_t records = 0;  ///< blobs of weightfs itself, not included in `blobs`
  uint64_t record_bytes = 0;
  uint64_t pinned = 0;  ///< included in `blobs` and `remotes`
  uint64_t pinned_bytes = 0;
  uint64_t partial = 0;  ///< active and abandoned downloads
  uint64_t partial_bytes = 0;
  uint64_t remotes = 0;  ///< remote files that are read by ranges
  uint64_t remote_bytes = 0;
  uint64_t reserved_bytes = 0;  ///< allocated for absent bytes of downloads and ranges; included in none of the above
  uint64_t all_bytes = 0;       ///< the sum, files being written or left by a killed process, names, and the index
};

Usage usage_of(const store::Inventory& inventory);

/// The result of comparing every blob with its digest, and every cached block of a partial file with its checksum.
struct VerifyResult {
  struct Count {
    uint64_t valid = 0;
    uint64_t all = 0;
    uint64_t bytes = 0;  ///< of all that were completely read
  };
  Count blobs;
  Count decoded;                        ///< blobs that were decoded from a member of a container
  Count records;                        ///< blobs with texts of weightfs itself
  Count blocks;                         ///< of files that are read by ranges, and of partial downloads
  uint64_t ranged_files = 0;            ///< those that the blocks are of
  std::vector<std::string> mismatched;  ///< a line for each file that does not match, with the action taken
  std::vector<Error> unreadable;        ///< one for each unreadable file, which is kept
};

/// Gets the name of the current file, the bytes read so far, and those to read in total.
using VerifyProgress = std::function<void(const Digest& digest, uint64_t bytes, uint64_t total)>;

enum class PinnedBlobs { keep, remove };

/// Whether a text has the form of a digest or its prefix: 6 to 64 hex digits, optionally after "sha256:".
bool is_digest_prefix(std::string_view text);

/// The digest in the inventory that has this prefix. Fails with not_found when there is none or more than one.
Result<Digest> resolve_digest_prefix(const store::Inventory& inventory, const std::string& text);

/// The digests of the items of this name: a model or URL that uses them, or a directory or repository that has those.
/// Empty when there is none.
std::vector<Digest> resolve_name(const store::Inventory& inventory, const std::string& name);

/// The maintenance of a cache directory. Creates nothing but pins. A missing directory is an empty cache; a directory
/// that others may write to fails every call. Safe to use from any thread and process, concurrently with other users of
/// the cache.
class CacheMaintenance {
 public:
  explicit CacheMaintenance(std::string directory) : directory_(std::move(directory)) {}

  /// The items by kind, most recently used first, with the active downloads marked.
  Result<store::Inventory> inventory() const;

  /// Hashes every blob, and removes each that does not match its name, pinned or not; compares every cached block of
  /// the other files with its checksum, and drops those that do not match. Calls `report` regularly.
  Result<VerifyResult> verify(const VerifyProgress& report) const;

  /// Removes abandoned downloads, files of killed processes, and dead links; then evicts blobs until at most
  /// `max_bytes` are in use.
  Result<GcResult> collect(std::optional<uint64_t> max_bytes) const;

  /// Removes these blobs and downloads, or all, except active downloads.
  Result<GcResult> remove(const std::vector<Digest>& digests, PinnedBlobs pinned) const;
  Result<GcResult> remove_all(PinnedBlobs pinned) const;

  /// Pins or unpins a blob, or the ranges of a file; returns whether that changed anything. pin() fails with not_found
  /// when it is not cached.
  Result<bool> pin(const Digest& digest) const;
  Result<bool> unpin(const Digest& digest) const;

 private:
  Result<FoldersPtr> folders() const;
  Result<GcResult> remove(const std::function<bool(const Digest&)>& selects, PinnedBlobs pinned) const;

  std::string directory_;
};

}  // namespace weightfs
