#include "cache/filling.h"

#include <algorithm>
#include <exception>
#include <new>
#include <thread>
#include <vector>

#include "base/text.h"

namespace weightfs {
namespace {

// 2 MiB in flight: enough that neither thread waits for the other's hiccups, little enough for many fillings.
constexpr size_t kBuffer = 512 * 1024;
constexpr size_t kBuffers = 4;

// Room for a blob of unknown size is made in steps, of what there is by and by: no more than a sixteenth too much.
constexpr uint64_t kLeastStep = 1 << 20;

constexpr std::chrono::milliseconds kShortestPause{1};
constexpr std::chrono::milliseconds kLongestPause{20};

// A maker that has written nothing for so long may be stopped. Once all is written, flushing it takes its time.
constexpr std::chrono::seconds kLongestStall{2};
constexpr std::chrono::seconds kLongestFlush{60};

// A fetch that nobody wants any more ends after so long; what came is left for the next.
constexpr std::chrono::seconds kForgotten{10};

// A fetch that brings nothing for so long does not keep others from being begun.
constexpr std::chrono::seconds kStalled{2};

// A process that fetches may wait for its server, once and again, and go through many gigabytes that were left.
constexpr std::chrono::minutes kLongestFetchStall{15};

// Between two reads of one reader, his blob is not taken for idle.
constexpr std::chrono::milliseconds kIdle{200};

// Set in a thread that makes a blob. Its stream may read another blob of the same store (a container in a container):
// that wait must end when this filling has to.
thread_local Filling* maker = nullptr;

Error cancelled() { return Error{Code::unavailable, "cancelled while it was being made"}; }

Error out_of_memory() noexcept { return Error{Code::unavailable, "out of memory"}; }  // too short to be allocated

Error told(const std::exception& error) noexcept {
  try {
    return Error{Code::unavailable, error.what()};
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

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

// What `work` returns, or the failure that its exception stands for: one that got out of a thread would end the
// process.
template <class Work>
Result<void> caught(Work work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return tl::unexpected(out_of_memory());
  } catch (const std::exception& error) {
    return tl::unexpected(told(error));
  }
}

}  // namespace

void Filling::run() noexcept {
  maker = this;
  Ended ended{Phase::unkept, {Code::unavailable, ""}};
  auto done = caught([&]() -> Result<void> {
    ended = run_to_end();
    return {};
  });
  if (!done) ended = Ended{Phase::unkept, std::move(done).error()};
  recipe_.start = nullptr;  // and with it what the bytes are made from
  maker = nullptr;
  give_permit_back();
  const std::scoped_lock lock(mutex_);
  if (phase_ != Phase::cancelled) phase_ = ended.phase;
  if (phase_ != Phase::finished) range_ = nullptr;  // and with it the room that it takes
  error_ = std::move(ended.error);
  changed_.notify_all();
}

Filling::Ended Filling::run_to_end() {
  if (fetch_ == nullptr) take_permit();  // a fetch decodes next to nothing, and waits a lot
  std::optional<Ended> ended;
  while (!ended) ended = stop_ ? Ended{Phase::cancelled, cancelled()} : step();
  return std::move(*ended);
}

// Nothing as long as another process makes the blob.
std::optional<Filling::Ended> Filling::step() {
  auto begun = shelf_->begin(name_, recipe_.size, stop_);
  if (!begun) return Ended{Phase::unkept, begun.error()};
  if (begun->kept) return finish(std::move(begun->kept));
  if (begun->draft) {
    const std::unique_ptr<Draft> draft = std::move(begun->draft);
    return make(*draft);
  }
  return follow(std::move(begun->others), begun->others_size);
}

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
    draft.leave(incoming.here);
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
  return Ended{stop_ || is_forgotten() ? Phase::cancelled : Phase::failed, decoded.error()};
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
    if (stop_) return tl::unexpected(cancelled());
    buffer->filled = TRY(stream->next(buffer->bytes));
    if (buffer->filled == 0) break;
    incoming.pipe.put_full(std::move(*buffer));
  }
  return {};
}

Result<void> Filling::fetch(Incoming& incoming, const Draft& draft) {
  const auto stream = TRY(fetch_->begin({draft.left(), draft.note()}, stop_));
  while (auto buffer = incoming.pipe.take_empty()) {
    if (stop_ || is_forgotten()) return tl::unexpected(cancelled());
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
  auto kept = draft.publish(*digest, incoming.proof.seen());
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
      return Ended{Phase::unkept, {Code::unavailable, "another process is making it and does not go on"}};
    return Ended{Phase::failed,
                 {Code::unreachable, str(recipe_.name, ": another process fetches it and does not go on")}};
  }
  range_ = std::move(others);
  written_ = size;
  followed_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, pause_, [&] { return stop_.load(); });
  changed_.wait(lock, [&] { return stop_ || waiting_ > 0; });
  return std::nullopt;
}

void Filling::begin_at(RangePtr range) {
  const std::scoped_lock lock(mutex_);
  range_ = std::move(range);
  written_ = 0;
}

