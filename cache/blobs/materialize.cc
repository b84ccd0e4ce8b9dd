// The maker's side of a Filling: bytes that are decoded or fetched, proved, written, and given their name; or followed,
// when another process makes them.
#include <algorithm>
#include <thread>
#include <vector>

#include "base/text.h"
#include "cache/blobs/exceptions_to_errors.h"
#include "cache/blobs/in_flight_blob.h"

namespace weightfs {
namespace {

// 2 MiB in flight: enough that neither thread waits for the other's hiccups, little enough for many fillings.
constexpr size_t kBuffer = 512 * 1024;
constexpr size_t kBuffers = 4;

// Room for a blob of unknown size is made in steps, of what there is by and by: no more than a sixteenth too much.
constexpr uint64_t kLeastStep = 1 << 20;

constexpr std::chrono::milliseconds kShortestPause{1};
constexpr std::chrono::milliseconds kLongestPause{20};
constexpr std::chrono::milliseconds kUnusedCheck{500};

// A maker that has written nothing for so long may be stopped. Once all is written, flushing it takes its time.
constexpr std::chrono::seconds kLongestStall{2};
constexpr std::chrono::seconds kLongestFlush{60};

// A process that fetches may wait for its server, once and again, and go through many gigabytes that were left.
constexpr std::chrono::minutes kLongestFetchStall{15};

// Counts as one that is proved and gets its name.
class Publishing {
 public:
  explicit Publishing(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Publishing() { --count_; }
  Publishing(const Publishing&) = delete;
  Publishing& operator=(const Publishing&) = delete;

 private:
  std::atomic<int>& count_;
};

}  // namespace

// What goes from the thread that decodes or fetches to the one that proves and writes.
struct Filling::Incoming {
  Incoming(const Recipe& recipe, uint64_t left)
      : pipe(kBuffers, static_cast<size_t>(std::clamp<uint64_t>(recipe.size.value_or(kBuffer), 1, kBuffer))),
        proof(recipe),
        here(left) {}

  // Where a fetch begins, and what to note of it; set before the first buffer goes through the pipe, or the end of one
  // that has nothing more to bring. Not set when the fetch failed before.
  struct Beginning {
    uint64_t at;
    std::string validator;
  };

