// The CRC-32 of many files. model.npz needs that of each before its bytes, and all in its directory: computed by the
// first read that needs them, all of them in several threads, and remembered in the cache.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/blobs.h"
#include "base/source.h"

namespace weightfs::views {

class ChecksumTable;

/// The tables of a mount: where they are remembered, and which are being computed. Thread-safe.
class Checksums {
 public:
  explicit Checksums(BlobsPtr blobs) : blobs_(std::move(blobs)) {}

  /// A table that is being computed.
  struct Progress {
    std::string name;
    uint64_t size;  ///< bytes of all files
    uint64_t done;  ///< of those whose bytes were read
  };
  std::vector<Progress> running() const;

 private:
  friend class ChecksumTable;

  const BlobsPtr blobs_;
  mutable std::mutex mutex_;  // guards the rest
  std::vector<const ChecksumTable*> running_;
};
using ChecksumsPtr = std::shared_ptr<Checksums>;

/// The checksums of files that never change. Thread-safe.
class ChecksumTable {
 public:
  struct Files {
    std::string name;                                    ///< for Progress
    size_t count;                                        ///< of the files
    uint64_t size;                                       ///< bytes of all
    std::function<Result<SourcePtr>(size_t file)> open;  ///< may be called from any thread
    /// Two tables have the same key only if their files have the same bytes. Empty: not remembered.
    std::function<std::string()> key;
  };

  ChecksumTable(Files files, ChecksumsPtr checksums) : files_(std::move(files)), checksums_(std::move(checksums)) {}

  /// The CRC-32 of a file. The first caller computes it, and those of some following files if it has come to this one
  /// in order; the others wait. If that caller is cancelled or fails, the next one computes it. Fails as reading does,
  /// and with resource if the caller is cancelled.
  Result<uint32_t> crc32_of(size_t file);

  /// Computes those of all files, with the same failures; those that were computed before a failure are kept.
  Result<void> compute_all();

  Checksums::Progress progress() const { return {files_.name, files_.size, done_bytes_}; }

 private:
  bool is_known(size_t file) const { return !known_.empty() && known_[file].load(std::memory_order_acquire) != 0; }
  Result<void> complete(std::optional<size_t> file);
  Result<bool> compute(std::optional<size_t> file, bool is_first);
  Result<void> compute_one(size_t file);
  bool load();
  void store();
  void set_running(bool running);

  const Files files_;
  const ChecksumsPtr checksums_;
  std::atomic<uint64_t> done_bytes_ = 0;
  std::mutex mutex_;  // guards the two, and the size of known_
  std::condition_variable changed_;
  bool is_complete_ = false;
  bool is_computing_ = false;
  std::vector<std::atomic<uint8_t>> known_;  // files whose checksum is known; empty before the first and when complete
  // Written by the thread that computes.
  std::string key_;  // empty: not remembered
  std::vector<uint32_t> crcs_;
};

}  // namespace weightfs::views
