#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/cancel.h"

namespace weightfs {
namespace {

// A caller that can be cancelled checks at this interval whether it is, while it waits for the others.
constexpr std::chrono::milliseconds kCancelCheck{20};

// The parts of a call that have not begun, and its result.
class Parts {
 public:
  Parts(uint64_t count, const std::function<Result<void>(uint64_t)>& work) : count_(count), work_(work) {}

  // Takes parts until there are none left.
  void take() {
    while (!failed_) {
      const uint64_t part = next_.fetch_add(1);
      if (part >= count_) return;
      if (const auto done = exceptions_to_errors([&] { return work_(part); }); !done) fail(done.error());
    }
  }

  // Runs parts in a helper thread, which does not inherit the caller's cancellation.
  void take_for_caller() {
    {
      const CancelScope scope([this] { return cancelled_.load(); });
      take();
    }
    const std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_all();
  }

  // Waits in the caller's thread for so many others to end, and passes its cancellation on to them.
  void wait_for(size_t others) {
    std::unique_lock lock(mutex_);
    while (ended_ < others) {
      if (!cancelled_ && is_cancelled()) cancelled_ = true;
      changed_.wait_for(lock, kCancelCheck);
    }
  }

  Result<void> result() const { return result_; }

 private:
  void fail(const Error& error) {
    const std::lock_guard lock(mutex_);
    result_ = tl::unexpected(error);
    failed_ = true;
  }

  const uint64_t count_;
  const std::function<Result<void>(uint64_t)>& work_;
  std::atomic<uint64_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  std::atomic<bool> cancelled_ = false;  // the caller
  std::mutex mutex_;                     // guards the rest, until the threads have ended
  std::condition_variable changed_;
  size_t ended_ = 0;  // threads
  Result<void> result_;
};

}  // namespace

Result<void> in_parallel(uint64_t parts, size_t threads, const std::function<Result<void>(uint64_t part)>& work) {
  Parts all(parts, work);
  {
    std::vector<std::jthread> others;
    try {
      for (size_t i = 1; i < std::min<uint64_t>(threads, parts); ++i)
        others.emplace_back([&] { all.take_for_caller(); });
    } catch (const std::system_error&) {
      // The limit of threads is reached: those that exist take all parts.
    }
    all.take();
    if (is_cancellable()) all.wait_for(others.size());
  }
  return all.result();
}

size_t processors(size_t most) { return std::clamp<size_t>(std::thread::hardware_concurrency(), 1, most); }

}  // namespace weightfs
