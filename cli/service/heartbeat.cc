#include "cli/service/heartbeat.h"

#include <linux/magic.h>
#include <sched.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

#include "cli/mount/mount_point.h"
#include "cli/service/notify.h"

namespace weightfs {
namespace {

// The kernel lets nobody go who waits for an answer that has been begun, not even of a process that is killed: with the
// descriptor of the mount among its own, this thread would keep the mount, and itself, for ever. Without it the mount
// ends with the other threads, and that is the answer.
void let_go_of_descriptors() {
  if (::unshare(CLONE_FILES) == 0) ::close_range(STDERR_FILENO + 1, ~0U, 0);
}

// A mask may keep the server from its own attribute; what the whole of the file system is, everybody may ask.
bool answers(const std::string& point) {
  struct statfs system {};
  if (::getxattr(point.c_str(), kPidXattr, nullptr, 0) > 0) return true;
  return errno == EACCES && ::statfs(point.c_str(), &system) == 0 && system.f_type == FUSE_SUPER_MAGIC;
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
  let_go_of_descriptors();
  std::unique_lock lock(mutex_);
  do {
    lock.unlock();
    if (answers(point_)) notify("WATCHDOG=1");
    lock.lock();
  } while (!stopped_.wait_for(lock, every_, [this] { return stop_; }));
}

}  // namespace weightfs
