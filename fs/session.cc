#include "fs/session.h"

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "base/kept_stderr.h"
#include "base/text.h"

namespace weightfs {
namespace {

// Nothing ever changes, so the kernel may keep every answer. It converts seconds to jiffies: this is as long as it can
// hold.
constexpr double kForEver = std::numeric_limits<int32_t>::max();

// As much as one READ may ask for (FUSE_MAX_MAX_PAGES pages).
constexpr size_t kLargestRead = size_t{1} << 20;

// The kernel reads this far ahead where it lets us say so: one request a megabyte instead of eight.
constexpr int kReadAheadKiB = 1024;

// A reader may have to wait until what it reads has been unpacked, and a thread waits with it: there are more threads
// than readers usually wait, so that all else is answered meanwhile; but few stay when there is nothing to do.
constexpr unsigned kMostThreads = 64;
constexpr unsigned kIdleThreads = 10;

// The one place where a failure becomes an errno.
int errno_of(Code code) {
  switch (code) {
    case Code::not_found:
      return ENOENT;
    // What the bytes of a container can cause is an I/O error to those who read it: EBADMSG and its kin surprise
    // programs. So does EAGAIN, which no regular file gives: Python's read() returns None then.
    case Code::unavailable:
    case Code::corrupt:
    case Code::unsupported:
    case Code::mismatch:
    case Code::io:
      return EIO;
  }
  return EIO;
}

// Rounded towards the past: nanoseconds are never negative.
timespec timespec_of(Time time) {
  constexpr Time kSecond = 1'000'000'000;
  const Time nanoseconds = (time % kSecond + kSecond) % kSecond;
  return {(time - nanoseconds) / kSecond, nanoseconds};
}

// What the session's user data points to.
class Server {
 public:
  Server(Forest& forest, const Mounting& mounting) : forest_(forest), mounting_(mounting) {}

  Forest& forest() { return forest_; }

  struct stat stat_of(Ino ino, const Attributes& attributes) const {
    struct stat out {};
    out.st_ino = ino;
    out.st_mode = attributes.is_directory()       ? S_IFDIR | 0555U
                  : attributes.kind == Kind::link ? S_IFLNK | 0777U
                                                  : S_IFREG | 0444U;
    out.st_nlink = attributes.links;
    out.st_uid = uid_;
    out.st_gid = gid_;
    out.st_size = static_cast<off_t>(attributes.size);
    out.st_blksize = kBlock;
    out.st_blocks = static_cast<blkcnt_t>((attributes.size + 511) / 512);
    out.st_mtim = timespec_of(attributes.modified);
    out.st_atim = out.st_ctim = out.st_mtim;
    return out;
  }

  // Says why a request failed, once for each reason; what merely is not there needs no word.
  void log(const Error& error) {
    constexpr size_t kMostLines = 1000;
    if (error.code == Code::not_found || !mounting_.log) return;
    const std::scoped_lock lock(mutex_);
    if (said_.size() < kMostLines && said_.insert(error.message).second) mounting_.log(error.message);
  }

  static constexpr blksize_t kBlock = 4096;

