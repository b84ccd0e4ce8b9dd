#include "fs/fuse/rings.h"

#include <fmt/core.h>
#include <pthread.h>
#include <sys/sysinfo.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <functional>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/files/open_files.h"
#include "fs/fuse/server.h"

namespace weightfs::fuse {

#if FUSE_VERSION < FUSE_MAKE_VERSION(3, 19)

std::string rings_missing() { return fmt::format("not in this build: libfuse {}; 3.19 is needed", fuse_pkgversion()); }

Rings::Rings(std::string refusal) : refusal_(refusal.empty() ? rings_missing() : std::move(refusal)) {}
std::string Rings::session_options() const { return {}; }
void Rings::add_to(fuse_lowlevel_ops&) const {}
void Rings::request_feature(fuse_conn_info&) {}
void Rings::stop(fuse_session*) {}
std::string Rings::refusal() const { return refusal_; }
std::span<std::byte> payload_of(fuse_req*) { return {}; }

#else

// The threads of requests that may wait. One of them is always idle, or starts another one before it begins: a thread
// that a ring's thread started would be bound to the same processor. There are as many as requests at a time, at most
// kRingEntries for each processor and one.
class RequestThreads {
 public:
  using Work = std::function<void()>;

  /// Throws std::system_error if no thread can be started.
  RequestThreads() {
    threads_.emplace_back([this] { serve(); });
  }
  ~RequestThreads() { stop(); }
  RequestThreads(const RequestThreads&) = delete;
  RequestThreads& operator=(const RequestThreads&) = delete;

  /// Runs `work` in another thread. False after stop().
  bool add(Work work) {
    const std::scoped_lock lock(mutex_);
    if (is_stopped_) return false;
    waiting_.push_back(std::move(work));
    changed_.notify_one();
    return true;
  }

  /// Waits for all work, which is cancelled after a while.
  void stop() {
    constexpr std::chrono::seconds kGrace{1};
    {
      std::unique_lock lock(mutex_);
      is_stopped_ = true;
      changed_.notify_all();
      ended_.wait_for(lock, kGrace, [this] { return running_ == 0 && waiting_.empty(); });
      is_cancelled_ = true;
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void serve() {
    const CancelScope scope([this] { return is_cancelled_.load(); });
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [this] { return !waiting_.empty() || is_stopped_; });
      --idle_;
      if (waiting_.empty()) return;
      const Work work = std::move(waiting_.front());
      waiting_.pop_front();
      if (idle_ == 0 && !is_stopped_) start();
      ++running_;
      lock.unlock();
      work();
      lock.lock();
      if (--running_ == 0) ended_.notify_all();
    }
  }

  // Without another thread, those that exist serve all requests. Needs the lock.
  void start() {
    try {
      threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      return;
    }
  }

  std::atomic<bool> is_cancelled_ = false;
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::condition_variable ended_;
  std::deque<Work> waiting_;
  size_t idle_ = 0;     // threads
  size_t running_ = 0;  // work
  bool is_stopped_ = false;
  std::vector<std::thread> threads_;  // grows until is_stopped_
};

namespace {

// Before each possible processor has a ring, the kernel lets all requests wait. libfuse makes one for each that is
// configured, which are fewer where processors can be added.
bool has_all_processors() {
  std::string possible;  // "0-3"
  std::getline(std::ifstream("/sys/devices/system/cpu/possible"), possible);
  return possible == fmt::format("0-{}", ::get_nprocs_conf() - 1) || (possible == "0" && ::get_nprocs_conf() == 1);
}

// Why there can be no rings; null if there can.
const char* missing_for(const fuse_conn_info& connection) {
  if ((connection.capable_ext & FUSE_CAP_OVER_IO_URING) == 0) return "not enabled in the kernel; see weightfs doctor";
  return has_all_processors() ? nullptr : "processors can be added to this machine";
}

}  // namespace

// A request that came by a ring, or not.
struct RingRequest {
  explicit RingRequest(fuse_req_t of) : request(of), rings(server().rings()), is_by_ring(fuse_req_is_uring(of)) {
    if (!is_by_ring) return;
    rings.unused_ = nullptr;
    // libfuse cancels the threads of rings at the end, which C++ code does not survive; it wakes them, too.
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  }

  Server& server() const { return *static_cast<Server*>(fuse_req_userdata(request)); }

  void run(RequestThreads::Work work) const {
    if (!rings.threads_->add(std::move(work))) fuse_reply_err(request, ENOTCONN);
  }

  fuse_req_t request;
  Rings& rings;
  bool is_by_ring;
};

// The names of handlers in operations.cc are the same.
namespace by_ring {
namespace {

// Those of the operations that requests by /dev/fuse have. Written before the session starts.
fuse_lowlevel_ops& handlers() {
  static fuse_lowlevel_ops all{};
  return all;
}

// Copies of arguments for another thread. The bytes of a request are those of its reply, too, and those of the next
// request if an interrupt answers it.
class KeptName {
 public:
  explicit KeptName(const char* name) : name_(name) {}
  operator const char*() const { return name_.c_str(); }  // NOLINT: as the parameter of a handler

