// Blobs: bytes that have to be produced or located before they can be read. A format describes a member to decompress
// with a BlobProducer (base/blob_producer.h), and a file or layer that is known by its digest with a BlobRef. The Blobs
// interface hides where blobs are stored and how they are downloaded.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/blob_producer.h"
#include "base/digest.h"
#include "base/source.h"

namespace weightfs {

class BlockList;  // base/verity/block_list.h

/// The bytes of a source from its first on.
StreamPtr stream_of(SourcePtr source);

/// A reference to a blob by digest, with its possible locations.
struct BlobRef {
  std::string name;  ///< for messages: the path of the file, or the name of the layer
  Digest digest;
  std::optional<uint64_t> size;        ///< declared by the container; a blob of another size does not match
  std::vector<std::string> urls = {};  ///< declared by the container, so untrusted; tried in this order
  /// Opens a file beside the container that should hold the blob; it is read in place after verification. Fails with
  /// not_found.
  std::function<Result<SourcePtr>()> local_copy = {};
  /// The list, for a file of that size, that ranges of a large blob are verified with before they are served; null for
  /// none.
  std::shared_ptr<const BlockList> block_list = nullptr;
};

/// A blob that was located, or will be downloaded when it is read.
struct ResolvedBlob {
  SourcePtr verified;    ///< serves bytes only after the digest was verified; fails with mismatch
  SourcePtr unverified;  ///< the same bytes before verification, to detect the format; must never be served to users
};

/// Produces blobs, and resolves digests. Thread-safe.
class Blobs {
 public:
  virtual ~Blobs() = default;
  Blobs() = default;
  Blobs(const Blobs&) = delete;
  Blobs& operator=(const Blobs&) = delete;

  /// The bytes of a producer with a known size; nothing is produced before the first read. A read fails as the stream
  /// does, and with mismatch when the digest differs. Bytes may be served while later bytes are produced, but the last
  /// byte only after verification of all.
  virtual SourcePtr blob(BlobProducer producer) = 0;

  /// Produces and verifies all bytes before it returns; for producers of unknown size.
  virtual Result<SourcePtr> materialize(BlobProducer producer) = 0;

  /// Whether materialize() of this producer, which has a key, would start nothing, because the bytes are cached.
  virtual bool is_decoded(const BlobProducer& /*producer*/) { return false; }

  /// Removes the cached bytes of a blob, from which everything was decoded that readers need: a later read downloads
  /// them again. Readers that have them open go on. Keeps those that this process has not downloaded, pinned ones, and
  /// all where they are kept (StoreOptions::keeps_packed).
  virtual void release(const Digest& /*blob*/) {}

  /// Does the same with the cached ranges of the file on a server that has this identity (Source::identity), but for
  /// its first and last ones, which tell its format. Keeps those of which this process has not downloaded all, and
  /// those of a file whose digest its server states, which is compared with all of them.
  virtual void release_ranges(const std::string& /*identity*/) {}

  /// Locates the blob of a digest. Reads nothing, unless its size is unknown: then all of it is downloaded.
  /// Fails with network when a download is necessary and impossible. This default uses only `local_copy`.
  virtual Result<ResolvedBlob> resolve(const BlobRef& ref);

  /// Whether resolve() gives a blob that needs no download.
  virtual bool is_local(const BlobRef& ref);

  /// A format calls this for a blob that the container has URLs of.
  virtual void note_link() {}

  /// Drops the first ranges of files whose digest is known and was not compared: a container could not be read from
  /// them, and the next attempt downloads them again.
  virtual void drop_unverified() {}

  /// Cancels producers and downloads soon. Readers that wait for bytes fail with resource, now and later. Cached blobs
  /// stay readable.
  virtual void stop() {}
};

/// Blobs up to this many bytes are produced for each read and not cached: that is faster than a file of their own.
inline constexpr uint64_t kSmallBlob = 64 * 1024;

/// Blobs of known digest up to this many bytes are verified before their first byte is served.
inline constexpr uint64_t kMaxVerifiedFirst = uint64_t{8} << 20;

/// Opens `ref.local_copy`. Fails with not_found when there is none, with mismatch when its size differs.
Result<SourcePtr> open_local_copy(const BlobRef& ref);

using BlobsPtr = std::shared_ptr<Blobs>;

/// Caches nothing: a read at the current position continues the stream, an earlier offset restarts it. Used when no
/// cache can be written, and for members that are read once.
BlobsPtr uncached_blobs();

}  // namespace weightfs