 private:
  Forest& forest_;
  const Mounting& mounting_;
  uid_t uid_ = ::getuid();
  gid_t gid_ = ::getgid();
  std::mutex mutex_;
  std::set<std::string> said_;
};

Server& server(fuse_req_t request) { return *static_cast<Server*>(fuse_req_userdata(request)); }

// Calls `answer`, which returns a Result<void> and has replied if that is a success. An exception fails the request: it
// must not end the mount.
template <class Answer>
void respond(fuse_req_t request, const Answer& answer) {
  Result<void> done;
  try {
    done = answer();
    if (!done) server(request).log(done.error());
  } catch (const std::bad_alloc&) {
    done = failure(Code::unavailable, {});
  } catch (const std::exception&) {
    done = failure(Code::io, {});
  }
  if (!done) fuse_reply_err(request, errno_of(done.error().code));
}

fuse_entry_param entry_of(const Server& s, Ino ino, const Attributes& attributes) {
  fuse_entry_param entry{};
  entry.ino = ino;
  entry.attr = s.stat_of(ino, attributes);
  entry.attr_timeout = entry.entry_timeout = kForEver;
  return entry;
}

void init(void*, fuse_conn_info* connection) {
  const auto want = [&](unsigned wanted) { connection->want |= connection->capable & wanted; };
  want(FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ASYNC_READ | FUSE_CAP_EXPLICIT_INVAL_DATA |
       FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO);
  // Without it the kernel asks for the attributes again before each read.
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_AUTO_INVAL_DATA);
  connection->max_readahead = kReadAheadKiB * 1024;
  // Reads ahead that wait for the kernel to send them wait for those that it has sent.
  connection->max_background = kMostThreads;
}

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  respond(request, [&]() -> Result<void> {
    Server& s = server(request);
    const auto ino = s.forest().lookup(parent, name);
    if (!ino && ino.error().code == Code::not_found) {
      fuse_entry_param absent{};  // inode 0: the kernel remembers that there is no such name
      absent.entry_timeout = kForEver;
      fuse_reply_entry(request, &absent);
      return {};
    }
    const Ino found = TRY(ino);
    const fuse_entry_param entry = entry_of(s, found, TRY(s.forest().attributes(found)));
    fuse_reply_entry(request, &entry);
    return {};
  });
}

void getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  respond(request, [&]() -> Result<void> {
    Server& s = server(request);
    const struct stat attributes = s.stat_of(ino, TRY(s.forest().attributes(ino)));
    fuse_reply_attr(request, &attributes, kForEver);
    return {};
  });
}

void readlink(fuse_req_t request, fuse_ino_t ino) {
  respond(request, [&]() -> Result<void> {
    const std::string text = TRY(server(request).forest().link(ino));
    fuse_reply_readlink(request, text.c_str());
    return {};
  });
}

void open(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  respond(request, [&]() -> Result<void> {
    if ((file->flags & O_ACCMODE) != O_RDONLY) {
      fuse_reply_err(request, EROFS);
      return {};
    }
    auto source = std::make_unique<SourcePtr>(TRY(server(request).forest().open(ino)));
    file->fh = reinterpret_cast<uintptr_t>(source.get());
    file->keep_cache = 1;
    file->noflush = 1;
    // An open that was interrupted is never released.
    if (fuse_reply_open(request, file) == 0) source.release();
    return {};
  });
}

void release(fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
  const std::unique_ptr<SourcePtr> closed(reinterpret_cast<SourcePtr*>(file->fh));
  fuse_reply_err(request, 0);
}

void read(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* file) {
  respond(request, [&]() -> Result<void> {
    // One buffer per worker thread: a fresh megabyte per request would be zeroed by the kernel each time.
    thread_local std::vector<std::byte> buffer;
    if (buffer.size() < size) buffer.resize(std::min(size, kLargestRead));
    const auto out = std::span(buffer).first(std::min(size, buffer.size()));
    const size_t got = TRY((*reinterpret_cast<SourcePtr*>(file->fh))->read(static_cast<uint64_t>(offset), out));
    fuse_reply_buf(request, reinterpret_cast<const char*>(buffer.data()), got);
    return {};
  });
}

// The kernel keeps listings of a file system whose opendir is not implemented, and never opens or releases a directory
// again.
void opendir(fuse_req_t request, fuse_ino_t, fuse_file_info*) { fuse_reply_err(request, ENOSYS); }

mode_t type_of(Kind kind) {
  if (kind == Kind::directory || kind == Kind::tree) return S_IFDIR;
  return kind == Kind::link ? S_IFLNK : S_IFREG;
}

enum class Listed { names, attributes };

// Offsets: 1 after `.`, 2 after `..`, 2 + k after the k-th child.
class Page {
 public:
  Page(fuse_req_t request, size_t size, Listed listed) : request_(request), listed_(listed), bytes_(size) {}

  // False when the page is full.
  bool add(const char* name, Ino ino, Kind kind, off_t next) {
    char* at = bytes_.data() + used_;
    const size_t left = bytes_.size() - used_;
    size_t needed = 0;
    if (listed_ == Listed::names) {
      struct stat known {};
      known.st_ino = ino;
      known.st_mode = type_of(kind);
      needed = fuse_add_direntry(request_, at, left, name, &known, next);
    } else {
      const fuse_entry_param entry = entry_for(name, ino, kind);
      needed = fuse_add_direntry_plus(request_, at, left, name, &entry, next);
    }
    if (needed > left) return false;
    used_ += needed;
    return true;
  }

