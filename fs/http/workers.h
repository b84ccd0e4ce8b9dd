// The threads of the server. As few as processors wait for connections, because each further one would cost a change of
// threads for each request; a thread that waits for a disk, a server or a parser is replaced while it does.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace weightfs::httpd {

class Workers {
 public:
  /// How many workers may wait at one time before is_overloaded().
  static constexpr size_t kMaxWaiting = 256;

  /// `next` returns what there is to do, when there is something, or null when the worker has to end. `run` does it.
  Workers(std::function<void*()> next, std::function<void(void*)> run);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void start();

  /// Returns when every worker has ended, because `next` returns null. False if that takes longer than `within`: there
  /// must be no destructor then.
  bool end(std::chrono::milliseconds within);

  /// True while kMaxWaiting workers wait: what would wait as well must be refused.
  bool is_overloaded() const { return is_overloaded_; }

  size_t count() const { return count_; }

 private:
  struct Worker {
    std::atomic<uint32_t> turns = 0;        // odd while it runs something
    uint32_t seen = 0;                      // turns, when the supervisor looked last
    std::atomic<bool> is_replaced = false;  // it waits, and ends after that
    std::thread thread;
  };

  size_t needed() const;
  void add();
  void work(std::list<Worker>::iterator self);
  void retire(std::list<Worker>::iterator self);
  void supervise();
  void replace_waiting();

  const std::function<void*()> next_;
  const std::function<void(void*)> run_;
  const size_t free_;  // that do not wait, at least
  std::atomic<size_t> idle_ = 0;
  std::atomic<size_t> count_ = 0;    // workers_.size()
  std::atomic<size_t> waiting_ = 0;  // of these, those that were replaced
  std::atomic<bool> is_overloaded_ = false;
  std::atomic<bool> is_asleep_ = false;  // the supervisor
  std::mutex mutex_;                     // guards the rest
  std::condition_variable changed_;
  std::list<Worker> workers_;
  std::list<Worker> ended_;  // to be joined
  bool ends_ = false;        // the supervisor
  std::thread supervisor_;
};

}  // namespace weightfs::httpd
