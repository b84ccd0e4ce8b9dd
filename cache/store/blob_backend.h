// The storage interface for blobs: finished ones and ones that are being written. Backends are a directory shared by
// processes (cache/store/disk_backend.h) and temporary files (cache/store/temp_file_backend.h);
// cache/decoding/in_flight_blob.h and cache/remote/remote_source.h write to both in the same way. Every failure here
// means "cannot be cached", with a message that fits every blob.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "base/result.h"
#include "cache/blocks/block_file.h"
#include "cache/paths.h"
#include "cache/store/file_range.h"
#include "cache/store/side_files.h"

namespace weightfs::store {

/// How often a thread that waits for another process looks whether that has written, published or evicted.
inline constexpr std::chrono::milliseconds kOtherProcessCheck{20};

/// The names of a blob in a backend.
struct BlobName {
  std::string text;  ///< equal for all readers that may share one in-flight blob; letters, digits and dashes
  std::string key;   ///< of the producer
  std::optional<Digest> digest;  ///< if known
};

/// What a saved digest belongs to: a cached blob, or a file outside the cache.
enum class DigestOf { cached, external };

/// Stores blobs. Thread-safe. Functions with a body here do nothing: a backend that no other process shares does not
/// need them.
class BlobBackend {
 public:
  virtual ~BlobBackend() = default;
  BlobBackend() = default;
  BlobBackend(const BlobBackend&) = delete;
  BlobBackend& operator=(const BlobBackend&) = delete;

  /// The blob if it is open already; cheap.
  virtual BlobHandle find_open(const BlobName& name) = 0;
  /// The blob if it is cached with this size.
  virtual BlobHandle find(const BlobName& name, std::optional<uint64_t> size) = 0;
  /// Stores the blob of this digest, unless it is cached: a text in memory.
  virtual Result<void> put(const Digest& digest, std::string_view bytes) = 0;

  /// The digest saved last under a key, by this or an earlier process. For `cached` it may be evicted with its blob.
  virtual std::optional<Digest> find_digest(DigestOf of, const std::string& key) = 0;
  virtual Result<void> save_digest(DigestOf of, const std::string& key, const Digest& digest) = 0;

  /// The cached blocks of a remote file. `identity` is its URL and validator, or blob_identity(); empty if it has none,
  /// so the blocks cannot be shared with other processes. With new_blob_identity(), it is the file of a blob that one
  /// process writes from its first byte on, perhaps of unknown size; another process may be writing it, or may have
  /// been killed while it did (cache/decoding/blob_writer.h).
  virtual Result<BlockFilePtr> open_blocks(const std::string& identity, std::optional<uint64_t> size) = 0;

  /// Publishes complete blocks as a blob; the caller has computed the digest from them, has claimed all of them, and
  /// has flushed the file. Fails with unsupported if processes share them and they have no identity.
  virtual Result<BlobHandle> publish_blocks(const BlockFilePtr& blocks, const BlobName& name, const Digest& digest) = 0;
  /// Removes a cached blob, unless it is pinned or kept (NameKind::keeper). Readers that have it open go on.
  virtual void remove_blob(const Digest& blob) = 0;
  /// Notes that a command keeps a cached blob, so that no process removes it by remove_blob(). False if one just has.
  virtual bool keep_blob(const Digest& /*blob*/) { return true; }
  /// Removes the blocks of this identity, unless they are pinned, kept, or held by a process. Returns whether it has.
  virtual bool release_blocks(const std::string& /*identity*/) { return false; }
  /// Removes the blocks of this identity.
  virtual void remove_blocks(const std::string& /*identity*/, BlockFile::Evict /*which*/) {}

  /// Adds names to those of a cached blob, or of the cached blocks of an identity, for listings. A failure has no
  /// effect.
  virtual void add_names(const Digest& /*blob*/, const std::vector<Name>& /*names*/) {}
  virtual void add_names(const std::string& /*identity*/, const std::vector<Name>& /*names*/) {}

  /// Cancels verification in reads of cached blobs soon; they fail with resource.
  virtual void stop() {}
};

using BlobBackendPtr = std::shared_ptr<BlobBackend>;

}  // namespace weightfs::store