 private:
  std::string name_;
};

class KeptFile {
 public:
  explicit KeptFile(const fuse_file_info* file) : file_(file == nullptr ? fuse_file_info{} : *file) {}
  operator fuse_file_info*() { return &file_; }  // NOLINT: as the parameter of a handler

 private:
  fuse_file_info file_;
};

KeptName kept(const char* name) { return KeptName(name); }
KeptFile kept(fuse_file_info* file) { return KeptFile(file); }
template <class Number>
Number kept(Number number) {
  return number;
}

enum class Waits { maybe, never };

template <auto operation, class... Arguments>
void serve(const RingRequest& from, Waits waits, Arguments... arguments) {
  const auto handler = handlers().*operation;
  if (!from.is_by_ring || waits == Waits::never) return handler(from.request, arguments...);
  from.run([request = from.request, handler, all = std::make_tuple(kept(arguments)...)]() mutable {
    std::apply([&](auto&... each) { handler(request, each...); }, all);
  });
}

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  serve<&fuse_lowlevel_ops::lookup>(RingRequest(request), Waits::maybe, parent, name);
}

void getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  const RingRequest from(request);
  const bool is_known = from.is_by_ring && from.server().forest().known_attributes(ino);
  serve<&fuse_lowlevel_ops::getattr>(from, is_known ? Waits::never : Waits::maybe, ino, file);
}

void readlink(fuse_req_t request, fuse_ino_t ino) {
  serve<&fuse_lowlevel_ops::readlink>(RingRequest(request), Waits::maybe, ino);
}

void open(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  serve<&fuse_lowlevel_ops::open>(RingRequest(request), Waits::maybe, ino, file);
}

// Whether the bytes are those of a local file that are in memory, and few: more are copied by threads in parallel.
bool is_in_memory(const OpenFile& file, uint64_t offset, size_t size) {
  if (size >= kLargeRead || offset >= file.size()) return false;
  const auto extent = file.extent();
  return extent && is_cached(*extent, {offset, std::min(offset + size, file.size())});
}

void read(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info* file) {
  const RingRequest from(request);
  const bool waits = from.is_by_ring && !is_in_memory(reinterpret_cast<const Handle*>(file->fh)->file,
                                                      static_cast<uint64_t>(offset), size);
  serve<&fuse_lowlevel_ops::read>(from, waits ? Waits::maybe : Waits::never, ino, size, offset, file);
}

void release(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  serve<&fuse_lowlevel_ops::release>(RingRequest(request), Waits::maybe, ino, file);
}

void readdirplus(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info* file) {
  serve<&fuse_lowlevel_ops::readdirplus>(RingRequest(request), Waits::maybe, ino, size, offset, file);
}

void getxattr(fuse_req_t request, fuse_ino_t ino, const char* name, size_t size) {
  const bool waits = std::string_view(name).starts_with(kXattrNamespace);
  serve<&fuse_lowlevel_ops::getxattr>(RingRequest(request), waits ? Waits::maybe : Waits::never, ino, name, size);
}

void listxattr(fuse_req_t request, fuse_ino_t ino, size_t size) {
  serve<&fuse_lowlevel_ops::listxattr>(RingRequest(request), Waits::maybe, ino, size);
}

}  // namespace
}  // namespace by_ring

std::string rings_missing() { return {}; }

Rings::Rings(std::string refusal) : refusal_(std::move(refusal)) {}

std::string Rings::session_options() const {
  return refusal_.empty() ? fmt::format(",io_uring,io_uring_q_depth={}", kRingEntries) : "";
}

// The other operations wait for nothing.
void Rings::add_to(fuse_lowlevel_ops& all) const {
  if (!refusal_.empty()) return;
  by_ring::handlers() = all;
  all.lookup = by_ring::lookup;
  all.getattr = by_ring::getattr;
  all.readlink = by_ring::readlink;
  all.open = by_ring::open;
  all.read = by_ring::read;
  all.release = by_ring::release;
  all.readdirplus = by_ring::readdirplus;
  all.getxattr = by_ring::getxattr;
  all.listxattr = by_ring::listxattr;
}

void Rings::request_feature(fuse_conn_info& connection) {
  if (!refusal_.empty()) return;
  unused_ = missing_for(connection);
  if (unused_ != nullptr) return fuse_unset_feature_flag(&connection, FUSE_CAP_OVER_IO_URING);
  unused_ = "the rings could not be created";
  try {
    threads_ = std::make_shared<RequestThreads>();
    connection.max_write = kRingRequest;  // of reads, too
  } catch (const std::system_error&) {
    fuse_unset_feature_flag(&connection, FUSE_CAP_OVER_IO_URING);
  }
}

// Only libfuse's own loops stop rings; this one finds that the session has ended.
void Rings::stop(fuse_session* session) {
  if (threads_ == nullptr) return;
  threads_->stop();
  fuse_session_exit(session);
  fuse_session_loop(session);
}

std::string Rings::refusal() const {
  const char* const unused = unused_;
  return !refusal_.empty() || unused == nullptr ? refusal_ : unused;
}

std::span<std::byte> payload_of(fuse_req* request) {
  char* payload = nullptr;
  size_t size = 0;
  if (fuse_req_get_payload(request, &payload, &size, nullptr) != 0) return {};
  return {reinterpret_cast<std::byte*>(payload), size};
}

#endif

}  // namespace weightfs::fuse
