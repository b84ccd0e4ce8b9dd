// One blob being made in this process, and all who read it meanwhile. Bytes are served as soon as they are written, the
// last one only once all have proved right.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/blobs.h"
#include "base/proof.h"
#include "cache/blobs/bounded_queue.h"
#include "cache/blobs/held_sources.h"
#include "cache/blobs/semaphore.h"
#include "cache/download/download.h"
#include "cache/store/blob_backend.h"

namespace weightfs {

/// Why the size of a file that only its download tells is not reported.
Error too_large_for_size(const std::string& name);

/// Callable from any thread; run() once.
class Filling {
 public:
  /// What is served before all is proved.
  enum class Serve { what_is_there, nothing };

  /// A download whose size nobody reports ends after kMaxDownloadForSize bytes, and nothing of it is kept, unless this
  /// is called: its bytes are wanted, not only its size.
  void allow_any_size() { max_bytes_ = UINT64_MAX; }
  /// Whether that is what it ended for.
  bool is_too_large() const { return is_too_large_; }

  /// How far a fetch is.
  struct Progress {
    uint64_t here = 0;     ///< bytes that were fetched, by earlier fetches too
    uint64_t fetched = 0;  ///< by this one
    std::string from;      ///< where they come from, for people
  };

  /// How it ended, or how far it is.
  enum class Phase {
    making,
    proved,     ///< all bytes are right; they are being published
    finished,   ///< kept
    failed,     ///< the bytes could not be made, or were wrong
    unkept,     ///< they could not be kept
    cancelled,  ///< nobody waited for it
  };

  /// Makes what the recipe promises, as it says or, with `fetch`, by that. The permits outlive it.
  Filling(Recipe recipe, FetchPtr fetch, Name name, ShelfPtr shelf, Serve serve, Permits& permits)
      : recipe_(std::move(recipe)),
        fetch_(std::move(fetch)),
        name_(std::move(name)),
        shelf_(std::move(shelf)),
        serve_(serve),
        permits_(permits) {}

  /// Makes the blob once there is a permit, or follows another process that does; returns when it ended.
  void run() noexcept;

  /// What a read came to: bytes, or how the making ended without them.
  struct Read {
    Phase phase;
    Result<void> done;  ///< the failure when it `failed`, and why not when it is `unkept`
  };
  /// Which bytes a reader wants: those of a blob that is `whole` and proved; those that are to be `served`, before that
  /// if Serve says so; or those that arrive, as soon as they are there. A Read whose phase is `making` is of bytes that
  /// may still turn out wrong.
  enum class Wants { whole, served, arriving };
  /// Waits until `out` can be filled from `offset`, and fills it.
  Read read(uint64_t offset, std::span<std::byte> out, Wants wants = Wants::served);

  /// Whether it is proved, and was made here, in one go: then all that was ever read of it was right.
  bool was_one_making() const;

  Progress progress() const;
  const FetchPtr& fetch() const { return fetch_; }

  /// Waits until it ended, and says how.
  Result<Phase> wait();
  /// Of one that failed or could not be kept: why.
  Error error() const;
  /// Of one that finished.
  Kept kept() const;
  /// Of one that is proved: where it can be read, whether it has its name by now or not. Else null.
  RangePtr proved() const;

  /// Whether it is a fetch that has brought nothing for a while.
  bool is_stalled() const;

  /// How many open files and other makings read it (Source::hold): it is not ended for want of readers meanwhile.
  void set_holders(size_t holders);

  /// Ends it unless somebody waits for it, or did a moment ago, or is about to, or it is proved; whether it did.
  bool cancel_if_idle();
  /// Ends it as soon as it can, unless it is proved.
  void cancel();
  Phase phase() const;
  bool has_ended() const { return is_end(phase()); }

  /// Whether the calling thread makes a blob.
  static bool is_making();

  /// A thread that makes a blob may wait for another in this one's life: it gives its permit back when it begins to
  /// wait, so that the other can be made, and waits for a new one at the end.
  class Pause {
   public:
    Pause() = default;
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    static void wait_begins();
  };

  const Name& name() const { return name_; }

 private:
  struct Ended {
    Phase phase;
    Error error;
  };

  Ended run_to_end();
  std::optional<Ended> step();
  struct Incoming;
  std::optional<Ended> make(Draft& draft);
  Ended fill(Draft& draft, Incoming& incoming);
  Result<void> reserve(Draft& draft);
  Result<void> decode(Incoming& incoming);
  Result<void> fetch(Incoming& incoming, const Draft& draft);
  std::optional<Ended> write(Draft& draft, Incoming& incoming);
  std::optional<Ended> go_on(Draft& draft, Incoming& incoming);
  static Ended wrong(Incoming& incoming, const Error& error);
  Ended publish(Draft& draft, Incoming& incoming);
  std::optional<Ended> follow(RangePtr others, uint64_t size);
  Ended finish(Kept kept);
  void begin_at(RangePtr range);
  void advance(uint64_t written);
  bool is_ready(uint64_t offset, size_t size, Wants wants) const;
  bool is_unused() const;
  bool cancel_if_unused();
  static bool is_end(Phase phase) { return phase != Phase::making && phase != Phase::proved; }
  void take_permit();
  void give_permit_back();
  void stop(Phase phase);
  template <class Ready>
  Result<void> wait_until(std::unique_lock<std::mutex>& lock, Ready ready);

  Recipe recipe_;
  const FetchPtr fetch_;
  const Name name_;
  ShelfPtr shelf_;
  const Serve serve_;
  Permits& permits_;
  std::atomic<bool> is_too_large_ = false;
  std::atomic<uint64_t> max_bytes_ = kMaxDownloadForSize;  // of a fetch of unknown size
  std::atomic<bool> stop_ = false;
  std::atomic<bool> permitted_ = false;
  std::chrono::milliseconds pause_{1};    // between two looks at another process's progress
  std::chrono::milliseconds stalled_{0};  // how long it was waited for in vain
  HeldSources held_;                      // what it is made from

  mutable std::mutex mutex_;  // guards the rest
  mutable std::condition_variable changed_;
  Phase phase_ = Phase::making;
  Error error_{Code::resource, ""};
  RangePtr range_;  // what is served
  Kept kept_;       // once it finished
  uint64_t written_ = 0;
  std::chrono::steady_clock::time_point brought_ = std::chrono::steady_clock::now();  // when a fetch last brought bytes
  bool served_unproved_ = false;
  int tries_ = 1;          // how often it was begun from the first byte
  bool followed_ = false;  // another process made some of what was read
  Progress progress_;
  size_t waiting_ = 0;
  size_t holders_ = 0;
  std::optional<std::chrono::steady_clock::time_point> asked_for_;  // nothing until whoever wanted it begun reads it
};

}  // namespace weightfs
