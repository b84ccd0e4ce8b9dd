// A cache of verified blobs on disk, shared by all mounts and processes of a user without a daemon.
// Invariant: a file with a blob's name holds that blob.
// A process that forks must open the store afterwards: threads and locks do not survive fork(2).
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/blobs.h"
#include "base/verity/block_list.h"
#include "cache/download/origin.h"
#include "cache/download/response.h"
#include "cache/store_options.h"
#include "cache/store_status.h"

namespace weightfs {

/// Caches blobs in files named by their digest. When it cannot (read-only or full disk, quota too small), each reader
/// produces the bytes of its blob again, and a line is logged; a blob that needs a download cannot be read then.
class BlobStore : public Blobs {
 public:
  /// As resolve(), with `origins` tried before `ref.urls`.
  virtual Result<ResolvedBlob> resolve_from(const BlobRef& ref, std::vector<download::Origin> origins) = 0;

  /// Opens the file at a URL that the user named: reads download the ranges that they need. Requests the first bytes,
  /// to learn its size and version; offline, the version that was seen last is used. Fails with not_found, network, and
  /// with unsupported if a rule forbids the URL.
  /// With a block list, every range is verified before it is served; fails with mismatch if the sizes differ.
  virtual Result<SourcePtr> open_url(const std::string& url, const BlockListPtr& list = nullptr) = 0;

  /// From now on open_url() asks servers again for the version of each file, also of those that are open. Open files
  /// keep theirs.
  virtual void forget_urls() {}

  /// Opens a file whose version is known from a listing or an earlier response, which had the bytes `head`, perhaps
  /// none. Sends no request: reads do, with the version as condition.
  virtual Result<SourcePtr> open_version(const download::Origin& origin, const download::FileVersion& version,
                                         std::string head) = 0;
  /// Removes the cached bytes with this identity (Source::identity()), because they are wrong: they are downloaded
  /// again.
  virtual void remove_bytes(const std::string& identity) = 0;

  /// Saves a text of at most 512 MiB under `key`, for this and later processes; without a directory for this process
  /// only.
  virtual void save_text(const std::string& key, std::string_view text) = 0;
  /// The text saved under `key`, if it is still cached.
  virtual std::optional<std::string> load_text(const std::string& key) = 0;

  /// Verifies the blobs whose ranges have all been read, as the digest of all bytes was not compared before: a command
  /// that read all of a blob ends with this. Fails with mismatch if the bytes were wrong; they are dropped then.
  virtual Result<void> verify_complete() = 0;

  /// Set by stop(), for requests of others that end with the store.
  virtual std::stop_token stop_token() const { return {}; }

  virtual StoreStatus status() = 0;
  /// The status with only those blobs that are being downloaded: cheap with any number of blobs.
  virtual StoreStatus in_progress_status() = 0;
};

using BlobStorePtr = std::shared_ptr<BlobStore>;

BlobStorePtr blob_store(StoreOptions options);

}  // namespace weightfs
