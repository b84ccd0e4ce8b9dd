#include "fs/fuse/workers.h"

#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/cancel.h"
#include "fs/fuse/interrupts.h"

namespace weightfs::fuse {
namespace {

static_assert(kWake == SIGURG);

// The threads that wait for a request. While one of them serves a request, another one receives the next.
constexpr size_t kWaiting = 2;

constexpr std::chrono::milliseconds kInterruptInterval{10};

// Unsuccessful polls are followed by longer and longer pauses, because on a busy machine they delay the readers.
constexpr int kLongestPause = 1023;  // requests

// That this process may use.
int processors() {
  cpu_set_t usable;
  return ::sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 1;
}

// The checks for stuck threads end after so many in a row that found a waiting thread.
constexpr int kQuietChecks = 500;

bool is_interrupt(const fuse_buf& request) {
  fuse_in_header header{};
  if ((request.flags & FUSE_BUF_IS_FD) != 0 || request.size < sizeof header) return false;
  std::memcpy(&header, request.mem, sizeof header);
  return header.opcode == FUSE_INTERRUPT;
}

class Workers {
 public:
  Workers(fuse_session* session, const WorkerLimits& limits) : session_(session), limits_(limits) {
    ::sem_init(&event_, 0, 0);
  }
  ~Workers() { ::sem_destroy(&event_); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int run() {
    {
      const std::scoped_lock lock(mutex_);
      start();
      if (threads_.empty()) return -EAGAIN;
    }
    while (fuse_session_exited(session_) == 0) wait_for_event(check_progress());
    stop();
    return error_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Worker {
    std::thread thread = {};
    std::atomic<bool> is_receiving = false;
    bool polls = false;  // before it waits
  };
  using Position = std::list<Worker>::iterator;

  // Starts a thread that waits for a request. Without one, the existing threads serve all requests. Needs the lock.
  void start() {
    for (Worker& worker : finished_) worker.thread.join();
    finished_.clear();
    if (threads_.size() == limits_.threads) return;
    const Position self = threads_.emplace(threads_.end());
    try {
      self->thread = std::thread([this, self] { serve(self); });
    } catch (const std::system_error&) {
      threads_.erase(self);
      return;
    }
    ++waiting_;
  }

  void serve(Position self) {
    const CancelScope scope([this] { return is_cancelled_.load(); });
    fuse_buf request{};
    for (bool waits = true; waits; waits = wait_again(*self)) {
      const int got = receive(self, request);
      if (got == -EINTR) continue;
      if (got <= 0) {
        end(got);
        break;
      }
      if (limits_.on_interrupt && is_interrupt(request)) limits_.on_interrupt();
      fuse_session_process_buf(session_, &request);
    }
    std::free(request.mem);
    const std::scoped_lock lock(mutex_);
    finished_.splice(finished_.end(), threads_, self);
    all_finished_.notify_all();
  }

  int receive(Position self, fuse_buf& request) {
    self->is_receiving = true;
    const bool polls = self->polls && !is_polled_.exchange(true);
    const bool found = polls && poll();
    if (polls) is_polled_ = false;
    const int got = fuse_session_receive_buf(session_, &request);
    self->is_receiving = false;
    const std::scoped_lock lock(mutex_);
    ++received_;
    const auto now = Clock::now();
    comes_soon_ = now - std::exchange(last_received_, now) < limits_.soon;
    if (polls) pause_ = unpolled_ = found ? 0 : std::min(2 * pause_ + 1, kLongestPause);
    if (--waiting_ > 0 || stopped_) return got;
    if (threads_.size() - parked_ < prompt_) {
      add_waiting();
    } else if (!is_checked_) {
      is_checked_ = true;
      ::sem_post(&event_);
    }
    return got;
  }

  // Waits a little for a request without sleeping. Returns whether there is one.
  bool poll() {
    pollfd device{.fd = fuse_session_fd(session_), .events = POLLIN, .revents = 0};
    const auto end = Clock::now() + limits_.polled;
    int found = 0;
    while (found == 0 && Clock::now() < end && fuse_session_exited(session_) == 0) found = limits_.poll(&device, 1, 0);
    return found != 0;
  }

  // A signal interrupts it.
  void wait_for_event(bool checks_again) {
    if (!checks_again) {
      ::sem_wait(&event_);
      return;
    }
    using Seconds = std::chrono::seconds;
    const auto at = Clock::now().time_since_epoch() + limits_.stuck;
    const auto seconds = std::chrono::floor<Seconds>(at);
    const timespec until{.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds(at - seconds).count()};
    ::sem_clockwait(&event_, CLOCK_MONOTONIC, &until);
  }

  // Adds a thread if none waits and all have served the same requests since the last call; as many more may begin at
  // once. Returns whether it is to be called again.
  bool check_progress() {
    const std::scoped_lock lock(mutex_);
    if (!is_checked_) return false;
    const bool is_stuck = waiting_ == 0 && received_ == received_before_;
    if (is_stuck) {
      prompt_ = std::max(prompt_, 2 * (threads_.size() - parked_));
      add_waiting();
    }
    quiet_checks_ = waiting_ == 0 || is_stuck ? 0 : quiet_checks_ + 1;
    received_before_ = received_;
    is_checked_ = quiet_checks_ < kQuietChecks;
    if (!is_checked_) prompt_ = limits_.prompt;
    return is_checked_;
  }

  // Lets a parked thread wait for a request, or a new one. Needs the lock.
  void add_waiting() {
    if (parked_ == 0) return start();
    --parked_;
    ++called_;
    ++waiting_;
    call_.notify_one();
  }

  // Waits until this thread is to receive a request; false if it is to end.
  bool wait_again(Worker& self) {
    std::unique_lock lock(mutex_);
    self.polls = false;
    if (stopped_) return false;
    if (waiting_ < kWaiting) {
      ++waiting_;
      // Not while other requests are served: their threads will receive the next one.
      self.polls = may_poll_ && comes_soon_ && waiting_ == threads_.size() - parked_ && unpolled_ == 0;
      if (unpolled_ > 0) --unpolled_;
      return true;
    }
    ++parked_;
    call_.wait_for(lock, limits_.unused, [this] { return called_ > 0 || stopped_; });
    if (called_ == 0) {
      --parked_;
      return false;
    }
    --called_;
    return !stopped_;
  }

  void end(int error) {
    if (error < 0) error_ = error;
    fuse_session_exit(session_);
    ::sem_post(&event_);
  }

  // Interrupts the threads that wait for a request, again and again, as they may be about to wait. Lets the others
  // finish, and cancels their requests after a while.
  void stop() {
    const auto cancelled_at = Clock::now() + limits_.grace;
    std::unique_lock lock(mutex_);
    stopped_ = true;
    call_.notify_all();
    do {
      for (Worker& worker : threads_)
        if (worker.is_receiving) ::pthread_kill(worker.thread.native_handle(), kWake);
      if (Clock::now() >= cancelled_at) is_cancelled_ = true;
    } while (!all_finished_.wait_for(lock, kInterruptInterval, [this] { return threads_.empty(); }));
    for (Worker& worker : finished_) worker.thread.join();
  }

  fuse_session* session_;
  const WorkerLimits limits_;
  sem_t event_{};  // posted by a thread that found the end of the session, or that left none waiting
  std::atomic<int> error_ = 0;
  std::atomic<bool> is_cancelled_ = false;  // the requests that are being served
  std::atomic<bool> is_polled_ = false;
  const bool may_poll_ = processors() > 1;  // else it would delay the readers

  std::mutex mutex_;
  std::condition_variable call_;          // for parked threads
  std::condition_variable all_finished_;  // for stop()
  std::list<Worker> threads_;
  std::list<Worker> finished_;  // to be joined
  size_t waiting_ = 0;          // threads that receive a request, or are about to
  size_t parked_ = 0;
  size_t prompt_ = limits_.prompt;  // up to so many threads begin at once
  size_t called_ = 0;               // parked threads that are counted as waiting, but have not woken yet
  uint64_t received_ = 0;           // requests
  uint64_t received_before_ = 0;    // at the last check
  Clock::time_point last_received_;
  bool comes_soon_ = false;  // whether the next request will probably come soon
  int pause_ = 0;            // how many requests are not polled for after the last poll; 0 if it found one
  int unpolled_ = 0;         // how many of them are left
  bool is_checked_ = false;  // whether check_progress() is called again and again
  int quiet_checks_ = 0;     // in a row
  bool stopped_ = false;
};

}  // namespace

int serve_requests(fuse_session* session, const WorkerLimits& limits) { return Workers(session, limits).run(); }

}  // namespace weightfs::fuse
