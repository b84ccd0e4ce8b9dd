// The threads of a session against a fake kernel: requests and replies of fuse(4) over a socket.
#include "fs/fuse/workers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <latch>
#include <mutex>
#include <set>
#include <thread>

#include "base/cancel.h"
#include "base/os/descriptor.h"
#include "fs/fuse/interrupts.h"

namespace weightfs::workers_test {
namespace {

using namespace fuse;

std::atomic<int> polls = 0;

int counted_poll(pollfd* files, nfds_t count, int timeout) {
  ++polls;
  return ::poll(files, count, timeout);
}

constexpr std::chrono::microseconds kShort{10};

// As if no request came during the poll. Takes longer than a worker polls, so that there is one call each time.
int poll_in_vain(pollfd* /*files*/, nfds_t /*count*/, int /*timeout*/) {
  ++polls;
  const auto end = std::chrono::steady_clock::now() + 2 * kShort;
  while (std::chrono::steady_clock::now() < end) continue;
  return 0;
}

constexpr int kRunning = 1;
constexpr std::chrono::hours kLong{1};
constexpr uint64_t kBlocked = 7;    // requests about this inode are answered after release()
constexpr uint64_t kCancelled = 8;  // requests about this inode are answered when they are cancelled

// The end of the socket is that of the mount.
ssize_t read_request(int device, void* bytes, size_t size, void*) {
  const ssize_t got = ::read(device, bytes, size);
  if (got == 0) errno = ENODEV;
  return got == 0 ? -1 : got;
}

size_t threads_of_process() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// Whether this process may use one processor only.
bool has_one_processor() {
  cpu_set_t usable;
  return ::sched_getaffinity(0, sizeof usable, &usable) != 0 || CPU_COUNT(&usable) == 1;
}

// A session whose device is a socket, served by a thread.
class WorkersTest : public testing::Test {
 protected:
  void SetUp() override {
    struct sigaction wake {};
    wake.sa_handler = [](int) {};
    ::sigaction(kWake, &wake, nullptr);
    fuse_session* const session = new_session();
    const fuse_custom_io io = socket_io();
    const int device = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    const int failed = fuse_session_custom_io(session, &io, device);
    fuse_session_destroy(session);  // and closes the device, if it has taken it
    if (failed != 0) ::close(device);
    if (failed == -EOPNOTSUPP) GTEST_SKIP() << "this libfuse was built without fuse_session_custom_io()";
  }

  void TearDown() override {
    release();
    kernel_ = Descriptor();
    if (serving_.joinable()) serving_.join();
    if (session_ != nullptr) fuse_session_destroy(session_);
  }

  fuse_session* new_session() {
    fuse_args arguments = FUSE_ARGS_INIT(0, nullptr);
    fuse_opt_add_arg(&arguments, "test");
    fuse_lowlevel_ops operations{};
    operations.getattr = getattr;
    fuse_session* const session = fuse_session_new(&arguments, &operations, sizeof operations, this);
    fuse_opt_free_args(&arguments);
    return session;
  }

  static fuse_custom_io socket_io() {
    fuse_custom_io io{};
    io.read = read_request;
    io.writev = [](int device, iovec* parts, int count, void*) { return ::writev(device, parts, count); };
    return io;
  }

  void serve(const WorkerLimits& limits) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    kernel_ = Descriptor(ends[0]);
    session_ = new_session();
    const fuse_custom_io io = socket_io();
    ASSERT_EQ(fuse_session_custom_io(session_, &io, ends[1]), 0);
    before_ = threads_of_process();
    serving_ = std::thread([this, limits] { result_ = serve_requests(session_, limits); });
    fuse_init_in init{};
    init.major = FUSE_KERNEL_VERSION;
    init.minor = FUSE_KERNEL_MINOR_VERSION;
    send(FUSE_INIT, 0, &init, sizeof init);
    ASSERT_EQ(answered(), 1U);
  }

  // Sends a request; its number is one more than that of the last one.
  void send(uint32_t operation, uint64_t inode, const void* body, size_t size) {
    fuse_in_header header{};
    header.len = static_cast<uint32_t>(sizeof header + size);
    header.opcode = operation;
    header.unique = ++last_request_;
    header.nodeid = inode;
    std::array<iovec, 2> parts{{{&header, sizeof header}, {const_cast<void*>(body), size}}};
    ASSERT_EQ(::writev(kernel_.number(), parts.data(), 2), static_cast<ssize_t>(header.len));
  }