  Pipe pipe;
  std::optional<Beginning> beginning;
  Proof proof;         // the writing thread's
  BlockSums sums;      // of the same bytes
  uint64_t here = 0;   // bytes that the draft has from the first on, be they left by another
  bool wrong = false;  // some that came cannot be right
};

// Nothing when other bytes than the right ones came, and it is worth to fetch them from elsewhere. A reader who was
// served some of the wrong ones has to learn of it, so then it ends.
std::optional<Filling::Ended> Filling::make(Draft& draft) {
  Incoming incoming(recipe_, draft.left());
  Ended ended = fill(draft, incoming);
  if (fetch_ == nullptr || ended.phase == Phase::finished) return ended;
  if (!incoming.wrong) {
    // What nobody knows the size of may be endless: the next one would only fail as late.
    const bool too_large = !recipe_.size && (ended.phase == Phase::unkept || is_too_large_);
    if (!too_large || draft.left() > 0) draft.leave(incoming.here);
    return ended;
  }
  if (stop_ || !fetch_->reject()) return ended;
  const std::scoped_lock lock(mutex_);
  if (served_unproved_) return ended;
  range_ = nullptr;
  written_ = 0;
  progress_.here = 0;
  tries_ += 1;
  return std::nullopt;
}

Filling::Ended Filling::fill(Draft& draft, Incoming& incoming) {
  if (recipe_.size)
    if (auto room = reserve(draft); !room) return Ended{Phase::unkept, room.error()};
  begin_at(draft.range());
  std::optional<Ended> unwritten;
  std::thread writer([&] {
    const auto done = caught([&]() -> Result<void> {
      unwritten = write(draft, incoming);
      return {};
    });
    if (!done) unwritten = Ended{Phase::unkept, done.error()};
    incoming.pipe.give_up();
  });
  const auto decoded = caught([&] { return fetch_ == nullptr ? decode(incoming) : fetch(incoming, draft); });
  incoming.pipe.end();
  writer.join();
  if (unwritten) return *unwritten;
  if (decoded) return publish(draft, incoming);
  // What a server says before the first byte is about the server.
  incoming.wrong = incoming.beginning && is_about_the_bytes(decoded.error());
  return Ended{stop_ ? Phase::cancelled : Phase::failed, decoded.error()};
}

// Room for all of it. What is proved is being made no longer, but makes way only once it has its name: that is waited
// for.
Result<void> Filling::reserve(Draft& draft) {
  for (auto waited = kLongestPause * 0; !stop_ && waited < kLongestFlush; waited += kLongestPause) {
    const int publishing = permits_.publishing;
    auto room = draft.reserve(*recipe_.size, Others::make_way);
    if (room || publishing == 0) return room;
    std::this_thread::sleep_for(kLongestPause);
  }
  return draft.reserve(*recipe_.size, Others::make_way);
}

Result<void> Filling::decode(Incoming& incoming) {
  const StreamPtr stream = TRY(recipe_.start());
  while (auto buffer = incoming.pipe.take_empty()) {
    if (stop_ || cancel_if_unused()) return tl::unexpected(cancelled());
    buffer->filled = TRY(stream->next(buffer->bytes));
    if (buffer->filled == 0) break;
    incoming.pipe.put_full(std::move(*buffer));
  }
  return {};
}

Result<void> Filling::fetch(Incoming& incoming, const Draft& draft) {
  const auto stream = TRY(fetch_->begin({draft.left(), draft.note()}, stop_));
  while (auto buffer = incoming.pipe.take_empty()) {
    if (stop_ || cancel_if_unused()) return tl::unexpected(cancelled());
    buffer->filled = TRY(stream->next(buffer->bytes));
    if (!incoming.beginning) incoming.beginning = Incoming::Beginning{stream->begins_at(), stream->validator()};
    {
      const std::scoped_lock lock(mutex_);
      progress_.fetched += buffer->filled;
      brought_ = std::chrono::steady_clock::now();
      progress_.from = stream->source();
    }
    if (buffer->filled == 0) break;
    incoming.pipe.put_full(std::move(*buffer));
  }
  return {};
}

// Nothing when all that came was written.
std::optional<Filling::Ended> Filling::write(Draft& draft, Incoming& incoming) {
  Proof& proof = incoming.proof;
  uint64_t room = recipe_.size.value_or(0);
  auto buffer = incoming.pipe.take_full();
  if (incoming.beginning)
    if (auto ended = go_on(draft, incoming)) return ended;
  for (; buffer; buffer = incoming.pipe.take_full()) {
    const auto bytes = std::span<const std::byte>(buffer->bytes).first(buffer->filled);
    const uint64_t offset = proof.seen();
    if (auto right = proof.add(bytes); !right) return wrong(incoming, right.error());
    incoming.sums.add(bytes);
    if (fetch_ != nullptr && !recipe_.size && proof.seen() > max_bytes_) {
      is_too_large_ = true;
      return Ended{Phase::failed, too_large_for_size(recipe_.name)};
    }
    if (proof.seen() > room) {
      // What nobody knew the size of may be endless: then nothing that is kept goes for it.
      const Others others = fetch_ == nullptr ? Others::make_way : Others::stay;
      room = proof.seen() + std::max(kLeastStep, offset / 16);
      if (!draft.reserve(room, others)) room = proof.seen();  // all that is left may be enough
      if (auto had = draft.reserve(room, others); !had) return Ended{Phase::unkept, had.error()};
    }
    if (auto put = draft.write(offset, bytes); !put) return Ended{Phase::unkept, put.error()};
    incoming.here = std::max(incoming.here, proof.seen());
    advance(proof.seen());
    incoming.pipe.put_empty(std::move(*buffer));
  }
  return std::nullopt;
}

// Before the first bytes are written to a draft in which some were left: these are proved like all others, or thrown
// away when the fetch does not go on behind them.
std::optional<Filling::Ended> Filling::go_on(Draft& draft, Incoming& incoming) {
  const uint64_t begins_at = incoming.beginning->at;
  Proof& proof = incoming.proof;
  if (begins_at == 0 && draft.left() > 0) {
    if (auto empty = draft.restart(); !empty) return Ended{Phase::unkept, empty.error()};
    incoming.here = 0;
    if (recipe_.size)
      if (auto room = reserve(draft); !room) return Ended{Phase::unkept, room.error()};
    begin_at(draft.range());
  }
  draft.take_note(incoming.beginning->validator);
  const RangePtr range = draft.range();
  std::vector<std::byte> bytes(begins_at > 0 ? kBuffer : 0);
  while (proof.seen() < begins_at) {
    if (stop_) return Ended{Phase::cancelled, cancelled()};
    const auto part =
        std::span(bytes).first(static_cast<size_t>(std::min<uint64_t>(bytes.size(), begins_at - proof.seen())));
    if (auto had = range->read(proof.seen(), part); !had) return Ended{Phase::unkept, had.error()};
    if (auto right = proof.add(part); !right) return wrong(incoming, right.error());
    incoming.sums.add(part);
  }
  advance(proof.seen());
  return std::nullopt;
}

Filling::Ended Filling::wrong(Incoming& incoming, const Error& error) {
  incoming.wrong = true;
  return Ended{Phase::failed, error};
}

Filling::Ended Filling::publish(Draft& draft, Incoming& incoming) {
  give_permit_back();  // it decodes no more
  const auto digest = incoming.proof.end();
  if (!digest) return wrong(incoming, digest.error());
  const Publishing publishing(permits_.publishing);
  {
    const std::scoped_lock lock(mutex_);
    if (is_end(phase_)) return Ended{Phase::cancelled, cancelled()};
    phase_ = Phase::proved;
    changed_.notify_all();
  }
  auto kept = draft.publish(*digest, incoming.proof.seen(), std::move(incoming.sums));
  if (!kept) return Ended{Phase::unkept, kept.error()};
  return finish(std::move(*kept));
}

Filling::Ended Filling::finish(Kept kept) {
  const std::scoped_lock lock(mutex_);
  range_ = kept.range;
  kept_ = std::move(kept);
  return Ended{Phase::finished, {}};
}

// Shows what another process has made so far, and lets a while pass. It ends when the other makes no more of it.
std::optional<Filling::Ended> Filling::follow(RangePtr others, uint64_t size) {
  std::unique_lock lock(mutex_);
  const bool grew = size != written_ || range_ == nullptr;
  stalled_ = grew ? stalled_.zero() : stalled_ + pause_;
  pause_ = grew ? kShortestPause : std::min(2 * pause_, kLongestPause);
  const auto longest = fetch_ != nullptr ? kLongestFetchStall : size == recipe_.size ? kLongestFlush : kLongestStall;
  if (stalled_ > longest) {
    if (fetch_ == nullptr)
      return Ended{Phase::unkept, {Code::resource, "another process is making it and does not go on"}};
    return Ended{Phase::failed, {Code::network, str(recipe_.name, ": another process fetches it and does not go on")}};
  }
  range_ = std::move(others);
  written_ = size;
  followed_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, pause_, [&] { return stop_.load(); });
  while (!stop_ && waiting_ == 0) {
    if (is_unused()) return Ended{Phase::cancelled, cancelled()};
    changed_.wait_for(lock, kUnusedCheck);
  }
  return std::nullopt;
}

}  // namespace weightfs
