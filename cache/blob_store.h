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

#include "base/blobs.h"

namespace weightfs {

/// Where the user's cache is: $WEIGHTFS_CACHE, else $XDG_CACHE_HOME/weightfs, else ~/.cache/weightfs; of root
/// /var/cache/weightfs. Fails with not_found when the environment names none.
Result<std::string> cache_directory();

struct StoreOptions {
  /// Made with mode 0700 when the first blob is kept; nothing is written before. Not used when it belongs to neither
  /// this user nor root, or others may write there.
  std::string directory;
  std::optional<uint64_t> quota;  ///< bytes on disk that the store never exceeds; else a tenth of the file system
  std::function<void(const std::string&)> log = {};  ///< one line for each thing that went wrong and was got around
};

/// Keeps blobs in files named by their digest. Where it cannot (read-only, full, quota too small for one blob), bytes
/// are made anew by each reader, slower but right, and a line is logged.
BlobsPtr blob_store(StoreOptions options);

/// Keeps blobs in an unlinked temporary file of this process, of at most `quota` bytes (else a tenth of the file
/// system).
BlobsPtr temporary_blobs(std::optional<uint64_t> quota, std::function<void(const std::string&)> log = {});

}  // namespace weightfs
