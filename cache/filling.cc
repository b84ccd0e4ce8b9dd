#include "cache/filling.h"

#include <algorithm>
#include <exception>
#include <new>
#include <thread>

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
  take_permit();
  std::optional<Ended> ended;
  while (!ended) ended = stop_ ? Ended{Phase::cancelled, cancelled()} : step();
  return std::move(*ended);
}

// Nothing as long as another process makes the blob.
std::optional<Filling::Ended> Filling::step() {
  auto begun = shelf_->begin(name_, recipe_.size, stop_);
  if (!begun) return Ended{Phase::unkept, begun.error()};
  if (begun->kept) return finish(std::move(begun->kept));
  if (begun->draft) return make(*begun->draft);
  return follow(std::move(begun->others), begun->others_size);
}

Filling::Ended Filling::make(Draft& draft) {
  if (recipe_.size)
    if (auto room = draft.reserve(*recipe_.size); !room) return Ended{Phase::unkept, room.error()};
  Pipe pipe(kBuffers, static_cast<size_t>(std::min<uint64_t>(kBuffer, recipe_.size.value_or(kBuffer))));
  Proof proof(recipe_);
  begin_at(draft.range());
  std::optional<Ended> unwritten;
  std::thread writer([&] {
    const auto done = caught([&]() -> Result<void> {
      unwritten = write(draft, pipe, proof);
      return {};
    });
    if (!done) unwritten = Ended{Phase::unkept, done.error()};
    pipe.give_up();
  });
  const auto decoded = caught([&] { return decode(pipe); });
  pipe.end();
  writer.join();
  if (unwritten) return *unwritten;
  if (!decoded) return Ended{stop_ ? Phase::cancelled : Phase::failed, decoded.error()};
  return publish(draft, proof);
}

Result<void> Filling::decode(Pipe& pipe) {
  const StreamPtr stream = TRY(recipe_.start());
  while (auto buffer = pipe.take_empty()) {
    if (stop_) return tl::unexpected(cancelled());
    buffer->filled = TRY(stream->next(buffer->bytes));
    if (buffer->filled == 0) break;
    pipe.put_full(std::move(*buffer));
  }
  return {};
}

// Nothing when all that came was written.
std::optional<Filling::Ended> Filling::write(Draft& draft, Pipe& pipe, Proof& proof) {
  uint64_t room = recipe_.size.value_or(0);
  while (auto buffer = pipe.take_full()) {
    const auto bytes = std::span<const std::byte>(buffer->bytes).first(buffer->filled);
    const uint64_t offset = proof.seen();
    if (auto right = proof.add(bytes); !right) return Ended{Phase::failed, right.error()};
    if (proof.seen() > room) {
      room = proof.seen() + std::max(kLeastStep, offset / 16);
      if (!draft.reserve(room)) room = proof.seen();  // all that is left may be enough
      if (auto had = draft.reserve(room); !had) return Ended{Phase::unkept, had.error()};
    }
    if (auto put = draft.write(offset, bytes); !put) return Ended{Phase::unkept, put.error()};
    advance(proof.seen());
    pipe.put_empty(std::move(*buffer));
  }
  return std::nullopt;
}

Filling::Ended Filling::publish(Draft& draft, Proof& proof) {
  give_permit_back();  // it decodes no more
  const auto digest = proof.end();
  if (!digest) return Ended{Phase::failed, digest.error()};
  {
    const std::scoped_lock lock(mutex_);
    if (is_end(phase_)) return Ended{Phase::cancelled, cancelled()};
    phase_ = Phase::proved;
    changed_.notify_all();
  }
  auto kept = draft.publish(*digest, proof.seen());
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
  if (stalled_ > (size == recipe_.size ? kLongestFlush : kLongestStall))
    return Ended{Phase::unkept, {Code::unavailable, "another process is making it and does not go on"}};
  range_ = std::move(others);
  written_ = size;
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
  permits_.step();
  changed_.notify_all();
}

bool Filling::is_ready(uint64_t offset, size_t size) const {
  if (phase_ != Phase::making) return true;
  if (serve_ == Serve::nothing || !recipe_.size) return false;
  const uint64_t end = offset + size;
  return end <= written_ && end < *recipe_.size;
}

Filling::Read Filling::read(uint64_t offset, std::span<std::byte> out) {
  std::unique_lock lock(mutex_);
  if (auto waited = wait_until(lock, [&] { return is_ready(offset, out.size()); }); !waited)
    return {Phase::failed, std::move(waited)};
  const Phase phase = phase_;
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

Error Filling::error() const {
  const std::scoped_lock lock(mutex_);
  return error_;
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