  void get_attributes(uint64_t inode) {
    const fuse_getattr_in body{};
    send(FUSE_GETATTR, inode, &body, sizeof body);
  }

  // The number of the request that is answered next.
  uint64_t answered() {
    std::array<char, 4096> reply{};
    const ssize_t got = ::read(kernel_.number(), reply.data(), reply.size());
    fuse_out_header header{};
    if (got < static_cast<ssize_t>(sizeof header)) return 0;
    std::memcpy(&header, reply.data(), sizeof header);
    return header.unique;
  }

  // Sends a request, and waits for its answer.
  void ask() {
    get_attributes(1);
    ASSERT_EQ(answered(), last_request_);
  }

  void release() {
    if (!released_.try_wait()) released_.count_down();
  }

  size_t threads_used() {
    const std::scoped_lock lock(mutex_);
    return used_.size();
  }

  // Waits until the session has this many threads; it must get there.
  void wait_for_threads(size_t most) const {
    while (threads_of_process() > before_ + 1 + most) std::this_thread::yield();
  }

  Descriptor kernel_;
  fuse_session* session_ = nullptr;
  std::thread serving_;
  std::atomic<int> result_ = kRunning;
  uint64_t last_request_ = 0;

 private:
  static void getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info*) {
    auto& self = *static_cast<WorkersTest*>(fuse_req_userdata(request));
    {
      const std::scoped_lock lock(self.mutex_);
      self.used_.insert(std::this_thread::get_id());
    }
    if (inode == kBlocked) self.released_.wait();
    while (inode == kCancelled && !is_cancelled()) std::this_thread::yield();
    fuse_reply_err(request, ENOENT);
  }

  std::latch released_{1};
  std::mutex mutex_;
  std::set<std::thread::id> used_;
  size_t before_ = 0;
};

TEST_F(WorkersTest, BlockedRequestsDoNotDelayOthers) {
  serve({.threads = 1000});
  for (int i = 0; i < 100; ++i) get_attributes(kBlocked);
  get_attributes(1);
  EXPECT_EQ(answered(), last_request_);
}

TEST_F(WorkersTest, InterruptsAreReportedAndOtherRequestsAreNot) {
  std::atomic<int> interrupts = 0;
  WorkerLimits limits{.threads = 1000};
  limits.on_interrupt = [&interrupts] { ++interrupts; };
  serve(limits);
  ask();
  EXPECT_EQ(interrupts, 0);
  const fuse_interrupt_in body{.unique = 1'000'000};  // of a request that libfuse does not know
  send(FUSE_INTERRUPT, 0, &body, sizeof body);
  while (interrupts == 0) std::this_thread::yield();
  EXPECT_EQ(interrupts, 1);
}

TEST_F(WorkersTest, RequestsOneAfterTheOtherNeedFewThreads) {
  serve({.threads = 1000});
  for (int i = 0; i < 2000; ++i) ask();
  EXPECT_LE(threads_used(), 100U);  // one more is started whenever the others have answered, but do not wait again yet
}

TEST_F(WorkersTest, ShortRequestsOfManyReadersNeedOnlyThePromptThreads) {
  serve({.threads = 1000, .prompt = 3, .stuck = std::chrono::hours(1)});
  constexpr uint64_t kReaders = 32;
  for (uint64_t i = 0; i < kReaders; ++i) get_attributes(1);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_NE(answered(), 0U);
    get_attributes(1);
  }
  for (uint64_t i = 0; i < kReaders; ++i) ASSERT_NE(answered(), 0U);
  EXPECT_LE(threads_used(), 3U);
}

TEST_F(WorkersTest, ThreadsAreAddedWhenAllAreStuck) {
  serve({.threads = 1000, .prompt = 3});
  for (int i = 0; i < 40; ++i) get_attributes(kBlocked);
  while (threads_used() < 40) std::this_thread::yield();
  get_attributes(1);
  EXPECT_EQ(answered(), last_request_);
}

