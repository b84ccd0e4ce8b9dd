#include "cache/blobs/in_flight_blob.h"

#include <chrono>

#include "base/cancel.h"
#include "base/text.h"
#include "cache/blobs/exceptions_to_errors.h"

namespace weightfs {
namespace {

constexpr std::chrono::milliseconds kLongestPause{20};

// A fetch that no reader waits for ends after so long; what came is kept for the next one. What is decoded ends sooner:
// it takes a processor, and nothing of it is kept.
constexpr std::chrono::seconds kUnusedFetch{10};
constexpr std::chrono::seconds kUnusedDecoding{1};

// A reader that waits checks this often whether it was killed.
constexpr std::chrono::milliseconds kCancelCheck{100};

// A fetch that brings nothing for so long does not keep others from being begun.
constexpr std::chrono::seconds kStalled{2};

// Between two reads of one reader, his blob is not taken for idle.
constexpr std::chrono::milliseconds kIdle{200};

// Set in a thread that makes a blob. Its stream may read another blob of the same store (a container in a container):
// that wait must end when this filling has to.
thread_local Filling* maker = nullptr;

}  // namespace

Error too_large_for_size(const std::string& name) {
  return {Code::resource, str(name, ": no server reports its size, and it is larger than ",
                              human_size(kMaxDownloadForSize), "; read it, or run weightfs fetch")};
}

void Filling::run() noexcept {
  maker = this;
  const CancelScope scope([this] { return stop_ || cancel_if_unused(); });
  const HeldSources::Scope holding(&held_);
  Ended ended{Phase::unkept, {Code::resource, ""}};
  auto done = caught([&]() -> Result<void> {
    ended = run_to_end();
    return {};
  });
  if (!done) ended = Ended{Phase::unkept, std::move(done).error()};
  recipe_.start = nullptr;  // and with it what the bytes are made from
  held_.clear();
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

// Counts as a reader that waits. Fails when the calling thread's work is cancelled: its reader was killed, or it makes
// a blob itself and has been told to stop.
template <class Ready>
Result<void> Filling::wait_until(std::unique_lock<std::mutex>& lock, Ready ready) {
  asked_for_ = std::chrono::steady_clock::now();
  if (ready()) return {};
  Pause::wait_begins();
  ++waiting_;
  changed_.notify_all();
  if (!is_cancellable()) changed_.wait(lock, ready);
  const auto pause = maker == nullptr ? kCancelCheck : kLongestPause;
  while (!ready()) {
    lock.unlock();
    const bool cancelled = is_cancelled();
    lock.lock();
    if (cancelled || changed_.wait_for(lock, pause, ready)) break;
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

// No reader has waited for it for a while; of what is decoded, no file has been open either.
bool Filling::is_unused() const {
  if (waiting_ > 0 || !asked_for_ || (fetch_ == nullptr && holders_ > 0)) return false;
  return std::chrono::steady_clock::now() - *asked_for_ > (fetch_ == nullptr ? kUnusedDecoding : kUnusedFetch);
}

// A reader that comes later finds it ended, and begins it anew.
bool Filling::cancel_if_unused() {
  const std::scoped_lock lock(mutex_);
  if (phase_ != Phase::making || !is_unused()) return false;
  stop(Phase::cancelled);
  return true;
}

void Filling::set_holders(size_t holders) {
  const std::scoped_lock lock(mutex_);
  if (holders < holders_ && asked_for_) asked_for_ = std::chrono::steady_clock::now();
  holders_ = holders;
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
  if (!asked_for_ || waiting_ > 0 || holders_ > 0 || phase_ != Phase::making) return false;
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
