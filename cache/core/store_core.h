// What all blobs of one store share: its settings, the files of the cache, the slots for decodings, and what was noted.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>

#include "base/blobs.h"
#include "cache/core/blob_names.h"
#include "cache/core/cache_stats.h"
#include "cache/count_scope.h"
#include "cache/decoding/decode_slots.h"
#include "cache/external_stores.h"
#include "cache/store/blob_backend.h"
#include "cache/store_options.h"

namespace weightfs::blobs {

using Log = std::function<void(const std::string&)>;

/// Thread-safe.
class StoreCore {
 public:
  StoreCore(store::BlobBackendPtr backend, StoreOptions options);

  store::BlobBackend& backend() { return *backend_; }
  const FetchSettings& fetching() const { return fetching_; }
  const StoreTimes& times() const { return times_; }
  const ExternalStores& external_stores() const { return external_stores_; }
  std::stop_token stop_token() const { return stop_.get_token(); }
  CacheStats& stats() { return stats_; }
  DecodeSlots& decodings() { return *decodings_; }
  const BlobNames& names() const { return names_; }
  /// StoreOptions::keeps_packed.
  bool keeps_packed() const { return keeps_packed_; }
  /// Keeps a cached blob, if this process keeps those that it reads. False if another process has just removed it.
  bool keep(const Digest& blob) { return !keeps_packed_ || backend_->keep_blob(blob); }
  /// Notes the blocks of a file that is closed before its digest was compared.
  void note_unverified(const std::string& identity) noexcept;
  /// Returns and clears the noted identities.
  std::set<std::string> take_unverified();
  store::BlobName name_of(const BlobProducer& producer);
  /// The name of a blob that is downloaded by digest: shared by all requests with the same size.
  static store::BlobName name_of(const Digest& digest, std::optional<uint64_t> size);

  /// The blob if it is cached with this size, open or not.
  store::BlobHandle find_cached(const store::BlobName& name, std::optional<uint64_t> size);

  /// Counts a transfer of any download.
  CountScope count_transfer() { return CountScope(&transfers_); }
  size_t transfers() const { return static_cast<size_t>(transfers_); }
  /// Whether more blocks may be requested than readers wait for.
  bool may_read_ahead() const { return transfers_ < kMaxTransfers; }
  /// How long another process that downloads a blob may make no progress.
  std::chrono::milliseconds max_wait_for_others() const;

  /// Logs each line once per store; lines with the same key are one.
  void log_once(const std::string& line) { log_once(line, line); }
  void log_once(const std::string& key, const std::string& line);
  /// Logs why decoded data is not cached, once per reason.
  void log_uncached(const Error& reason);

  /// Cancels all decodings and starts no more. Readers then decode for themselves, unless shut_down() was called.
  void stop();
  /// Ends all requests and comparisons of blobs; to be called before stop().
  void shut_down();
  /// Fails after shut_down().
  Result<void> check_open() const;

 private:
  FetchSettings with_mirror_reports(FetchSettings fetching);

  // The maximum of all downloads, including those that readers wait for.
  static constexpr int kMaxTransfers = 64;

  const FetchSettings fetching_;
  const StoreTimes times_;
  const bool keeps_packed_;
  const ExternalStores external_stores_;
  CacheStats stats_;
  const store::BlobBackendPtr backend_;
  const BlobNames names_;
  const std::shared_ptr<DecodeSlots> decodings_;
  const Log log_;
  std::stop_source stop_;
  const std::string name_prefix_;  // unique to this store
  std::atomic<uint64_t> next_name_ = 0;
  std::atomic<int> transfers_ = 0;

  std::mutex mutex_;  // guards the rest
  std::set<std::string> logged_;
  std::set<std::string> unverified_;  // identities of blocks of closed files; at most kMaxUnverified
  bool stopped_ = false;
};

}  // namespace weightfs::blobs
