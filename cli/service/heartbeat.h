// Tells the service manager, again and again, that the mount answers; when it does not any more, nothing is told, and
// the service is started anew.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace weightfs {

class Heartbeat {
 public:
  /// Asks the mount at `point`, which this process serves, three times within `limit`, in a thread of its own: nothing
  /// else waits when there is no answer.
  Heartbeat(std::string point, std::chrono::microseconds limit);
  /// Once the mount is no longer served: an answer that never came would be waited for.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void beat();

  const std::string point_;
  const std::chrono::microseconds every_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace weightfs
