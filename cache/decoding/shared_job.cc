#include "cache/decoding/shared_job.h"

#include <fmt/core.h>

#include <system_error>
#include <tuple>
#include <utility>

#include "base/cancel.h"
#include "cache/decoding/in_flight_blob.h"

namespace weightfs::blobs {

SharedJob::SharedJob(std::string name, std::chrono::milliseconds unused_after, Work work)
    : name_(std::move(name)), unused_after_(unused_after), work_(std::move(work)) {}

SharedJob::~SharedJob() { stop(); }

void SharedJob::start_locked() {
  last_wanted_ = Clock::now();
  if (is_running_ || is_stopped_) return;
  result_.reset();
  runs_to_its_end_ = false;
  is_running_ = true;
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error&) {
    is_running_ = false;
    result_ = failure(Code::network, fmt::format("{}: cannot start a thread", name_));
  }
}

void SharedJob::start() {
  const std::scoped_lock lock(mutex_);
  start_locked();
  runs_to_its_end_ = true;
}

void SharedJob::notify() {
  const std::scoped_lock lock(mutex_);
  changed_.notify_all();
}

Result<store::BlobHandle> SharedJob::wait(const std::function<bool()>& is_enough) {
  if (is_cancelled()) return tl::unexpected(cancelled_error());
  const InFlightBlob::WaitScope waiting;
  std::unique_lock lock(mutex_);
  ++waiting_;
  start_locked();
  bool cancelled = false;
  bool enough = false;
  while (!cancelled && !is_stopped_ && !(result_ && !is_running_)) {
    if ((enough = is_enough && is_enough())) break;
    if (!is_running_) start_locked();  // it ended as unused just before
    lock.unlock();
    cancelled = is_cancelled();
    lock.lock();
    if (is_running_ && !cancelled) changed_.wait_for(lock, kCancelCheck);
  }
  --waiting_;
  last_wanted_ = Clock::now();
  auto result = is_running_ ? std::nullopt : result_;
  if (enough) result = store::BlobHandle();
  // The store keeps the blob open, not this object: an evicted blob must free its space.
  if (waiting_ == 0 && !is_running_) result_.reset();
  return result.value_or(tl::unexpected(cancelled_error()));
}

void SharedJob::stop() {
  std::jthread ending;
  {
    const std::scoped_lock lock(mutex_);
    is_stopped_ = true;
    ending = std::move(thread_);
  }
  changed_.notify_all();
  ending.request_stop();
  if (ending.joinable()) ending.join();
}

bool SharedJob::is_running() const {
  const std::scoped_lock lock(mutex_);
  return is_running_;
}

bool SharedJob::is_unused() const {
  const std::scoped_lock lock(mutex_);
  return waiting_ == 0 && !runs_to_its_end_ && Clock::now() - last_wanted_ > unused_after_;
}

void SharedJob::run(const std::stop_token& stop) noexcept {
  Result<store::BlobHandle> made;
  bool is_ended = false;  // once true, it stays true
  {
    const CancelScope scope([&] { return is_ended = is_ended || stop.stop_requested() || is_unused(); });
    made = exceptions_to_errors([&] { return work_(stop); });
    is_ended = is_cancelled();
  }
  const bool is_ignored = !made && is_ended;
  const std::scoped_lock lock(mutex_);
  if (!is_ignored && waiting_ > 0) result_ = std::move(made);  // else it would keep the file of the blob open
  is_running_ = false;
  changed_.notify_all();
}

}  // namespace weightfs::blobs
