// The settings of a store of blobs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cache/download/origin.h"

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
  bool had_no_links = false;  ///< offline because no container had URLs when the process started
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
  /// Compares the digest of each cached blob before its first read in this process. Otherwise the checksum of each
  /// block is compared at its first read.
  bool compares_digests = false;
  /// Keep compressed blobs that were downloaded and decoded (Blobs::release), for readers of their own bytes.
  bool keeps_packed = false;
  /// How many blobs of one depth are decoded at a time, besides those that wait for other blobs or a server. Each uses
  /// two threads, 2 MiB and its decoder.
  size_t max_decodings = 4;
  /// The source that the process reads, for `weightfs cache ls`: what it caches or uses gets this name. Empty if it
  /// reads several: none would be right.
  std::string model = {};
  StoreTimes times = {};
};

}  // namespace weightfs