  void reply() { fuse_reply_buf(request_, bytes_.data(), used_); }

 private:
  // Inode 0 tells the kernel to take the name alone: for `.` and `..`, and where the size is not known yet.
  fuse_entry_param entry_for(std::string_view name, Ino ino, Kind kind) const {
    Server& s = server(request_);
    const bool dots = name == "." || name == "..";
    if (const auto known = dots ? std::nullopt : s.forest().known_attributes(ino)) return entry_of(s, ino, *known);
    fuse_entry_param entry{};
    entry.attr.st_ino = ino;
    entry.attr.st_mode = type_of(kind);
    return entry;
  }

  fuse_req_t request_;
  Listed listed_;
  std::vector<char> bytes_;
  size_t used_ = 0;
};

void list(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, Listed listed) {
  respond(request, [&]() -> Result<void> {
    Forest& forest = server(request).forest();
    const Forest::Listing all = TRY(forest.list(ino));
    Page page(request, size, listed);
    bool room = true;
    if (offset < 1) room = page.add(".", ino, Kind::directory, 1);
    if (offset < 2 && room) room = page.add("..", forest.parent(ino), Kind::directory, 2);
    std::string name;  // fuse_add_direntry wants an end to it
    for (auto i = static_cast<uint64_t>(std::max<off_t>(offset, 2)) - 2; room && i < all.count; ++i) {
      const Node& child = all.tree->node(all.first + static_cast<uint32_t>(i));
      name = child.name();
      room = page.add(name.c_str(), all.ino + i, child.kind, static_cast<off_t>(i + 3));
    }
    page.reply();
    return {};
  });
}

void readdir(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info*) {
  list(request, ino, size, offset, Listed::names);
}

void readdirplus(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info*) {
  list(request, ino, size, offset, Listed::attributes);
}

void statfs(fuse_req_t request, fuse_ino_t) {
  respond(request, [&]() -> Result<void> {
    const Forest& forest = server(request).forest();
    struct statvfs out {};
    out.f_bsize = out.f_frsize = Server::kBlock;
    out.f_blocks = (forest.container_bytes() + out.f_frsize - 1) / out.f_frsize;
    out.f_files = forest.node_count();
    out.f_namemax = kLongestComponent;
    fuse_reply_statfs(request, &out);
    return {};
  });
}

// The protocol of getxattr and listxattr: size 0 asks how much there is.
void reply_xattr(fuse_req_t request, std::string_view bytes, size_t size) {
  if (size == 0) {
    fuse_reply_xattr(request, bytes.size());
  } else if (bytes.size() > size) {
    fuse_reply_err(request, ERANGE);
  } else {
    fuse_reply_buf(request, bytes.data(), bytes.size());
  }
}

void getxattr(fuse_req_t request, fuse_ino_t ino, const char* name, size_t size) {
  respond(request, [&]() -> Result<void> {
    const auto all = server(request).forest().xattrs(ino);
    const auto found = std::find_if(all.begin(), all.end(), [&](const Xattr& x) { return x.first == name; });
    if (found == all.end()) {
      fuse_reply_err(request, ENODATA);
    } else {
      reply_xattr(request, found->second, size);
    }
    return {};
  });
}

void listxattr(fuse_req_t request, fuse_ino_t ino, size_t size) {
  respond(request, [&]() -> Result<void> {
    std::string keys;
    for (const auto& [key, value] : server(request).forest().xattrs(ino)) keys += key + '\0';
    reply_xattr(request, keys, size);
    return {};
  });
}

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops ops{};
  ops.init = init;
  ops.lookup = lookup;
  ops.getattr = getattr;
  ops.readlink = readlink;
  ops.open = open;
  ops.read = read;
  ops.release = release;
  ops.opendir = opendir;
  ops.readdir = readdir;
  ops.readdirplus = readdirplus;
  ops.statfs = statfs;
  ops.getxattr = getxattr;
  ops.listxattr = listxattr;
  return ops;
}

