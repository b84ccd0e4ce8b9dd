#include "fs/http/workers.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <utility>

namespace weightfs::httpd {
namespace {

// A worker that runs one thing for longer than this is replaced.
constexpr std::chrono::milliseconds kWaits{5};

}  // namespace

Workers::Workers(std::function<void*()> next, std::function<void(void*)> run)
    : next_(std::move(next)), run_(std::move(run)), free_(std::max(2U, std::thread::hardware_concurrency())) {}

Workers::~Workers() { end(std::chrono::hours(1)); }

void Workers::start() {
  const std::scoped_lock lock(mutex_);
  while (workers_.size() < free_) add();
  supervisor_ = std::thread([this] { supervise(); });
}

// Those that wait, and as many again: a crowd of requests that wait is met in a few steps.
size_t Workers::needed() const {
  const size_t waiting = waiting_;
  const size_t more = std::min(waiting, kMaxWaiting - std::min(waiting, kMaxWaiting));
  return waiting + std::max(free_, more);
}

// Call with the lock.
void Workers::add() {
  ended_.remove_if([](Worker& worker) {
    worker.thread.join();
    return true;
  });
  const auto added = workers_.emplace(workers_.end());
  try {
    added->thread = std::thread([this, added] { work(added); });
  } catch (const std::exception&) {
    workers_.erase(added);
    throw;
  }
  count_ = workers_.size();
}

void Workers::work(std::list<Worker>::iterator self) {
  // sendfile(2) and OpenSSL send SIGPIPE when a client has closed its connection.
  sigset_t pipe{};
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  for (;;) {
    ++idle_;
    void* const what = next_();
    if (--idle_ == 0 && is_asleep_) {
      const std::scoped_lock lock(mutex_);
      changed_.notify_all();
    }
    if (what != nullptr) {
      ++self->turns;
      run_(what);
      ++self->turns;
    }
    if (what != nullptr && !self->is_replaced && count_ <= needed()) continue;
    const std::scoped_lock lock(mutex_);
    if (what != nullptr && !self->is_replaced && count_ <= needed()) continue;
    retire(self);
    return;
  }
}

// Call with the lock, and do nothing after it.
void Workers::retire(std::list<Worker>::iterator self) {
  if (self->is_replaced) --waiting_;
  ended_.splice(ended_.end(), workers_, self);
  count_ = workers_.size();
  changed_.notify_all();
}

// Sleeps while a worker is idle, unless the server is overloaded.
void Workers::supervise() {
  std::unique_lock lock(mutex_);
  for (;;) {
    is_asleep_ = true;
    changed_.wait(lock, [this] { return idle_ == 0 || is_overloaded_ || ends_; });
    is_asleep_ = false;
    for (Worker& worker : workers_) worker.seen = worker.turns;
    if (changed_.wait_for(lock, kWaits, [this] { return ends_; })) return;
    replace_waiting();
  }
}

// Call with the lock.
void Workers::replace_waiting() {
  for (Worker& worker : workers_) {
    const uint32_t turns = worker.turns;
    if (turns % 2 == 0 || turns != worker.seen || worker.is_replaced) continue;
    worker.is_replaced = true;
    ++waiting_;
  }
  is_overloaded_ = waiting_ >= kMaxWaiting;
  try {
    while (count_ < needed()) add();
  } catch (const std::exception&) {
    // Without memory for a thread the others go on.
  }
}

bool Workers::end(std::chrono::milliseconds within) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, within, [this] { return workers_.empty(); })) return false;
  ends_ = true;
  changed_.notify_all();
  lock.unlock();
  if (supervisor_.joinable()) supervisor_.join();
  for (Worker& worker : ended_) worker.thread.join();
  ended_.clear();
  return true;
}

}  // namespace weightfs::httpd