void Filling::advance(uint64_t written) {
  const std::scoped_lock lock(mutex_);
  written_ = written;
  progress_.here = written;
  permits_.step();
  changed_.notify_all();
}

bool Filling::is_ready(uint64_t offset, size_t size, Wants wants) const {
  if (phase_ != Phase::making) return true;
  if (wants == Wants::whole) return false;
  if ((serve_ == Serve::nothing && wants == Wants::served) || !recipe_.size) return false;
  const uint64_t end = offset + size;
  return end <= written_ && end < *recipe_.size;
}

Filling::Read Filling::read(uint64_t offset, std::span<std::byte> out, Wants wants) {
  std::unique_lock lock(mutex_);
  if (auto waited = wait_until(lock, [&] { return is_ready(offset, out.size(), wants); }); !waited)
    return {Phase::failed, std::move(waited)};
  const Phase phase = phase_;
  served_unproved_ = served_unproved_ || (phase == Phase::making && wants == Wants::served);
  if (phase == Phase::failed || phase == Phase::unkept) return {phase, tl::unexpected(error_)};
  if (phase == Phase::cancelled) return {phase, {}};
  const RangePtr range = range_;
  lock.unlock();
  // A disk that does not give back what it took is a cache that cannot keep.
  auto done = range->read(offset, out);
  return {done ? phase : Phase::unkept, std::move(done)};
}

Result<Filling::Phase> Filling::wait() {
  std::unique_lock lock(mutex_);
  TRY_VOID(wait_until(lock, [&] { return is_end(phase_); }));
  return phase_;
}

// Counts as a reader that waits. Fails when the calling thread makes a blob itself and has been told to stop.
template <class Ready>
Result<void> Filling::wait_until(std::unique_lock<std::mutex>& lock, Ready ready) {
  asked_for_ = std::chrono::steady_clock::now();
  if (ready()) return {};
  Pause::wait_begins();
  ++waiting_;
  changed_.notify_all();
  if (maker == nullptr) changed_.wait(lock, ready);
  while (maker != nullptr && !maker->stop_ && !changed_.wait_for(lock, kLongestPause, ready)) {
  }
  --waiting_;
  asked_for_ = std::chrono::steady_clock::now();
  if (ready()) return {};
  return tl::unexpected(cancelled());
}

Filling::Progress Filling::progress() const {
  const std::scoped_lock lock(mutex_);
  return progress_;
}

bool Filling::was_one_making() const {
  const std::scoped_lock lock(mutex_);
  return (phase_ == Phase::proved || phase_ == Phase::finished) && tries_ == 1 && !followed_;
}

bool Filling::is_stalled() const {
  const std::scoped_lock lock(mutex_);
  return fetch_ != nullptr && phase_ == Phase::making && std::chrono::steady_clock::now() - brought_ > kStalled;
}

// Nobody has wanted it for a while: bytes that nobody waits for are not fetched.
bool Filling::is_forgotten() const {
  const std::scoped_lock lock(mutex_);
  return fetch_ != nullptr && waiting_ == 0 && asked_for_ &&
         std::chrono::steady_clock::now() - *asked_for_ > kForgotten;
}

Error Filling::error() const {
  const std::scoped_lock lock(mutex_);
  return error_;
}

RangePtr Filling::proved() const {
  const std::scoped_lock lock(mutex_);
  return phase_ == Phase::proved || phase_ == Phase::finished ? range_ : nullptr;
}

Kept Filling::kept() const {
  const std::scoped_lock lock(mutex_);
  return kept_;
}

Filling::Phase Filling::phase() const {
  const std::scoped_lock lock(mutex_);
  return phase_;
}

bool Filling::cancel_if_idle() {
  const std::scoped_lock lock(mutex_);
  if (!asked_for_ || waiting_ > 0 || phase_ != Phase::making) return false;
  if (std::chrono::steady_clock::now() - *asked_for_ < kIdle) return false;
  stop(Phase::cancelled);
  return true;
}

void Filling::cancel() {
  const std::scoped_lock lock(mutex_);
  stop(phase_ == Phase::making ? Phase::cancelled : phase_);
}

// Its permit goes at once: what its stream waits for, others need not wait for.
void Filling::stop(Phase phase) {
  phase_ = phase;
  stop_ = true;
  permits_.look();
  give_permit_back();
  changed_.notify_all();
}

void Filling::take_permit() {
  permitted_ = permits_.take(stop_);
  if (stop_) give_permit_back();
}

void Filling::give_permit_back() {
  if (permitted_.exchange(false)) permits_.give_back();
}

bool Filling::is_told_to_stop() { return maker != nullptr && maker->stop_; }

bool Filling::is_making() { return maker != nullptr; }

void Filling::Pause::wait_begins() {
  if (maker != nullptr) maker->give_permit_back();
}

Filling::Pause::~Pause() {
  if (maker != nullptr && !maker->permitted_)
    std::ignore = caught([]() -> Result<void> {
      maker->take_permit();
      return {};
    });
}

}  // namespace weightfs
