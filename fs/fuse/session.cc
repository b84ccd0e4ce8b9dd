#include "fs/fuse/session.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/os/mounts.h"
#include "base/os/stderr_capture.h"
#include "base/text.h"
#include "fs/fuse/operations.h"

namespace weightfs {
namespace {

struct Destroy {
  void operator()(fuse_session* session) const { fuse_session_destroy(session); }
};
using SessionPtr = std::unique_ptr<fuse_session, Destroy>;

SessionPtr make_session(Server* s, const Mounting& mounting) {
  std::string options = "ro,nosuid,nodev,default_permissions,subtype=weightfs";
  for (const std::string& option : mounting.options) options += "," + option;
  // libfuse splits at commas and takes backslashes off.
  options += ",fsname=";
  for (const char c : mounting.source) options += (c == ',' || c == '\\' ? "\\" : "") + std::string(1, c);
  fuse_args arguments = FUSE_ARGS_INIT(0, nullptr);
  for (const char* argument : {"weightfs", "-o", options.c_str()}) fuse_opt_add_arg(&arguments, argument);
  const fuse_lowlevel_ops ops = operations();
  SessionPtr session(fuse_session_new(&arguments, &ops, sizeof ops, s));
  fuse_opt_free_args(&arguments);
  return session;
}

int run(fuse_session* session) {
  fuse_loop_config* config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_max_threads(config, kMostThreads);
  fuse_loop_cfg_set_idle_threads(config, kIdleThreads);
  const int ended = fuse_session_loop_mt(session, config);
  fuse_loop_cfg_destroy(config);
  return ended;
}

// The signals that end a mount.
sigset_t ending_signals() {
  sigset_t ends{};
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&ends, number);
  return ends;
}

// These, and those that mean something else.
sigset_t awaited_signals(const Duties& duties) {
  sigset_t awaited = ending_signals();
  for (const auto& [number, duty] : duties.on_signals) ::sigaddset(&awaited, number);
  return awaited;
}

// They are kept for the thread that waits for them, and never interrupt another: threads that are started meanwhile do
// not get them either. One more than was needed is nobody's business afterwards.
class SignalsKept {
 public:
  explicit SignalsKept(const Duties& duties) : kept_(awaited_signals(duties)) {
    ::pthread_sigmask(SIG_BLOCK, &kept_, &before_);
  }
  ~SignalsKept() {
    const timespec now{};
    while (::sigtimedwait(&kept_, nullptr, &now) > 0) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsKept(const SignalsKept&) = delete;
  SignalsKept& operator=(const SignalsKept&) = delete;

 private:
  const sigset_t kept_;
  sigset_t before_{};
};

// Beside the loop that serves: says when the mount can be used, does the duties, and ends the loop when a signal asks
// for that.
class Attendant {
 public:
  /// Made in the thread that will run the loop, with the signals kept.
  Attendant(const Mounting& mounting, fuse_session* session) : mounting_(mounting), session_(session) {
    struct sigaction wake {};
    wake.sa_handler = [](int) {};  // not SIG_IGN, and no SA_RESTART: it has to interrupt the loop
    ::sigaction(kWake, &wake, nullptr);
    thread_ = std::thread([this] { attend(); });
  }
  /// After the loop has ended.
  ~Attendant() {
    {
      const std::scoped_lock lock(mutex_);
      over_ = true;
    }
    ended_.notify_all();
    ::pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }
  Attendant(const Attendant&) = delete;
  Attendant& operator=(const Attendant&) = delete;

  /// Whether the mount never answered.
  bool found_it_dead() const { return dead_; }

  /// Whether something else, or nothing, is mounted by now where the mount was made.
  bool found_it_elsewhere() const {
    const auto there = Mounts::now().on(mounting_.mountpoint);
    if (mount_ == 0) return there && !there->is_weightfs();
    return !there || there->id != mount_;
  }

 private:
  static constexpr int kWake = SIGURG;  // of no meaning to anybody else
  static constexpr int kTick = 0;       // which is no signal

  void attend() {
    if (!greet()) return;
    const Duties& duties = mounting_.duties;
    for (;;) {
      const int number = next_signal();
      const auto duty = duties.on_signals.find(number);
      if (is_over()) return;
      if (number == kTick) {
        duties.on_tick();
      } else if (duty != duties.on_signals.end()) {
        duty->second();
      } else {
        return end();
      }
    }
  }

  // Waits for it; kTick when the time of a tick has come first.
  int next_signal() const {
    const Duties& duties = mounting_.duties;
    const sigset_t awaited = awaited_signals(duties);
    int number = kTick;
    if (duties.tick_every.count() == 0) {
      ::sigwait(&awaited, &number);
      return number;
    }
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duties.tick_every);
    const std::chrono::nanoseconds rest = duties.tick_every - seconds;
    const timespec time{seconds.count(), rest.count()};
    do number = ::sigtimedwait(&awaited, nullptr, &time);
    while (number < 0 && errno == EINTR);
    return number < 0 ? kTick : number;
  }

  bool is_over() {
    const std::scoped_lock lock(mutex_);
    return over_;
  }

