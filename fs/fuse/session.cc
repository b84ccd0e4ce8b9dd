#include "fs/fuse/session.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/os/mounts.h"
#include "base/os/stderr_capture.h"
#include "base/os/system_error.h"
#include "base/text.h"
#include "fs/fuse/attached_device.h"
#include "fs/fuse/operations.h"
#include "fs/fuse/rings.h"
#include "fs/fuse/workers.h"

namespace weightfs::fuse {
namespace {

struct Destroy {
  void operator()(fuse_session* session) const { fuse_session_destroy(session); }
};
using SessionPtr = std::unique_ptr<fuse_session, Destroy>;

SessionPtr make_session(Server* s, const SessionParams& params) {
  std::string options = mount_options(params);
  if (params.rings != nullptr) options += params.rings->session_options();
  fuse_args arguments = FUSE_ARGS_INIT(0, nullptr);
  for (const char* argument : {"weightfs", "-o", options.c_str()}) fuse_opt_add_arg(&arguments, argument);
  fuse_lowlevel_ops ops = operations();
  if (params.rings != nullptr) params.rings->add_to(ops);
  SessionPtr session(fuse_session_new(&arguments, &ops, sizeof ops, s));
  fuse_opt_free_args(&arguments);
  return session;
}

// The signals that end a mount.
sigset_t ending_signals() {
  sigset_t ends{};
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&ends, number);
  return ends;
}

// The ending signals, and those with a callback.
sigset_t handled_signals(const SessionCallbacks& callbacks) {
  sigset_t awaited = ending_signals();
  for (const auto& [number, callback] : callbacks.on_signals) ::sigaddset(&awaited, number);
  return awaited;
}

// Blocks the handled signals in this thread and in the threads it starts, so that only the monitor receives them.
// Pending signals are discarded at the end.
class ScopedSignalMask {
 public:
  explicit ScopedSignalMask(const SessionCallbacks& callbacks) : blocked_(handled_signals(callbacks)) {
    ::pthread_sigmask(SIG_BLOCK, &blocked_, &previous_);
  }
  ~ScopedSignalMask() {
    const timespec now{};
    while (::sigtimedwait(&blocked_, nullptr, &now) > 0) {
    }
    ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
  }
  ScopedSignalMask(const ScopedSignalMask&) = delete;
  ScopedSignalMask& operator=(const ScopedSignalMask&) = delete;

 private:
  const sigset_t blocked_;
  sigset_t previous_{};
};

// Makes the kernel forget what has changed. It waits for lookups in those directories, which may still have got the old
// answers.
void notify_changes(fuse_session* session, const Changes& changes) {
  for (const Changes::Name& changed : changes.names)
    fuse_lowlevel_notify_inval_entry(session, changed.directory, changed.name.c_str(), changed.name.size());
  for (const Ino directory : changes.directories) fuse_lowlevel_notify_inval_inode(session, directory, 0, 0);
}

// Runs beside the session loop: detects when the mount is usable, runs the callbacks, and ends the loop on a signal.
class MountMonitor {
 public:
  /// Constructed in the thread that will run the loop, with the signals blocked.
  MountMonitor(Server& s, const SessionParams& params, fuse_session* session)
      : server_(s), params_(params), session_(session) {
    struct sigaction wake {};
    wake.sa_handler = [](int) {};  // not SIG_IGN, and no SA_RESTART: it has to interrupt the loop
    ::sigaction(kWake, &wake, nullptr);
    thread_ = std::thread([this] { run(); });
  }
  /// Called after the loop has ended.
  ~MountMonitor() {
    {
      const std::scoped_lock lock(mutex_);
      loop_ended_ = true;
    }
    ended_.notify_all();
    ::pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }
  MountMonitor(const MountMonitor&) = delete;
  MountMonitor& operator=(const MountMonitor&) = delete;

  /// Whether the mount never replied.
  bool never_answered() const { return never_answered_; }

  /// Whether another mount, or none, is at the mount point by now.
  bool is_replaced() const {
    const auto there = Mounts::now().on(params_.mountpoint);
    if (mount_ == 0) return there && !there->is_weightfs();
    return !there || there->id != mount_;
  }

 private:
  static constexpr int kTick = 0;  // not a signal number

  void run() {
    if (!wait_until_usable()) return;
    const SessionCallbacks& callbacks = params_.callbacks;
    for (;;) {
      const int number = next_signal();
      const auto callback = callbacks.on_signals.find(number);
      if (has_loop_ended()) return;
      if (number == kTick) {
        callbacks.on_tick();
      } else if (callback != callbacks.on_signals.end()) {
        callback->second();
      } else {
        return end();
      }
    }
  }