struct Destroy {
  void operator()(fuse_session* session) const { fuse_session_destroy(session); }
};
using SessionPtr = std::unique_ptr<fuse_session, Destroy>;

SessionPtr make_session(Server& s, const Mounting& mounting) {
  std::string options = "ro,nosuid,nodev,default_permissions,subtype=weightfs";
  for (const std::string& option : mounting.options) options += "," + option;
  // libfuse splits at commas and takes backslashes off.
  options += ",fsname=";
  for (const char c : mounting.source) options += (c == ',' || c == '\\' ? "\\" : "") + std::string(1, c);
  fuse_args arguments = FUSE_ARGS_INIT(0, nullptr);
  for (const char* argument : {"weightfs", "-o", options.c_str()}) fuse_opt_add_arg(&arguments, argument);
  const fuse_lowlevel_ops ops = operations();
  SessionPtr session(fuse_session_new(&arguments, &ops, sizeof ops, &s));
  fuse_opt_free_args(&arguments);
  return session;
}

// A mount starts with the kernel's 128 KiB of read-ahead; root may raise it.
void raise_read_ahead(dev_t device) {
  std::ofstream(str("/sys/class/bdi/", ::major(device), ":", ::minor(device), "/read_ahead_kb")) << kReadAheadKiB;
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

// They are kept for the thread that waits for them, and never interrupt another: threads that are started meanwhile do
// not get them either. One more than was needed is nobody's business afterwards.
class SignalsKept {
 public:
  SignalsKept() { ::pthread_sigmask(SIG_BLOCK, &ends_, &before_); }
  ~SignalsKept() {
    const timespec now{};
    while (::sigtimedwait(&ends_, nullptr, &now) > 0) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsKept(const SignalsKept&) = delete;
  SignalsKept& operator=(const SignalsKept&) = delete;

 private:
  const sigset_t ends_ = ending_signals();
  sigset_t before_{};
};

// Beside the loop that serves: says when the mount can be used, and ends the loop when a signal asks for that.
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

 private:
  static constexpr int kWake = SIGURG;  // of no meaning to anybody else

  void attend() {
    if (!greet()) return;
    const sigset_t ends = ending_signals();
    int number = 0;
    ::sigwait(&ends, &number);
    end();
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
    raise_read_ahead(root.st_dev);
    if (mounting_.on_usable) mounting_.on_usable();
    return true;
  }

  // What reads wait for is ended first: the loop ends when all have been answered. It looks for its end when it is
  // interrupted, and may have been about to wait.
  void end() {
    std::unique_lock lock(mutex_);
    if (over_) return;
    if (mounting_.on_end) mounting_.on_end();
    fuse_session_exit(session_);
    do ::pthread_kill(loop_, kWake);
    while (!ended_.wait_for(lock, std::chrono::milliseconds(10), [&] { return over_; }));
  }

  const Mounting& mounting_;
  fuse_session* session_;
  const pthread_t loop_ = ::pthread_self();
  std::atomic<bool> dead_ = false;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;  // guarded by mutex_: the loop has ended
  std::thread thread_;
};

Result<SessionPtr> mounted_session(Server& s, const Mounting& mounting) {
  const KeptStderr kept;
  SessionPtr session = make_session(s, mounting);
  if (session != nullptr && fuse_session_mount(session.get(), mounting.mountpoint.c_str()) == 0) return session;
  return failure(Code::io, str(mounting.mountpoint, ": cannot be mounted on: ", kept.last_line()));
}

}  // namespace

Result<void> serve(Forest& forest, const Mounting& mounting) {
  Server s(forest, mounting);
  const SignalsKept signals_kept;
  const SessionPtr session = TRY(mounted_session(s, mounting));
  std::signal(SIGPIPE, SIG_IGN);  // of a standard error that nobody reads any more
  int ended = 0;
  bool dead = false;
  {
    const Attendant attendant(mounting, session.get());
    ended = run(session.get());
    fuse_session_unmount(session.get());
    dead = attendant.found_it_dead();
  }
  if (ended < 0) return failure(Code::io, str(mounting.mountpoint, ": ", std::strerror(-ended)));
  if (dead) return failure(Code::io, str(mounting.mountpoint, ": the mount does not answer"));
  return {};
}

}  // namespace weightfs
