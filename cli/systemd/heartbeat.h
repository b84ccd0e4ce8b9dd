// The watchdog of a service: notifies the service manager while the mount responds. Without notifications the service
// manager restarts the service.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace weightfs::service {

class Heartbeat {
 public:
  /// Probes the mount at `point`, which this process serves, three times within `limit`, in a thread of its own, so
  /// that nothing else blocks if the mount hangs.
  Heartbeat(std::string point, std::chrono::microseconds limit);
  /// To be called after the mount has ended: it waits for a pending probe.
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

}  // namespace weightfs::service