  // Waits for a signal; kTick if the tick interval passes first.
  int next_signal() const {
    const SessionCallbacks& callbacks = params_.callbacks;
    const sigset_t awaited = handled_signals(callbacks);
    int number = kTick;
    siginfo_t info{};
    // The kernel sends SIGHUP when a terminal is closed; from other processes it asks to list again.
    const auto meaning = [&] { return number == SIGHUP && info.si_code == SI_KERNEL ? SIGTERM : number; };
    if (callbacks.tick_every.count() == 0) {
      do number = ::sigwaitinfo(&awaited, &info);
      while (number < 0);
      return meaning();
    }
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(callbacks.tick_every);
    const std::chrono::nanoseconds rest = callbacks.tick_every - seconds;
    const timespec time{seconds.count(), rest.count()};
    do number = ::sigtimedwait(&awaited, &info, &time);
    while (number < 0 && errno == EINTR);
    return number < 0 ? kTick : meaning();
  }

  bool has_loop_ended() {
    const std::scoped_lock lock(mutex_);
    return loop_ended_;
  }

  // Waits for the first reply: then the mount is usable, and has a read-ahead setting. If the first request fails
  // although the session has not ended, the mount is shut down.
  bool wait_until_usable() {
    struct stat root {};
    if (::stat(params_.mountpoint.c_str(), &root) != 0) {
      never_answered_ = fuse_session_exited(session_) == 0;
      if (never_answered_) end();
      return false;
    }
    if (fuse_session_exited(session_) != 0) return false;  // another file system may have replied
    if (const auto mount = Mounts::now().on(params_.mountpoint); mount && mount->is_weightfs()) mount_ = mount->id;
    set_readahead(root.st_dev);
    if (params_.follower != nullptr)
      params_.follower->start([this](const Changes& changes) { notify_changes(session_, changes); });
    if (params_.callbacks.on_usable) params_.callbacks.on_usable(mount_);
    return true;
  }

  // Cancels pending reads first, because the loop ends after all replies. The loop checks for its end when interrupted;
  // it is interrupted repeatedly, as it may be about to wait. A source that hangs (an unreachable file server) may keep
  // a request forever.
  void end() {
    std::unique_lock lock(mutex_);
    if (loop_ended_) return;
    server_.end();
    // While requests are still served: the kernel may lock a directory for one of them.
    if (params_.follower != nullptr) params_.follower->stop();
    if (params_.callbacks.on_end) params_.callbacks.on_end();
    fuse_session_exit(session_);
    const auto limit = std::chrono::steady_clock::now() + kShutdownTimeout;
    do ::pthread_kill(loop_, kWake);
    while (!ended_.wait_for(lock, std::chrono::milliseconds(10), [&] { return loop_ended_; }) &&
           std::chrono::steady_clock::now() < limit);
    if (loop_ended_) return;
    lock.unlock();
    if (params_.callbacks.on_stuck) params_.callbacks.on_stuck();
  }

  Server& server_;
  const SessionParams& params_;
  fuse_session* session_;
  const pthread_t loop_ = ::pthread_self();
  std::atomic<bool> never_answered_ = false;
  std::atomic<uint64_t> mount_ = 0;  // its id; 0 until the mount is usable
  std::mutex mutex_;
  std::condition_variable ended_;
  bool loop_ended_ = false;  // guarded by mutex_: the loop has ended
  std::thread thread_;
};

// libfuse unmounts whatever is at the path unless poll() on the device reports an error. Replaces the device by a pipe
// without a reader, which does.
void release_device(fuse_session* session) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  ::close(ends[0]);
  ::dup3(ends[1], fuse_session_fd(session), O_CLOEXEC);
  ::close(ends[1]);
}

// Whether the kernel has ended the connection: the mount is gone, and its id and device number may be those of another.
bool is_disconnected(fuse_session* session) {
  pollfd device{fuse_session_fd(session), 0, 0};
  return ::poll(&device, 1, 0) > 0 && (device.revents & POLLERR) != 0;
}

// Unmounts by the callback; false if there is none.
bool unmounted_by_callback(fuse_session* session, const SessionParams& params) {
  if (!params.callbacks.on_unmount) return false;
  if (!is_disconnected(session)) {
    params.callbacks.on_unmount();
  } else if (params.callbacks.on_gone) {
    params.callbacks.on_gone();
  }
  return true;
}

