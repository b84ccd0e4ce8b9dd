// Compares reads of a cached blob with the checksums in its map.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "cache/blocks/block_file.h"
#include "cache/blocks/block_set.h"
#include "cache/store/side_files.h"

namespace weightfs::store {

/// What the store of a blob does for its comparison. The functions may outlive the store, and do nothing then.
struct BlobKeeper {
  bool compares_digest = false;                                 ///< before the first read, whatever the map says
  std::stop_token stop = {};                                    ///< ends comparisons
  std::function<std::unique_ptr<MapWriter>()> start_map;        ///< for a blob that is hashed; null if it gets none
  std::function<void(MapWriter&)> publish_map;                  ///< saves the finished map
  std::function<void(const std::string& what)> remove_damaged;  ///< removes the blob; `what` is wrong with it
};

/// State per blob and process. Each block is compared once; later reads take no lock. A blob whose map is missing, or
/// lacks a block, is hashed once. Thread-safe.
class RecheckedFile {
 public:
  /// Whether the digest of the bytes was compared when they were written, by this process.
  enum class Origin { here, unknown };

  /// The blob has `size` bytes.
  RecheckedFile(BlobKeeper keeper, const Digest& digest, uint64_t size, Origin origin = Origin::unknown);

  /// Reads as FileRange::read() does; also fails with io when the bytes differ from the verified ones. The map of
  /// `files` may be null.
  Result<void> read(const CachedFiles& files, uint64_t offset, std::span<std::byte> out);

  /// Compares all bytes that were not compared yet, without waiting for a disk unless the digest is compared. Fails
  /// with unsupported if some are left, and as read() does.
  Result<void> check_all(const CachedFiles& files);

 private:
  bool is_stopped() const;
  bool needs_hash(const CachedFiles& files) const;
  Result<void> read_stored(int fd, uint64_t offset, std::span<std::byte> out);
  Result<void> hash_once(const CachedFiles& files);
  Result<void> hash_all(const CachedFiles& files);
  Result<bool> compare(const CachedFiles& files, Blocks blocks, uint64_t offset, std::span<std::byte> out);
  Result<void> compare(uint64_t block, const MapEntry& entry, std::span<const std::byte> bytes);
  Error damage(const std::string& what);

  const BlobKeeper keeper_;
  const Digest digest_;
  const uint64_t size_;
  const bool must_hash_;              // before the first read, whatever the map says
  std::timed_mutex mutex_;            // held while the blob is hashed
  std::atomic<bool> hashed_ = false;  // all blocks are in the set
  BlockSet checked_;                  // blocks that were compared
};

}  // namespace weightfs::store