TEST_F(WorkersTest, ThreadsAreLimited) {
  serve({.threads = 3});
  for (int i = 0; i < 3; ++i) get_attributes(kBlocked);
  while (threads_used() < 3) std::this_thread::yield();
  get_attributes(1);
  release();
  std::set<uint64_t> numbers;
  for (int i = 0; i < 4; ++i) numbers.insert(answered());
  EXPECT_EQ(numbers, (std::set<uint64_t>{2, 3, 4, 5}));
  EXPECT_LE(threads_used(), 3U);
}

TEST_F(WorkersTest, ThreadsThatAreNotNeededEnd) {
  serve({.threads = 1000, .unused = std::chrono::milliseconds(1)});
  for (int i = 0; i < 50; ++i) get_attributes(kBlocked);
  while (threads_used() < 50) std::this_thread::yield();
  release();
  for (int i = 0; i < 50; ++i) ASSERT_NE(answered(), 0U);
  wait_for_threads(2);
  get_attributes(1);
  EXPECT_EQ(answered(), last_request_);
}

TEST_F(WorkersTest, NextOfRequestsThatFollowSoonIsPolledFor) {
  if (has_one_processor()) GTEST_SKIP() << "a single processor";
  polls = 0;
  serve({.threads = 1000, .soon = kLong, .polled = kLong, .poll = counted_poll});
  for (int i = 0; i < 10'000 && polls == 0; ++i) ask();
  ASSERT_GT(polls, 0);
  get_attributes(1);
  EXPECT_EQ(answered(), last_request_) << "while a thread polls";
  for (int i = 0; i < 20; ++i) get_attributes(kBlocked);
  get_attributes(1);
  EXPECT_EQ(answered(), last_request_) << "while others are blocked";
}

TEST_F(WorkersTest, SessionEndsWhileAThreadPolls) {
  if (has_one_processor()) GTEST_SKIP() << "a single processor";
  polls = 0;
  serve({.threads = 1000, .soon = kLong, .polled = kLong, .poll = counted_poll});
  for (int i = 0; i < 10'000 && polls == 0; ++i) ask();
  ASSERT_GT(polls, 0);
  fuse_session_exit(session_);
  while (result_ == kRunning) ::pthread_kill(serving_.native_handle(), kWake);
  EXPECT_EQ(result_, 0);
}

TEST_F(WorkersTest, RareRequestsAreNotPolledFor) {
  if (has_one_processor()) GTEST_SKIP() << "a single processor";
  polls = 0;
  serve({.threads = 1000, .soon = std::chrono::microseconds(0), .polled = kLong, .poll = counted_poll});
  for (int i = 0; i < 100; ++i) ask();
  EXPECT_EQ(polls, 0);
}

TEST_F(WorkersTest, PollsInVainBecomeRare) {
  if (has_one_processor()) GTEST_SKIP() << "a single processor";
  polls = 0;
  serve({.threads = 1000, .soon = kLong, .polled = kShort, .poll = poll_in_vain});
  for (int i = 0; i < 200; ++i) ask();
  EXPECT_GT(polls, 0);
  EXPECT_LT(polls, 100);
}

TEST_F(WorkersTest, EndsWhenKernelHasUnmounted) {
  serve({.threads = 1000});
  kernel_ = Descriptor();
  serving_.join();
  EXPECT_EQ(result_, 0);
}

TEST_F(WorkersTest, LongRequestsAreCancelledWhenKernelHasUnmounted) {
  serve({.threads = 1000, .grace = std::chrono::milliseconds(1)});
  get_attributes(kCancelled);
  get_attributes(kCancelled);
  while (threads_used() < 2) std::this_thread::yield();
  kernel_ = Descriptor();
  serving_.join();
  EXPECT_EQ(result_, 0);
}

TEST_F(WorkersTest, EndsAfterExitOfSessionAndSignal) {
  serve({.threads = 1000});
  get_attributes(kBlocked);
  while (threads_used() < 1) std::this_thread::yield();
  fuse_session_exit(session_);
  release();
  while (result_ == kRunning) ::pthread_kill(serving_.native_handle(), kWake);
  EXPECT_EQ(answered(), last_request_) << "a request in progress is answered";
  EXPECT_EQ(result_, 0);
}

}  // namespace
}  // namespace weightfs::workers_test
