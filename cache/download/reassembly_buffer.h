// Reassembles a blob from chunks that several connections receive in parallel, in bounded memory. Chunks are
// contiguous; a chunk is planned before it is requested.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/download/memory_budget.h"

namespace weightfs::download {

/// A byte queue.
class Fifo {
 public:
  void push(std::span<const std::byte> bytes);
  /// Removes up to `out.size()` bytes, but leaves at least `keep`.
  size_t pop(std::span<std::byte> out, size_t keep);
  size_t size() const { return size_; }

 private:
  std::deque<std::vector<std::byte>> blocks_;
  size_t begin_ = 0;  // of the first block's unread bytes
  size_t size_ = 0;
};

/// Thread-safe: one leader connection, which decides how the download ends, any number of helper connections, and one
/// reader.
class ReassemblyBuffer {
 public:
  static constexpr uint64_t kUnknown = UINT64_MAX;           ///< the end is not known
  static constexpr uint64_t kChunkSize = uint64_t{4} << 20;  ///< size of a helper's chunk
  /// how far one connection may be ahead of the reader
  static constexpr uint64_t kMaxAheadPerConnection = uint64_t{8} << 20;
  static constexpr uint64_t kMaxAhead = uint64_t{64} << 20;  ///< the same for all connections, memory permitting

  using Clock = std::chrono::steady_clock;
  enum class Owner { none, leader, helper };

  /// The bytes of one request. Modified only by the buffer.
  struct Chunk {
    uint64_t at;   // the next byte to receive
    uint64_t end;  // exclusive
    Owner owner = Owner::none;
    bool parallel = false;
    bool end_confirmed = false;            // the end is verified; before that, the blob's last byte is withheld
    bool dropped = false;                  // further bytes are ignored
    bool reassigned = false;               // taken from a stalled connection
    Clock::time_point last_progress = {};  // assigned, or last byte received
    Fifo bytes = {};
  };
  using ChunkPtr = std::shared_ptr<Chunk>;

  /// Uses a share of `memory`, but at least kMaxAheadPerConnection. A chunk that the reader waits for and that makes no
  /// progress for `idle` is reassigned to an idle connection.
  ReassemblyBuffer(uint64_t begins_at, std::optional<uint64_t> size, std::shared_ptr<MemoryBudget> memory,
                   std::chrono::milliseconds idle);

  // For connections:

  /// Waits for the first unassigned bytes, for the leader; null when everything is received, and after stop().
  ChunkPtr take_first_missing();
  /// Waits for the next unassigned chunk, for a helper; null when there is none, or helpers are disabled.
  ChunkPtr take_parallel();
  /// Unassigns a chunk; missing bytes may be assigned again.
  void release(const ChunkPtr& chunk);

  enum class PutStatus { accepted, chunk_full, past_end, dropped };
  struct PutResult {
    PutStatus status;
    size_t count;  ///< accepted bytes
  };
  /// Appends bytes to a chunk; waits for space. `past_end`: the blob should have ended before them.
  PutResult put(Chunk& chunk, std::span<const std::byte> bytes);
  /// Confirms the chunk's end.
  void confirm(Chunk& chunk);
  /// The next byte to receive, and the end.
  std::pair<uint64_t, uint64_t> bounds(const Chunk& chunk) const;

  /// Sets the end of the blob; false if it contradicts an earlier end or received bytes.
  bool set_end(uint64_t end);
  uint64_t end() const;

  /// Enables helpers behind the leader's chunk; false when too little is left.
  bool split();
  /// Disables helpers: drops their chunks unless contiguous with the received bytes.
  void switch_to_single();
  /// Drops unread bytes.
  void drop_unread();
  /// Restarts at byte 0 with `chunk`; false when bytes were received.
  bool restart_from_zero(Chunk& chunk);

  struct Progress {
    uint64_t arrived;    ///< total bytes received
    uint64_t ready;      ///< bytes ready to read
    uint64_t remaining;  ///< unread bytes of the blob; may be kUnknown
  };
  Progress progress() const;

  /// Ends the download: next() returns the buffered bytes, then the error if there is one.
  void finish(Result<void> how);
  /// Wakes all waiting threads; nothing is assigned any more.
  void stop();

  // For the reader:

  /// As Stream::next(); nothing when neither bytes nor the end arrived within a short time.
  std::optional<Result<size_t>> next(std::span<std::byte> out);
  uint64_t begins_at() const;

 private:
  bool is_complete(const Chunk& chunk) const {
    return chunk.at == chunk.end && (chunk.end_confirmed || chunk.end != end_);
  }
  bool has_room(const Chunk& chunk) const {
    return chunk.at < at_ + (chunk.parallel ? kMaxAhead : kMaxAheadPerConnection);
  }
  ChunkPtr first_unowned() const;
  ChunkPtr plan(uint64_t end);
  ChunkPtr assign(ChunkPtr chunk, Owner owner);
  ChunkPtr detach_owner(Chunk& chunk);
  void wait_for_work(std::unique_lock<std::mutex>& lock);
  void reassign_stalled_chunk();
  bool may_plan_chunk() const;
  bool all_complete() const;
  size_t pop(std::span<std::byte> out);

  const MemoryBudget::Share share_;
  const std::chrono::milliseconds idle_;
  mutable std::mutex mutex_;  // guards the rest, including chunks
  std::condition_variable changed_;
  uint64_t begins_at_;
  uint64_t at_;       // the next byte to read
  uint64_t planned_;  // the end of the last chunk
  uint64_t end_;
  uint64_t arrived_ = 0;
  bool parallel_ = false;
  int waiting_ = 0;  // connections waiting for a chunk
  bool stopped_ = false;
  std::deque<ChunkPtr> chunks_;
  std::optional<Result<void>> finished_;
};

}  // namespace weightfs::download
