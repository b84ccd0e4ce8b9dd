// A blob that is being decoded in this process, shared by all its readers (single flight). Bytes are served once their
// blocks are written; the last block is written only after verification.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>

#include "base/blobs.h"
#include "cache/decoding/blob_writer.h"
#include "cache/decoding/bounded_queue.h"
#include "cache/decoding/held_sources.h"
#include "cache/store/blob_backend.h"

namespace weightfs::blobs {

/// The error that waiting readers get when a producer is cancelled.
inline Error cancelled_error() { return Error{Code::resource, "cancelled before it was complete"}; }

/// Fills the beginning of `out` with at least `enough` bytes of a stream, with less only at its end; then it must not
/// be called again. Fails as the stream does, and if the calling thread is cancelled.
Result<size_t> gather(Stream& stream, std::span<std::byte> out, size_t enough);

/// Thread-safe; run() and end() must be called once.
class InFlightBlob {
 public:
  /// Whether bytes are served before verification.
  enum class Serve { before_verification, after_verification };

  /// Progress or final state.
  enum class Phase {
    producing,
    verified,     ///< all bytes are verified and being published
    finished,     ///< cached
    failed,       ///< could not be produced, or did not match
    uncacheable,  ///< could not be cached
    cancelled,    ///< had no readers
  };

  struct State {
    Phase phase = Phase::producing;
    Error error = {Code::resource, ""};  ///< the reason, if it failed or was uncacheable
    store::BlobHandle handle = {};       ///< the cached blob, if it finished
  };

  /// It cancels itself if it is unused for the time `unused_after`.
  InFlightBlob(BlobProducer producer, store::BlobName name, store::BlobBackendPtr backend, Serve serve,
               std::chrono::milliseconds unused_after)
      : producer_(std::move(producer)),
        name_(std::move(name)),
        backend_(std::move(backend)),
        serve_(serve),
        unused_after_(unused_after) {}

  /// Produces the blob, or follows another process that produces it.
  State run() noexcept;
  /// Call after run(), with its result: the readers see it now.
  void end(State state) noexcept;

  /// Waits until `out` can be filled from `offset`, and fills it in the phases `producing`, when the bytes may still
  /// fail verification, `verified` and `finished`. The others are final states without bytes; `failed` also if the
  /// calling thread is cancelled.
  State read(uint64_t offset, std::span<std::byte> out);

  /// Waits for the final state; `failed` also if the calling thread is cancelled.
  State wait();
  /// The number of open files and other producers that read it (Source::keep_cached): it is not cancelled as unused
  /// meanwhile.
  void set_holders(size_t holders);

  /// Cancels it if it is not verified, and for this time no reader has waited and no file was open; returns whether it
  /// did.
  bool cancel_if_unused(std::chrono::milliseconds time);
  /// Cancels it soon, unless it is verified.
  void cancel();
  Phase phase() const;
  bool has_ended() const { return is_final(phase()); }

  /// While it exists, the calling thread waits for another blob or for a server. If it is the one that decodes a blob,
  /// that one is waiting.
  class WaitScope {
   public:
    WaitScope();
    ~WaitScope();
    WaitScope(const WaitScope&) = delete;
    WaitScope& operator=(const WaitScope&) = delete;
  };
  bool is_waiting() const { return waits_ > 0; }

  const store::BlobName& name() const { return name_; }
  const std::string& member() const { return producer_.name; }

 private:
  State run_to_end();
  std::optional<State> produce(BlobWriter& writer);
  Result<void> reserve(BlobWriter& writer);
  Result<void> decode(BoundedQueue& queue);
  Result<void> write(BoundedQueue& queue, BlobWriter& writer);
  State publish(BlobWriter& writer);
  std::optional<State> follow(const store::BlockFilePtr& file);
  void serve(const store::BlockFilePtr& file, uint64_t written);
  bool is_ready(uint64_t offset, size_t size) const;
  bool is_unused(std::chrono::milliseconds time) const;
  static bool is_final(Phase phase) { return phase != Phase::producing && phase != Phase::verified; }
  void stop(Phase phase);
  template <class Ready>
  Result<void> wait_until(std::unique_lock<std::mutex>& lock, Ready ready);

  static inline std::atomic<int> publishing_ = 0;  // verified blobs that are being published, of all stores

  BlobProducer producer_;
  const store::BlobName name_;
  store::BlobBackendPtr backend_;
  const Serve serve_;
  const std::chrono::milliseconds unused_after_;
  std::stop_source stop_;
  // The progress of another process; for the thread that decodes.
  std::chrono::milliseconds poll_interval_{1};
  std::chrono::milliseconds stalled_for_{0};  // without progress
  uint64_t last_written_ = 0;                 // see BlockFile::last_written()
  std::atomic<int> waits_ = 0;                // of the thread that decodes it

  mutable std::mutex mutex_;  // guards the rest
  mutable std::condition_variable changed_;
  State state_;
  store::BlockFilePtr file_;  // whose first `written_` bytes are served; null if there are none, and at the end
  uint64_t written_ = 0;
  size_t waiting_ = 0;
  size_t holders_ = 0;
  std::optional<std::chrono::steady_clock::time_point> last_wanted_;  // unset until the first read
};

}  // namespace weightfs::blobs
