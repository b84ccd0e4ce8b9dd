// A blob that is made in a thread of its own, once for all that wait for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/result.h"
#include "cache/store/blob_backend.h"

namespace weightfs::blobs {

/// Thread-safe.
class SharedJob {
 public:
  /// Makes the blob. Its thread is cancelled (base/cancel.h) by stop(), or when no thread has waited for a while; then
  /// its result is ignored.
  using Work = std::function<Result<store::BlobHandle>(const std::stop_token&)>;

  /// `name` is for error messages.
  SharedJob(std::string name, std::chrono::milliseconds unused_after, Work work);
  ~SharedJob();
  SharedJob(const SharedJob&) = delete;
  SharedJob& operator=(const SharedJob&) = delete;

  /// Starts it, unless it runs, and waits for its result. Fails as `work` does; with resource if the calling thread is
  /// cancelled, or after stop(); with network if no thread can be started. The result is empty if `is_enough` before
  /// the end; it is called with the lock.
  Result<store::BlobHandle> wait(const std::function<bool()>& is_enough = {});
  /// Wakes those that wait.
  void notify();
  /// Starts it, unless it runs. This run does not end as unused.
  void start();
  /// Ends it, and starts it no more.
  void stop();
  bool is_running() const;

 private:
  using Clock = std::chrono::steady_clock;

  void start_locked();
  void run(const std::stop_token& stop) noexcept;
  bool is_unused() const;

  const std::string name_;
  const std::chrono::milliseconds unused_after_;
  const Work work_;

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  bool is_running_ = false;
  bool is_stopped_ = false;
  bool runs_to_its_end_ = false;
  size_t waiting_ = 0;
  Clock::time_point last_wanted_;
  std::optional<Result<store::BlobHandle>> result_;  // of the last run, for those that wait; null if it was cancelled
  std::jthread thread_;
};

}  // namespace weightfs::blobs
