#include "cli/systemd/heartbeat.h"

#include <sched.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

#include "base/os/kernel.h"
#include "cli/mount/mount_report.h"
#include "cli/systemd/notify.h"

namespace weightfs::service {
namespace {

// A thread that waits for a FUSE reply cannot be killed. If this thread had the descriptor of the mount open, a killed
// server would hang forever. Without it the mount ends with the other threads, and the request fails.
void close_own_descriptors() {
  if (::unshare(CLONE_FILES) == 0) ::close_range(STDERR_FILENO + 1, ~0U, 0);
}

// --umask may deny the server its own attribute; statfs is always permitted.
bool responds(const std::string& point) {
  struct statfs system {};
  if (::getxattr(point.c_str(), kPidXattr, nullptr, 0) > 0) return true;
  return errno == EACCES && ::statfs(point.c_str(), &system) == 0 && system.f_type == kernel::kFuseMagic;
}

}  // namespace

Heartbeat::Heartbeat(std::string point, std::chrono::microseconds limit)
    : point_(std::move(point)), every_(limit / 3), thread_([this] { beat(); }) {}

Heartbeat::~Heartbeat() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void Heartbeat::beat() {
  close_own_descriptors();
  std::unique_lock lock(mutex_);
  do {
    lock.unlock();
    if (responds(point_)) notify("WATCHDOG=1");
    lock.lock();
  } while (!stopped_.wait_for(lock, every_, [this] { return stop_; }));
}

}  // namespace weightfs::service