Result<SessionPtr> mounted_session(Server* s, const SessionParams& params, const std::string& target) {
  const StderrCapture stderr_capture;
  SessionPtr session = make_session(s, params);
  const auto mount = [&] {
    return params.device ? attach_device(session.get(), *params.passthrough, *params.device)
                         : fuse_session_mount(session.get(), target.c_str());
  };
  if (session != nullptr && mount() == 0) return session;
  return failure(Code::io, fmt::format("{}: cannot mount: {}", params.mountpoint, stderr_capture.last_line()));
}

// Unmounts a session whose loop does not run.
void unmount(fuse_session* session, const SessionParams& params) {
  if (unmounted_by_callback(session, params)) release_device(session);
  fuse_session_unmount(session);
}

// Without a session, nothing is told to the kernel.
class StopFollower {
 public:
  explicit StopFollower(Follower* follower) : follower_(follower) {}
  ~StopFollower() {
    if (follower_ != nullptr) follower_->stop();
  }
  StopFollower(const StopFollower&) = delete;
  StopFollower& operator=(const StopFollower&) = delete;

 private:
  Follower* const follower_;
};

// Returned by serve_requests() if it cannot start a thread.
constexpr int kNoThread = -EAGAIN;

// Aborts the connection, so that the monitor stops waiting for a reply. That frees a thread, and fusermount3 can be
// started to unmount.
void end_connection(fuse_session* session, const SessionParams& params) {
  params.passthrough->stop();
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup3(null, fuse_session_fd(session), O_CLOEXEC);
  ::close(null);
}

WorkerLimits worker_limits(Server& s) {
  WorkerLimits limits{.threads = kMaxThreads};
  limits.prompt = std::max<size_t>(limits.prompt, std::thread::hardware_concurrency());
  limits.on_interrupt = [&s] {
    if (s.rings().refusal().empty()) s.interruptible_requests().interrupt_killed();
  };
  return limits;
}

}  // namespace

// The kernel's default is 128 KiB.
void set_readahead(dev_t device) {
  std::ofstream(fmt::format("/sys/class/bdi/{}:{}/read_ahead_kb", ::major(device), ::minor(device))) << kReadaheadKiB;
}

const char* library_version() { return fuse_pkgversion(); }

std::string mount_options(const SessionParams& params) {
  std::string options = "ro,nosuid,nodev,default_permissions,subtype=weightfs";
  for (const std::string& option : params.options) options += "," + option;
  // libfuse splits options at commas and removes backslashes.
  options += ",fsname=";
  for (const char c : params.source) {
    if (c == ',' || c == '\\') options += '\\';
    options += c;
  }
  return options;
}

Result<int> open_mount(const SessionParams& params, const std::string& target) {
  const SessionPtr session = TRY(mounted_session(nullptr, params, target));
  const int device = ::fcntl(fuse_session_fd(session.get()), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (device >= 0) return device;
  const Error error = io_error(params.mountpoint);
  fuse_session_unmount(session.get());
  return tl::unexpected(error);
}

Result<void> serve(Forest& forest, RequestStatistics& statistics, const SessionParams& params) {
  Server s(forest, statistics, params);
  const StopFollower stop_follower(params.follower);
  const ScopedSignalMask signal_mask(params.callbacks);
  const SessionPtr session = TRY(mounted_session(&s, params, params.mountpoint));
  s.start(session.get());
  std::signal(SIGPIPE, SIG_IGN);  // standard error may be a closed pipe
  int ended = 0;
  bool never_answered = false, was_detached = false;
  try {
    const MountMonitor monitor(s, params, session.get());
    ended = serve_requests(session.get(), worker_limits(s));
    params.rings->stop(session.get());
    if (ended == kNoThread) {
      end_connection(session.get(), params);
    } else {
      was_detached = monitor.is_replaced();
      if (unmounted_by_callback(session.get(), params) || was_detached) release_device(session.get());
      fuse_session_unmount(session.get());
    }
    never_answered = monitor.never_answered();
  } catch (const std::system_error&) {
    ended = kNoThread;
  }
  if (ended == kNoThread) {
    unmount(session.get(), params);
    return failure(Code::io, "cannot start a thread: process limit reached");
  }
  // After `umount -l` the last reader ends the connection, and a thread that receives meanwhile gets an error.
  if (ended < 0 && !(ended == -ECONNABORTED && was_detached)) return failure(io_error(params.mountpoint, -ended));
  if (never_answered) return failure(Code::io, fmt::format("{}: the mount is not responding", params.mountpoint));
  return {};
}

}  // namespace weightfs::fuse
