// The bytes of a blob between the connections that bring them and the one who takes them: in order, in pieces, never
// more than a fixed number of them. The pieces follow on from each other; all that is planned of the blob is in one.
#pragma once

#include <atomic>
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

namespace weightfs {

/// Bytes that go in at one end and out at the other.
class Fifo {
 public:
  void push(std::span<const std::byte> bytes);
  /// Takes as much as there is and fits, but leaves `keep` bytes.
  size_t pop(std::span<std::byte> out, size_t keep);
  size_t size() const { return size_; }

 private:
  std::deque<std::vector<std::byte>> blocks_;
  size_t begin_ = 0;  // of what is left of the first block
  size_t size_ = 0;
};

/// Callable from any thread: a leader, who has the last word, any number of helpers, and one who takes.
class Window {
 public:
  static constexpr uint64_t kUnknown = UINT64_MAX;       ///< an end that nobody has told
  static constexpr uint64_t kChunk = uint64_t{4} << 20;  ///< a helper's piece
  static constexpr uint64_t kAhead = uint64_t{8} << 20;  ///< how far one open connection may be ahead
  static constexpr uint64_t kMost = uint64_t{64} << 20;  ///< how far all of them may be, where there is memory for it

  using Clock = std::chrono::steady_clock;
  enum class Owner { nobody, leader, helper };

  /// Bytes that one connection brings, from `at` on. Only the window changes it.
  struct Piece {
    uint64_t at;   // the next byte that is to come
    uint64_t end;  // the one after the last
    Owner owner = Owner::nobody;
    bool chunk = false;
    bool sure = false;             // that it ends where it should: until then the blob's last byte is kept back
    bool dropped = false;          // whatever comes is not wanted any more
    bool again = false;            // it stood still with another connection
    Clock::time_point moved = {};  // when its owner took it, or brought the last of it
    Fifo bytes = {};
  };
  using PiecePtr = std::shared_ptr<Piece>;

  /// Of what `memory` may hold it has a share, but never less than kAhead. What stands still for longer than `idle`
  /// while it is waited for is asked for again by whoever else is free.
  Window(uint64_t begins_at, std::optional<uint64_t> size, std::shared_ptr<Memory> memory,
         std::chrono::milliseconds idle);

  // For whoever brings:

  /// The first bytes that nobody brings, waited for; nothing when all are there, or it was stopped.
  PiecePtr take_first();
  /// The next chunk that nobody brings, waited for; nothing when there is none, or helpers are not wanted.
  PiecePtr take_chunk();
  /// The taker's part in it is over; what is missing is for another.
  void give_back(const PiecePtr& piece);

  enum class Took { all, piece_is_full, too_long, dropped };
  struct Put {
    Took took;
    size_t count;  ///< of the bytes; the rest was not wanted
  };
  /// Takes the next bytes of a piece, waits for room for them. Too long: the blob should end before them.
  Put put(Piece& piece, std::span<const std::byte> bytes);
  /// It ends where its end is.
  void confirm(Piece& piece);
  /// Where the piece has got to, and where it ends.
  std::pair<uint64_t, uint64_t> bounds(const Piece& piece) const;

  /// Where the blob ends, once it is known; false when that contradicts what is known.
  bool set_end(uint64_t end);
  uint64_t end() const;

  /// Makes room for helpers behind the leader's piece; false when too little is left.
  bool split();
  /// One connection from now on: what helpers have is dropped unless it follows on from what is there.
  void join_up();
  /// Drops what was not taken yet.
  void drop_unread();
  /// From the first byte instead, brought as `piece`; false when something has come already.
  bool begin_anew(Piece& piece);

  struct Progress {
    uint64_t arrived;  ///< bytes, ever
    uint64_t ready;    ///< bytes to take, now
    uint64_t left;     ///< bytes that have not been taken; kUnknown
  };
  Progress progress() const;

  /// How it ended: next() gives what is there, then the failure.
  void finish(Result<void> how);
  /// Nobody waits for anything any more.
  void stop();

  // For the one who takes:

  /// As Stream::next(); nothing when neither bytes nor an end came in a moment.
  std::optional<Result<size_t>> next(std::span<std::byte> out);
  uint64_t begins_at() const;

 private:
  bool is_there(const Piece& piece) const { return piece.at == piece.end && (piece.sure || piece.end != end_); }
  bool has_room(const Piece& piece) const { return piece.at < at_ + (piece.chunk ? kMost : kAhead); }
  PiecePtr first_free() const;
  PiecePtr plan(uint64_t end);
  PiecePtr given(PiecePtr piece, Owner owner);
  PiecePtr without_owner(Piece& piece);
  void wait_for_work(std::unique_lock<std::mutex>& lock);
  void free_what_stands_still();
  bool may_plan_chunk() const;
  bool all_there() const;
  size_t pop(std::span<std::byte> out);

  const Memory::Share share_;
  const std::chrono::milliseconds idle_;
  mutable std::mutex mutex_;  // guards the rest, pieces included
  std::condition_variable changed_;
  uint64_t begins_at_;
  uint64_t at_;       // the next byte to be taken
  uint64_t planned_;  // where the last piece ends
  uint64_t end_;
  uint64_t arrived_ = 0;
  bool chunked_ = false;
  int waiting_ = 0;  // for something to bring
  bool stopped_ = false;
  std::deque<PiecePtr> pieces_;
  std::optional<Result<void>> finished_;
};

}  // namespace weightfs
