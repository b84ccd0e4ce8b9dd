#include "cache/download/transfer.h"

#include <fmt/core.h>

#include <algorithm>
#include <new>
#include <stop_token>
#include <system_error>

#include "base/text.h"
#include "cache/download/range_request.h"

namespace weightfs::download {
namespace {

using Next = Outcome::Next;

constexpr int kMaxImmediateRetries = 4;  // without progress
constexpr int kScaleUpPause = 25;        // scale-up intervals, after a helper failed

// "https://example.com/model.gguf "etag"", or nothing.
std::string validator_of(const std::string& url, const std::string& etag) {
  std::string text = etag.empty() ? "" : fmt::format("{} {}", url, etag);
  return text.size() > 1000 ? "" : text;
}

}  // namespace

// ---- the leader

Fetch::Transfer::Transfer(std::shared_ptr<Fetch> fetch, ResumePoint resume, const std::stop_token& stop)
    : fetch_(std::move(fetch)),
      resume_(std::move(resume)),
      stop_(stop),
      buffer_(resume_.bytes, fetch_->size_, fetch_->options_.memory, fetch_->options_.reassign_after) {
  for (size_t i = 0; i < fetch_->origin_count(); ++i) origins_.push_back({OriginInfo{fetch_->origins_[i].url}});
}

Fetch::Transfer::~Transfer() {
  {
    const std::scoped_lock lock(mutex_);  // prevents new helpers
    ended_.request_stop();
  }
  buffer_.stop();
  if (leader_.joinable()) leader_.join();
  for (const auto& helper : helpers_) helper->thread.join();
}

Result<size_t> Fetch::Transfer::next(std::span<std::byte> out) {
  if (!leader_.joinable()) {
    try {
      leader_ = std::thread([this] { run_leader(); });
    } catch (const std::system_error&) {
      return failure(Code::resource, fmt::format("{}: cannot start a download thread", fetch_->name_));
    }
  }
  while (!stop_.stop_requested())
    if (auto got = buffer_.next(out)) return std::move(*got);
  ended_.request_stop();
  buffer_.stop();
  return failure(Code::network, fmt::format("{}: cancelled", fetch_->name_));
}

void Fetch::Transfer::run_leader() noexcept {
  Result<void> how;
  try {
    how = try_origins();
  } catch (const std::bad_alloc&) {
    how = failure(Code::resource, "out of memory");
  } catch (const std::exception&) {
    how = failure(Code::io, "thread or lock failure");
  }
  buffer_.finish(std::move(how));
}

Result<void> Fetch::Transfer::try_origins() {
  MirrorScheduler mirrors(origins_.size(), fetch_->options_);
  for (size_t i = 0; i < origins_.size(); ++i)
    if (fetch_->is_rejected(i)) mirrors.exclude(i);
  ProgressSample sample{Clock::now(), buffer_.progress().arrived};
  while (const auto next = mirrors.next(ended_.get_token())) {
    switch_to(*next);
    const Outcome outcome = download_from(*next, mirrors, sample);
    if (outcome.next == Next::done) return {};
    if (outcome.next == Next::retry_later)
      mirrors.retry_later(*next, outcome);
    else
      mirrors.give_up(*next, outcome.error);
  }
  buffer_.switch_to_single();
  return tl::unexpected(combined_error(fetch_->name_, mirrors.errors()));
}

// Downloads from one origin until the blob is complete, or a request fails without progress.
Outcome Fetch::Transfer::download_from(size_t index, MirrorScheduler& mirrors, ProgressSample& sample) {
  int retries = 0;
  while (const ReassemblyBuffer::ChunkPtr chunk = buffer_.take_first_missing()) {
    Outcome outcome = fetch_chunk(chunk, ReassemblyBuffer::Owner::leader);
    if (outcome.next == Next::done) continue;
    const bool progress = made_progress(sample);
    if (progress) retries = 0;
    if (outcome.next == Next::retry_now && ++retries <= kMaxImmediateRetries) continue;
    if (outcome.next == Next::retry_now) outcome.next = Next::give_up;
    if (outcome.next == Next::give_up || !progress) return outcome;
    mirrors.reset_backoff(index);
    if (outcome.retry_after) return outcome;
    Backoff once(fetch_->options_);
    const auto pause = once.pause(outcome.error, {});
    if (!pause || !interruptible_sleep(*pause, ended_.get_token())) return outcome;
  }
  return {};
}

// Whether enough bytes arrived since the sample, delays included: one byte per request must not count as progress.
bool Fetch::Transfer::made_progress(ProgressSample& sample) {
  const ProgressSample now{Clock::now(), buffer_.progress().arrived};
  const double seconds = std::chrono::duration<double>(now.time - sample.time).count();
  const auto arrived = static_cast<double>(now.arrived - sample.arrived);
  sample = now;
  return arrived > 0 && arrived >= seconds * static_cast<double>(fetch_->http_->options().min_speed);
}

// Missing chunks of the previous origin's helpers are left to this one.
void Fetch::Transfer::switch_to(size_t index) {
  if (index != origin_) buffer_.switch_to_single();
  const std::scoped_lock lock(mutex_);
  origin_ = index;
  sampled_at_ = Clock::now();
  next_scale_up_ = sampled_at_ + fetch_->options_.scale_up_interval;
}

// ---- state shared by all connections

// Always releases the chunk, since another thread may wait for it.
Outcome Fetch::Transfer::fetch_chunk(const ReassemblyBuffer::ChunkPtr& chunk, ReassemblyBuffer::Owner owner) {
  struct Held {
    ReassemblyBuffer& buffer;
    const ReassemblyBuffer::ChunkPtr& chunk;
    ~Held() { buffer.release(chunk); }
  };
  const Held held{buffer_, chunk};
  return RangeRequest(*this, *chunk, owner).perform();
}

std::pair<size_t, OriginInfo> Fetch::Transfer::current_origin() const {
  const std::scoped_lock lock(mutex_);
  return {origin_, origins_[origin_].info};
}

void Fetch::Transfer::record_info(size_t origin, const OriginInfo& info) {
  const uint64_t arrived = buffer_.progress().arrived;
  const std::scoped_lock lock(mutex_);
  if (origin != origin_) return;
  origins_[origin_].info = info;
  from_ = http::printable_url(fetch_->origins_[origin_].url);
  etag_ = info.encoded ? "" : info.etag;
  if (running_ > 1) return;
  sampled_at_ = Clock::now();
  next_scale_up_ = sampled_at_ + fetch_->options_.scale_up_interval;
  arrived_ = arrived;
}

void Fetch::Transfer::forget_redirect(size_t origin) {
  const std::scoped_lock lock(mutex_);
  origins_[origin].info.url = fetch_->origins_[origin].url;
}

void Fetch::Transfer::use_single_connection(size_t origin) {
  {
    const std::scoped_lock lock(mutex_);
    origins_[origin].single_connection = true;
    if (origin != origin_) return;
  }
  buffer_.switch_to_single();
}

std::string Fetch::Transfer::validator() const {
  const std::scoped_lock lock(mutex_);
  return validator_of(from_, etag_);
}

std::string Fetch::Transfer::source() const {
  const std::scoped_lock lock(mutex_);
  return from_;
}

// ---- helpers

// Whether the rest would take more than a second at the current rate, and the reader is not the bottleneck.
bool Fetch::Transfer::is_slow(Clock::time_point now) {
  const ReassemblyBuffer::Progress progress = buffer_.progress();
  const auto seconds = std::chrono::duration<double>(now - sampled_at_).count();
  const auto arrived = static_cast<double>(progress.arrived - arrived_);
  sampled_at_ = now;
  next_scale_up_ = now + fetch_->options_.scale_up_interval;
  arrived_ = progress.arrived;
  if (progress.remaining == ReassemblyBuffer::kUnknown || progress.ready > ReassemblyBuffer::kMaxAheadPerConnection / 2)
    return false;
  return static_cast<double>(progress.remaining) * seconds > arrived;
}

void Fetch::Transfer::maybe_scale_up() {
  const auto now = Clock::now();
  const std::scoped_lock lock(mutex_);
  const OriginState& state = origins_[origin_];
  if (ended_.stop_requested() || state.single_connection || !state.info.ranges || now < next_scale_up_) return;
  if (running_ >= fetch_->options_.max_connections) return;
  if (is_slow(now) && buffer_.split()) open_helpers();
}

void Fetch::Transfer::open_helpers() {
  const int count = std::min(running_, fetch_->options_.max_connections - running_);
  try {
    for (int i = 0; i < count; ++i) open_helper();
  } catch (const std::exception&) {  // no thread or no memory: continue with the existing ones
    origins_[origin_].single_connection = true;
  }
}

void Fetch::Transfer::open_helper() {
  const auto ended =
      std::find_if(helpers_.begin(), helpers_.end(), [](const auto& lane) { return lane->ended.load(); });
  if (ended != helpers_.end()) {
    (*ended)->thread.join();
    helpers_.erase(ended);
  }
  // Before the thread starts: nothing may fail while an unjoined thread runs.
  helpers_.push_back(std::make_unique<Worker>());
  Worker* const lane = helpers_.back().get();
  try {
    lane->thread = std::thread([this, lane] {
      run_helper();
      lane->ended = true;
    });
  } catch (...) {
    helpers_.pop_back();
    throw;
  }
  ++running_;
}

void Fetch::Transfer::run_helper() noexcept {
  try {
    fetch_chunks();
  } catch (const std::exception&) {  // the leader fetches missing chunks
  }
  const std::scoped_lock lock(mutex_);
  --running_;
}

void Fetch::Transfer::fetch_chunks() {
  int retries = 0;
  while (const ReassemblyBuffer::ChunkPtr chunk = buffer_.take_parallel()) {
    const Outcome outcome = fetch_chunk(chunk, ReassemblyBuffer::Owner::helper);
    retries = outcome.next == Next::done ? 0 : retries + 1;
    if (outcome.next == Next::done || (outcome.next == Next::retry_now && retries < kMaxImmediateRetries)) continue;
    // The server may limit connections: pause scaling up.
    const std::scoped_lock lock(mutex_);
    next_scale_up_ = Clock::now() + kScaleUpPause * fetch_->options_.scale_up_interval;
    return;
  }
}

}  // namespace weightfs::download
