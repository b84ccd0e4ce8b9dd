// Verified bytes on disk, made once and shared by every mount and process of a user, without a daemon.
// The invariant: a file that has a blob's name holds that blob.
// A process that forks to go on in the background uses a store only after that: its threads and locks do not come
// along.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/blobs.h"
#include "cache/download/download.h"
#include "cache/recheck_policy.h"

namespace weightfs {

/// Whether, and how, what is not at hand is fetched.
struct Fetching {
  HttpPtr http;  ///< null: nothing is fetched (offline)
  FetchOptions options = {};
  /// Serve bytes in order as they arrive, before all are proved; when they prove wrong, reads fail from then on.
  bool stream = false;
};

struct StoreOptions {
  /// Made with mode 0700 when the first blob is kept; nothing is written before. Not used when it belongs to neither
  /// this user nor root, or others may write there. Empty: an unlinked temporary file of this process instead.
  std::string directory;
  std::optional<uint64_t> quota;  ///< bytes on disk that the store never exceeds; else a quarter of the file system
  std::function<void(const std::string&)> log = {};  ///< one line for each thing that went wrong and was got around
  Fetching fetching = {};
  std::vector<std::string> blob_directories = {};  ///< where others keep blobs, see cache/external_stores.h
  Recheck recheck = Recheck::read;
};

/// What a store did since it was opened, and what is known of the blobs that it was asked for by digest.
struct StoreStatus {
  struct Blob {
    std::string name;
    Digest digest;
    std::optional<uint64_t> size;
    uint64_t fetched = 0;  ///< bytes that are here, proved or not
    bool verified = false;
    std::string from;   ///< a directory, a URL without its query, or empty
    std::string error;  ///< of the last try that failed; empty when none did
  };
  std::vector<Blob> blobs;  ///< in the order in which they were asked for, each digest once
  uint64_t hits = 0;        ///< blobs that were found at hand when they were read first
  uint64_t misses = 0;      ///< blobs that had to be fetched
  uint64_t bytes_fetched = 0;
  uint64_t errors = 0;  ///< fetches that failed
};

/// Keeps blobs in files named by their digest. Where it cannot (read-only, full, quota too small for one blob), bytes
/// that are made from a container are made anew by each reader, slower but right, and a line is logged; what has to be
/// fetched cannot be read then.
class BlobStore : public Blobs {
 public:
  /// The same as named(), asked for at `origins` before `wanted.urls`.
  virtual Result<Found> fetched(const Wanted& wanted, std::vector<Origin> origins) = 0;

  /// Keeps a small text (at most 16 MiB) under `key`, for this and later processes; without a directory for this one.
  virtual void remember(const std::string& key, std::string_view text) = 0;
  /// What was kept under `key`, if it still is.
  virtual std::optional<std::string> recall(const std::string& key) = 0;

  virtual StoreStatus status() = 0;
  /// The same, with those blobs only that are being fetched: cheap, however many there are.
  virtual StoreStatus status_of_running() = 0;
};

using BlobStorePtr = std::shared_ptr<BlobStore>;

BlobStorePtr blob_store(StoreOptions options);

/// A store without a directory.
BlobStorePtr temporary_blobs(std::optional<uint64_t> quota, std::function<void(const std::string&)> log = {});

}  // namespace weightfs