  // Waits for the first answer: only then is the mount usable, and only then has it a read-ahead to raise. A mount that
  // never answers, though nobody ended it, is no mount: then it is ended as a signal would end it.
  bool greet() {
    struct stat root {};
    if (::stat(mounting_.mountpoint.c_str(), &root) != 0) {
      dead_ = fuse_session_exited(session_) == 0;
      if (dead_) end();
      return false;
    }
    if (fuse_session_exited(session_) != 0) return false;  // then it was not the mount that answered, maybe
    if (const auto mount = Mounts::now().on(mounting_.mountpoint); mount && mount->is_weightfs()) mount_ = mount->id;
    raise_read_ahead(root.st_dev);
    if (mounting_.duties.on_usable) mounting_.duties.on_usable(mount_);
    return true;
  }

  // What reads wait for is ended first: the loop ends when all have been answered. It looks for its end when it is
  // interrupted, and may have been about to wait. A source that hangs (a server of files that is gone) may keep a
  // request for ever.
  void end() {
    std::unique_lock lock(mutex_);
    if (over_) return;
    if (mounting_.duties.on_end) mounting_.duties.on_end();
    fuse_session_exit(session_);
    const auto limit = std::chrono::steady_clock::now() + kLongestEnd;
    do ::pthread_kill(loop_, kWake);
    while (!ended_.wait_for(lock, std::chrono::milliseconds(10), [&] { return over_; }) &&
           std::chrono::steady_clock::now() < limit);
    if (over_) return;
    lock.unlock();
    if (mounting_.duties.on_stuck) mounting_.duties.on_stuck();
  }

  const Mounting& mounting_;
  fuse_session* session_;
  const pthread_t loop_ = ::pthread_self();
  std::atomic<bool> dead_ = false;
  std::atomic<uint64_t> mount_ = 0;  // its id, once it was seen
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;  // guarded by mutex_: the loop has ended
  std::thread thread_;
};

// libfuse unmounts what lies at the path, whatever it is, unless the device tells that its mount has gone. So does a
// pipe that nobody reads.
void let_go_of_device(fuse_session* session) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  ::close(ends[0]);
  ::dup3(ends[1], fuse_session_fd(session), O_CLOEXEC);
  ::close(ends[1]);
}

// Whether there was somebody to do it.
bool was_taken_away(const Mounting& mounting) {
  if (!mounting.duties.on_unmount) return false;
  mounting.duties.on_unmount();
  return true;
}

Result<SessionPtr> mounted_session(Server* s, const Mounting& mounting) {
  const StderrCapture kept;
  SessionPtr session = make_session(s, mounting);
  // fuse_session_mount takes a path of this form for a descriptor.
  const std::string at = mounting.device ? str("/dev/fd/", *mounting.device) : mounting.mountpoint;
  if (session != nullptr && fuse_session_mount(session.get(), at.c_str()) == 0) return session;
  return failure(Code::io, str(mounting.mountpoint, ": cannot be mounted on: ", kept.last_line()));
}

// A mount that was never served, or can no longer be.
void unmount(fuse_session* session, const Mounting& mounting) {
  if (was_taken_away(mounting)) let_go_of_device(session);
  fuse_session_unmount(session);
}

// What libfuse's loop gives, which else gives negative numbers of errors.
constexpr int kNoThread = -1;

// The attendant, who may wait for an answer, gets none: one thread less, and fusermount3 can be started for the
// unmounting.
void end_connection(fuse_session* session) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup3(null, fuse_session_fd(session), O_CLOEXEC);
  ::close(null);
}

}  // namespace

// A mount starts with 128 KiB.
void raise_read_ahead(dev_t device) {
  std::ofstream(str("/sys/class/bdi/", ::major(device), ":", ::minor(device), "/read_ahead_kb")) << kReadAheadKiB;
}

Result<int> open_mount(const Mounting& mounting) {
  const SessionPtr session = TRY(mounted_session(nullptr, mounting));
  const int device = ::fcntl(fuse_session_fd(session.get()), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (device >= 0) return device;
  const Error error{Code::io, str(mounting.mountpoint, ": ", std::strerror(errno))};
  fuse_session_unmount(session.get());
  return tl::unexpected(error);
}

Result<void> serve(Forest& forest, Statistics& statistics, const Mounting& mounting) {
  Server s(forest, statistics, mounting);
  const SignalsKept signals_kept(mounting.duties);
  const SessionPtr session = TRY(mounted_session(&s, mounting));
  std::signal(SIGPIPE, SIG_IGN);  // of a standard error that nobody reads any more
  int ended = 0;
  bool dead = false;
  try {
    const Attendant attendant(mounting, session.get());
    ended = run(session.get());
    if (ended == kNoThread) {
      end_connection(session.get());
    } else {
      if (was_taken_away(mounting) || attendant.found_it_elsewhere()) let_go_of_device(session.get());
      fuse_session_unmount(session.get());
    }
    dead = attendant.found_it_dead();
  } catch (const std::system_error&) {
    ended = kNoThread;
  }
  if (ended == kNoThread) {
    unmount(session.get(), mounting);
    return failure(Code::io, "no thread can be started: the limit of processes was reached");
  }
  if (ended < 0) return failure(Code::io, str(mounting.mountpoint, ": ", std::strerror(-ended)));
  if (dead) return failure(Code::io, str(mounting.mountpoint, ": the mount does not answer"));
  return {};
}

}  // namespace weightfs
