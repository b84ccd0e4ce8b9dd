// The blobs that are being decoded: each once for all its readers, and few of one depth at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/blobs.h"
#include "cache/decoding/in_flight_blob.h"
#include "cache/store/blob_backend.h"

namespace weightfs::blobs {

/// Thread-safe.
class DecodeSlots : public std::enable_shared_from_this<DecodeSlots> {
 public:
  using InFlightBlobPtr = std::shared_ptr<InFlightBlob>;

  struct Limits {
    size_t decodings;                  ///< of one depth, besides those that wait
    std::chrono::milliseconds idle;    ///< an unused decoding ends after this time if another one waits for its slot,
    std::chrono::milliseconds unused;  ///< and otherwise after this time
  };
  /// Is called for each blob that was decoded into the cache, with the path of its member, when its readers have it.
  using OnCached = std::function<void(const Digest&, const std::string&)>;

  DecodeSlots(store::BlobBackendPtr backend, Limits limits, OnCached on_cached)
      : backend_(std::move(backend)), limits_(limits), on_cached_(std::move(on_cached)) {}

  /// The in-flight blob of that name; null if there is none.
  InFlightBlobPtr find_in_flight(const store::BlobName& name);
  /// As find_in_flight(), but starts it if there is none; waits for a free slot of its depth. Fails when it cannot be
  /// started.
  Result<InFlightBlobPtr> find_or_start(const BlobProducer& producer, const store::BlobName& name);
  /// Waits for its final state; starts it again if it was cancelled as unused.
  InFlightBlob::State produce(const BlobProducer& producer, const store::BlobName& name);

  /// While the result exists, the decoding of that name is not cancelled as unused.
  std::shared_ptr<const void> hold(const store::BlobName& name);

  /// The error of an earlier decoding of that name that is about its bytes. A name with a key includes the identity of
  /// the input, so the same input fails again. Of another name, no bytes are served before verification as long as it
  /// is known.
  std::optional<Error> known_failure(const store::BlobName& name);

  /// Cancels all in-flight blobs and starts no more.
  void stop();

 private:
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

  const store::BlobBackendPtr backend_;
  const Limits limits_;
  const OnCached on_cached_;

  std::mutex mutex_;                 // guards the rest
  std::condition_variable changed_;  // a job ended, or the queue changed
  Jobs jobs_;                        // most recently requested last
  Jobs ended_jobs_;                  // without blobs: their threads are about to end, and are joined later
  uint64_t next_ticket_ = 0;
  std::set<std::pair<int, uint64_t>> queue_;         // threads that wait for a slot, by depth and ticket
  std::unordered_map<std::string, Error> failures_;  // at most kMaxFailures
  std::unordered_map<std::string, size_t> holders_;  // open files, by name
  bool stopped_ = false;
};

}  // namespace weightfs::blobs
