// The state shared by all blobs of one store: the table of in-flight blobs, with limits per kind of work.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>

#include "base/blobs.h"
#include "cache/blob_store.h"
#include "cache/blobs/cache_stats.h"
#include "cache/count_scope.h"
#include "cache/decoding/in_flight_blob.h"
#include "cache/external_stores.h"
#include "cache/store/blob_backend.h"

namespace weightfs::blobs {

using Log = std::function<void(const std::string&)>;

/// Thread-safe.
class StoreCore : public std::enable_shared_from_this<StoreCore> {
 public:
  using InFlightBlobPtr = std::shared_ptr<InFlightBlob>;

  StoreCore(store::BlobBackendPtr backend, StoreOptions options);

  store::BlobBackend& backend() { return *backend_; }
  const FetchSettings& fetching() const { return fetching_; }
  const StoreTimes& times() const { return times_; }
  const ExternalStores& external_stores() const { return external_stores_; }
  std::stop_token stop_token() const { return stop_.get_token(); }
  CacheStats& stats() { return stats_; }
  /// Notes the blocks of a file that is closed before its digest was compared.
  void note_unverified(const std::string& identity) noexcept;
  /// What was noted, which is forgotten.
  std::set<std::string> take_unverified();
  store::BlobName name_of(const BlobProducer& producer);
  /// The name of a blob that is downloaded by digest: shared by all requests with the same size.
  static store::BlobName name_of(const Digest& digest, std::optional<uint64_t> size);

  /// The blob if it is cached with this size, open or not.
  store::BlobHandle find_cached(const store::BlobName& name, std::optional<uint64_t> size);
  /// Adds names, and the name of the model, to those of a cached blob, or of the cached blocks of an identity.
  void add_names(const Digest& blob, std::vector<Name> names) noexcept;
  void add_names(const std::string& identity, std::vector<Name> names) noexcept;
  /// The name of a decoded blob: the model, and the path of the member.
  Name member_name(const std::string& member) const;
  /// Makes a cached blob read-only for good, if possible (BlobBackend::enable_verity).
  void enable_verity(const Digest& blob) noexcept;

  /// The in-flight blob of that name; null if there is none.
  InFlightBlobPtr find_in_flight(const store::BlobName& name);
  /// As find_in_flight(), but starts it if there is none; waits for a free slot of its depth. Fails when it cannot be
  /// started.
  Result<InFlightBlobPtr> find_or_start(const BlobProducer& producer, const store::BlobName& name);
  /// Waits for its final state; starts it again if it was cancelled as unused.
  InFlightBlob::State produce(const BlobProducer& producer, const store::BlobName& name);

  /// Counts a transfer of any download.
  CountScope count_transfer() { return CountScope(&transfers_); }
  size_t transfers() const { return static_cast<size_t>(transfers_); }
  /// Whether more blocks may be requested than readers wait for.
  bool may_read_ahead() const { return transfers_ < kMaxTransfers; }
  /// How long another process that downloads a blob may make no progress.
  std::chrono::milliseconds max_wait_for_others() const;

  /// While the result exists, the decoding of that name is not cancelled as unused.
  std::shared_ptr<const void> hold(const store::BlobName& name);

  /// The error of an earlier decoding of that name that is about its bytes. A name with a key includes the identity of
  /// the input, so the same input fails again. Of another name, no bytes are served before verification as long as it
  /// is known.
  std::optional<Error> known_failure(const store::BlobName& name);

  /// Logs each line once per store; lines with the same key are one.
  void log_once(const std::string& line) { log_once(line, line); }
  void log_once(const std::string& key, const std::string& line);
  /// Logs why decoded data is not cached, once per reason.
  void log_uncached(const Error& reason);

  /// Cancels all in-flight blobs and starts no more. Readers then decode for themselves, unless shut_down() was called.
  void stop();
  /// Ends all requests and comparisons of blobs; to be called before stop().
  void shut_down();
  /// Fails after shut_down().
  Result<void> check_open() const;

 private:
  FetchSettings with_mirror_reports(FetchSettings fetching);
  struct Job {
    InFlightBlobPtr in_flight;
    int depth;
    std::thread thread;
  };
  using Jobs = std::list<Job>;

  InFlightBlobPtr find(const store::BlobName& name);
  void change_holders(const std::string& name, int by);
  void remember(const std::string& name, const InFlightBlob::State& ended);
  Result<InFlightBlobPtr> start_or_wait(const BlobProducer& producer, const store::BlobName& name);
  template <class Counts>
  size_t count_jobs(const Counts& counts) const;
  bool free_slot(int depth);
  InFlightBlobPtr start(const BlobProducer& producer, const store::BlobName& name);
  void run(const InFlightBlobPtr& in_flight) noexcept;
  void reap();
  template <class File>
  void add_names_to(const File& file, std::vector<Name> names) noexcept;

  // The maximum of all downloads, including those that readers wait for.
  static constexpr int kMaxTransfers = 64;

  const FetchSettings fetching_;
  const StoreTimes times_;
  const ExternalStores external_stores_;
  CacheStats stats_;
  store::BlobBackendPtr backend_;
  Log log_;
  std::stop_source stop_;
  const std::string name_prefix_;  // unique to this store
  std::atomic<uint64_t> next_name_ = 0;
  const size_t max_decodings_;  // of one depth
  const std::string model_;     // perhaps empty
  std::atomic<int> transfers_ = 0;

  std::mutex mutex_;                 // guards the rest
  std::condition_variable changed_;  // a job ended, or the queue changed
  Jobs jobs_;                        // most recently requested last
  Jobs ended_jobs_;                  // without blobs: their threads are about to end, and are joined later
  uint64_t next_ticket_ = 0;
  std::set<std::pair<int, uint64_t>> queue_;         // threads that wait for a slot, by depth and ticket
  std::unordered_map<std::string, Error> failures_;  // at most kMaxFailures
  std::set<std::string> logged_;
  std::unordered_map<std::string, size_t> holders_;  // open files, by name
  std::set<std::string> unverified_;                 // identities of blocks of closed files; at most kMaxUnverified
  bool stopped_ = false;
};

}  // namespace weightfs::blobs
