// A cache of verified blobs on disk, shared by all mounts and processes of a user without a daemon.
// Invariant: a file with a blob's name holds that blob.
// A process that forks must open the store afterwards: threads and locks do not survive fork(2).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/blobs.h"
#include "base/verity/block_list.h"
#include "cache/download/origin.h"
#include "cache/download/response.h"
#include "cache/recheck_policy.h"

namespace weightfs {

/// How blobs that are not local are downloaded.
struct FetchSettings {
  http::ClientPtr http;  ///< null: offline
  download::RetryPolicy options = {};
  /// URLs of directories v1/blobs of other caches, which may have any blob; requested before other servers.
  std::vector<std::string> cache_mirrors = {};
  /// Download and verify a blob from a server of the user as a whole before its first byte is served. Otherwise the
  /// ranges of large ones are served as they were received.
  bool verify_whole = false;
  /// How long a server of the user that sends a whole blob instead of a range is asked again: a pull-through cache may
  /// be storing the blob, and each request that it answers meanwhile is another download from its origin.
  std::chrono::seconds wait_for_ranges{0};
};

/// How long a store waits. Tests shorten these times.
struct StoreTimes {
  /// Decoding that no reader waits for, and that no open file needs, is cancelled after this time: it uses a processor.
  std::chrono::milliseconds unused_decoding{1000};
  /// It is cancelled after this time if another blob waits for its slot.
  std::chrono::milliseconds idle_decoding{200};
  /// A download that no reader waits for is cancelled after this time.
  std::chrono::milliseconds unused_download{10'000};
  /// A transfer without data for this long is abandoned if others deliver.
  std::chrono::milliseconds stalled_transfer{3000};
  /// A reader that waits for blocks checks at this interval whether it was cancelled, and whether another process has
  /// written them.
  std::chrono::milliseconds block_check{20};
  /// After a failed verification of complete ranges, the next one starts at the first read after this time.
  std::chrono::milliseconds next_verification{5000};
};

struct StoreOptions {
  /// Created with mode 0700 when the first blob is cached. Not used when another user than this one and root owns it,
  /// or when others may write to it. Empty: unlinked temporary files of this process are used instead.
  std::string directory;
  std::optional<uint64_t> quota;                     ///< maximum bytes on disk; default: a quarter of the file system
  std::function<void(const std::string&)> log = {};  ///< gets one line for each problem that was worked around
  FetchSettings fetching = {};
  std::vector<std::string> blob_directories = {};  ///< directories of external stores, see cache/external_stores.h
  Recheck recheck = Recheck::read;
  /// How many blobs of one depth are decoded at a time, besides those that wait for other blobs or a server. Each uses
  /// two threads, 2 MiB and its decoder.
  size_t max_decodings = 4;
  /// The source that the process reads, for `weightfs cache ls`: what it caches or uses gets this name. Empty if it
  /// reads several: none would be right.
  std::string model = {};
  StoreTimes times = {};
};

/// Counters since the store was opened, and the state of the blobs that were requested by digest.
struct StoreStatus {
  struct Blob {
    std::string name;
    Digest digest;
    std::optional<uint64_t> size;
    uint64_t fetched = 0;  ///< bytes received, verified or not
    bool verified = false;
    std::string from;   ///< a directory, a URL without its query, or empty
    std::string error;  ///< of the last failed attempt; empty if none failed
  };
  /// A file on a server that is read by ranges.
  struct Remote {
    std::string url;  ///< without its query
    uint64_t size = 0;
    uint64_t requests = 0;       ///< sent
    uint64_t bytes_fetched = 0;  ///< received
    uint64_t bytes_read = 0;     ///< returned to readers and parsers
    /// How its bytes are verified: "transport", "blocks" (each by a block list), "whole" (the digest of all bytes
    /// matched), or "mismatch".
    std::string_view verified = "transport";
    uint64_t blocks = 0;  ///< of 16 KiB, the last one may be shorter
    /// Blocks that were cached when the file was opened, or were received since. Those that other processes write
    /// meanwhile are missing.
    uint64_t present = 0;
    std::optional<uint64_t> verified_blocks = {};  ///< of a file with a known digest or a block list
  };
  std::vector<Blob> blobs;      ///< in the order of the first request, each digest once
  std::vector<Remote> remotes;  ///< those that are in use
  uint64_t hits = 0;            ///< blobs that were local at their first read
  uint64_t misses = 0;          ///< blobs that had to be downloaded
  uint64_t bytes_fetched = 0;
  uint64_t errors = 0;                       ///< failed downloads
  std::map<std::string, uint64_t> requests;  ///< as http::Client::requests()
  http::Waiting waiting;                     ///< as http::Client::waiting()
};

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

  /// Saves a text of at most 512 MiB under `key`, for this and later processes; without a directory for this process
  /// only.
  virtual void save_text(const std::string& key, std::string_view text) = 0;
  /// The text saved under `key`, if it is still cached.
  virtual std::optional<std::string> load_text(const std::string& key) = 0;

  /// Passes the block list of `file`, a cached blob, to `write`, if one is saved: its blocks match its root, and
  /// nothing of the file is read. Returns the fs-verity digest; nothing if there is no list, or it is damaged; then
  /// some of it may have been written. Fails as `write` does.
  virtual Result<std::optional<Digest>> copy_block_list(const Source& file, const BlockListBuilder::Write& write) = 0;

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
