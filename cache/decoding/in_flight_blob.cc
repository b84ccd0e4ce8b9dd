#include "cache/decoding/in_flight_blob.h"

#include <chrono>

#include "base/cancel.h"
#include "base/os/memory.h"

namespace weightfs::blobs {
namespace {

// That of the calling thread, if it decodes one.
thread_local InFlightBlob* decoded = nullptr;

// Reads bytes of present blocks.
Result<void> read_blocks(store::BlockFile& file, uint64_t offset, std::span<std::byte> out) {
  if (out.size() > MemoryTurn::kLarge) MemoryTurn::take();
  while (!out.empty()) {
    const size_t got = TRY(file.read(offset, out));
    if (got == 0) return failure(Code::io, "the cache does not return what was written");
    offset += got;
    out = out.subspan(got);
  }
  return {};
}

}  // namespace

InFlightBlob::WaitScope::WaitScope() {
  if (decoded != nullptr) ++decoded->waits_;
}

InFlightBlob::WaitScope::~WaitScope() {
  if (decoded != nullptr) --decoded->waits_;
}

InFlightBlob::State InFlightBlob::run() noexcept {
  decoded = this;
  const CancelScope scope([this] { return stop_.stop_requested() || cancel_if_unused(unused_after_); });
  HeldSources sources;  // of the blob, open until it is decoded
  const HeldSources::Scope holding(&sources);
  auto produced = exceptions_to_errors([&]() -> Result<State> { return run_to_end(); });
  auto ended = produced ? std::move(*produced) : State{Phase::uncacheable, std::move(produced).error()};
  producer_.start = nullptr;  // releases what it captured
  decoded = nullptr;
  return ended;
}

InFlightBlob::State InFlightBlob::run_to_end() {
  store::BlockFilePtr file;
  while (!stop_.stop_requested()) {
    if (auto handle = backend_->find(name_, producer_.size)) return {Phase::finished, {}, std::move(handle)};
    if (file == nullptr || !file->is_current()) {
      auto opened = backend_->open_blocks(store::new_blob_identity(name_.text), producer_.size);
      if (!opened) return {Phase::uncacheable, opened.error()};
      file = std::move(*opened);
    }
    const auto writer = BlobWriter::claim(*backend_, name_, producer_, store::Eviction::allowed, file);
    if (auto ended = writer != nullptr ? produce(*writer) : follow(file)) return std::move(*ended);
  }
  return {Phase::cancelled, cancelled_error()};
}

void InFlightBlob::end(State state) noexcept {
  const std::scoped_lock lock(mutex_);
  if (state_.phase == Phase::cancelled) state.phase = Phase::cancelled;
  state_ = std::move(state);
  file_ = nullptr;  // releases its disk space
  changed_.notify_all();
}

// From now on, the first `written` bytes of the file are served.
void InFlightBlob::serve(const store::BlockFilePtr& file, uint64_t written) {
  const std::scoped_lock lock(mutex_);
  file_ = file;
  written_ = written;
  changed_.notify_all();
}

bool InFlightBlob::is_ready(uint64_t offset, size_t size) const {
  if (state_.phase != Phase::producing) return true;
  if (serve_ == Serve::after_verification || !producer_.size) return false;
  return offset + size <= written_;
}

InFlightBlob::State InFlightBlob::read(uint64_t offset, std::span<std::byte> out) {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (auto waited = wait_until(lock, [&] { return is_ready(offset, out.size()); }); !waited)
      return {Phase::failed, waited.error()};
    State state = state_;
    const store::BlockFilePtr file = file_;
    lock.unlock();
    if (is_final(state.phase) && state.phase != Phase::finished) return state;
    const auto done = file == nullptr ? read_exact(*state.handle.range, offset, out) : read_blocks(*file, offset, out);
    if (done) return state;
    // A read error means that the cache does not work.
    if (file == nullptr || file->is_current()) return {Phase::uncacheable, done.error()};
    lock.lock();  // the process that wrote it was killed, and another one has removed it: waits for the next file
    if (file_ == file) written_ = 0;
  }
}

InFlightBlob::State InFlightBlob::wait() {
  std::unique_lock lock(mutex_);
  const auto waited = wait_until(lock, [&] { return is_final(state_.phase); });
  return waited ? state_ : State{Phase::failed, waited.error()};
}

// Registers a waiting reader. Fails when the calling thread is cancelled: its reader was killed, or it is a cancelled
// producer.
template <class Ready>
Result<void> InFlightBlob::wait_until(std::unique_lock<std::mutex>& lock, Ready ready) {
  last_wanted_ = std::chrono::steady_clock::now();
  if (ready()) return {};
  const WaitScope waiting;
  ++waiting_;
  changed_.notify_all();
  if (!is_cancellable()) changed_.wait(lock, ready);
  while (!ready()) {
    lock.unlock();
    const bool cancelled = is_cancelled();
    lock.lock();
    if (cancelled || changed_.wait_for(lock, kCancelCheck, ready)) break;
  }
  --waiting_;
  last_wanted_ = std::chrono::steady_clock::now();
  if (ready()) return {};
  return tl::unexpected(cancelled_error());
}

// No reader has waited for this time, and no file is open.
bool InFlightBlob::is_unused(std::chrono::milliseconds time) const {
  if (waiting_ > 0 || !last_wanted_ || holders_ > 0) return false;
  return std::chrono::steady_clock::now() - *last_wanted_ > time;
}

// A later reader finds it ended, and starts it again.
bool InFlightBlob::cancel_if_unused(std::chrono::milliseconds time) {
  const std::scoped_lock lock(mutex_);
  if (state_.phase != Phase::producing || !is_unused(time)) return false;
  stop(Phase::cancelled);
  return true;
}

void InFlightBlob::set_holders(size_t holders) {
  const std::scoped_lock lock(mutex_);
  if (holders < holders_ && last_wanted_) last_wanted_ = std::chrono::steady_clock::now();
  holders_ = holders;
}

InFlightBlob::Phase InFlightBlob::phase() const {
  const std::scoped_lock lock(mutex_);
  return state_.phase;
}

void InFlightBlob::cancel() {
  const std::scoped_lock lock(mutex_);
  stop(state_.phase == Phase::producing ? Phase::cancelled : state_.phase);
}

void InFlightBlob::stop(Phase phase) {
  state_.phase = phase;
  stop_.request_stop();
  changed_.notify_all();
}

}  // namespace weightfs::blobs
