// The system calls of a confined process.
#include "cli/sandbox/seccomp.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <linux/fsverity.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <functional>

#include "base/os/kernel.h"
#include "base/os/unix_socket.h"
#include "tests/support/temporary.h"

namespace weightfs::seccomp_test {
namespace {

constexpr int kNoFilter = 200;

// The result of `work` in a confined process.
int in_filter(const std::function<int()>& work, const sandbox::PermittedCalls& permitted = {}) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_confined = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && sandbox::filter_system_calls(permitted);
    ::_exit(is_confined ? work() : kNoFilter);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// It would make a file read-only for good.
TEST(Seccomp, FsVerityIsNotEnabled) {
  if (!sandbox::has_seccomp()) GTEST_SKIP() << "the kernel has no seccomp filters";
  const TemporaryDirectory directory;
  const int file = ::open(directory.write("file", "bytes").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  for (const unsigned long request : {FS_IOC_ENABLE_VERITY, FS_IOC_MEASURE_VERITY}) {
    const int error = in_filter([&] {
      std::array<std::byte, 256> argument{};
      return ::ioctl(file, request, argument.data()) == 0 ? 0 : errno;
    });
    EXPECT_TRUE(error == EPERM || error == ENOSYS) << error;
  }
  ::close(file);
}

// isatty(3) of older and of newer versions of the C library: without them there are no tables and no progress.
TEST(Seccomp, TerminalsAreRecognised) {
  if (!sandbox::has_seccomp()) GTEST_SKIP() << "the kernel has no seccomp filters";
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) GTEST_SKIP() << "no pseudo-terminals here";
  for (const unsigned long request : {static_cast<unsigned long>(TCGETS), kernel::kTerminalAttributes}) {
    const auto error_of_request = [&] {
      std::array<std::byte, 256> attributes{};
      return ::ioctl(terminal, request, attributes.data()) == 0 ? 0 : errno;
    };
    EXPECT_EQ(in_filter(error_of_request), 0) << std::hex << request;
  }
  ::close(terminal);
}

constexpr sandbox::PermittedCalls kDownloads{.network = sandbox::Network::connect};
constexpr sandbox::PermittedCalls kServes{.accepts = true, .watches = true};

int error_of(bool is_done) { return is_done ? 0 : errno; }

TEST(Seccomp, OnlyServersWatchDirectories) {
  if (!sandbox::has_seccomp()) GTEST_SKIP() << "the kernel has no seccomp filters";
  const auto watch = [] {
    const int events = ::inotify_init1(IN_CLOEXEC);
    return error_of(events >= 0 && ::inotify_add_watch(events, "/", IN_CREATE) >= 0);
  };
  EXPECT_EQ(in_filter(watch), EPERM);
  EXPECT_EQ(in_filter(watch, kDownloads), EPERM);
  EXPECT_EQ(in_filter(watch, kServes), 0);
}

// Multipath TCP connects where Landlock refuses TCP.
TEST(Seccomp, SocketsHaveTheProtocolsOfDownloads) {
  if (!sandbox::has_seccomp()) GTEST_SKIP() << "the kernel has no seccomp filters";
  struct Row {
    int family, type, protocol;
    bool downloads;
  };
  constexpr std::array kRows = {
      Row{AF_INET, SOCK_STREAM, 0, true},
      Row{AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP, true},
      Row{AF_INET6, SOCK_STREAM, IPPROTO_TCP, true},
      Row{AF_INET, SOCK_DGRAM, IPPROTO_UDP, true},
      Row{AF_INET6, SOCK_DGRAM, 0, true},
      Row{AF_INET, SOCK_STREAM, IPPROTO_MPTCP, false},
      Row{AF_INET6, SOCK_STREAM, IPPROTO_MPTCP, false},
      Row{AF_INET, SOCK_STREAM, IPPROTO_SCTP, false},
      Row{AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE, false},
      Row{AF_INET6, SOCK_DGRAM, IPPROTO_UDPLITE, false},
      Row{AF_INET, SOCK_DGRAM, IPPROTO_ICMP, false},
      Row{AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP, false},
      Row{AF_UNIX, SOCK_STREAM, 0, false},
      Row{AF_UNIX, SOCK_SEQPACKET, 0, false},
  };
  for (const Row& row : kRows) {
    const auto open = [&] { return error_of(::socket(row.family, row.type | SOCK_CLOEXEC, row.protocol) >= 0); };
    const std::string what = fmt::format("{} {} {}", row.family, row.type, row.protocol);
    EXPECT_EQ(in_filter(open, kDownloads), row.downloads ? open() : ENOSYS) << what;
    EXPECT_EQ(in_filter(open), ENOSYS) << what;
  }
}

int set_option(int type, int level, int name) {
  const int socket = ::socket(AF_INET, type | SOCK_CLOEXEC, 0);
  constexpr int kOne = 1;
  return error_of(::setsockopt(socket, level, name, &kOne, sizeof kOne) == 0);
}

TEST(Seccomp, SocketOptionsAreThoseOfDownloadsAndServers) {
  if (!sandbox::has_seccomp()) GTEST_SKIP() << "the kernel has no seccomp filters";
  const auto nodelay = [] { return set_option(SOCK_STREAM, IPPROTO_TCP, TCP_NODELAY); };
  const auto keep = [] { return set_option(SOCK_STREAM, SOL_SOCKET, SO_KEEPALIVE); };
  EXPECT_EQ(in_filter(nodelay, kDownloads), 0);
  EXPECT_EQ(in_filter(keep, kDownloads), 0);
  for (const int name : {SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_BINDTODEVICE, SO_MARK, SO_REUSEPORT, SO_SNDBUFFORCE})
    EXPECT_EQ(in_filter([&] { return set_option(SOCK_STREAM, SOL_SOCKET, name); }, kDownloads), ENOSYS) << name;
  EXPECT_EQ(in_filter([] { return set_option(SOCK_DGRAM, IPPROTO_UDP, 100); }, kDownloads), ENOSYS) << "UDP_ENCAP";
  EXPECT_EQ(in_filter([] { return set_option(SOCK_STREAM, IPPROTO_TCP, TCP_ULP); }, kDownloads), ENOSYS);
  // Without the network a socket that listens is the only one of TCP.
  const int pair = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto set_on_pair = [&](int level, int name) {
    constexpr int kOne = 1;
    return error_of(::setsockopt(pair, level, name, &kOne, sizeof kOne) == 0);
  };
  EXPECT_EQ(in_filter([&] { return set_on_pair(IPPROTO_TCP, TCP_NODELAY); }, kServes), 0);
  EXPECT_EQ(in_filter([&] { return set_on_pair(SOL_SOCKET, SO_KEEPALIVE); }, kServes), ENOSYS);
  EXPECT_EQ(in_filter([&] { return set_on_pair(IPPROTO_TCP, TCP_NODELAY); }), EPERM);
  ::close(pair);
}

TEST(Seccomp, OpenFilesArePassedToBrokersOnly) {
  if (!sandbox::has_seccomp()) GTEST_SKIP() << "the kernel has no seccomp filters";
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const auto pass = [&] { return error_of(send_message(ends[0], "file", ends[1])); };
  const auto send = [&] { return error_of(send_message(ends[0], "text")); };
  EXPECT_EQ(in_filter(pass), EPERM);
  EXPECT_EQ(in_filter(pass, kServes), EPERM);
  EXPECT_EQ(in_filter(pass, {.passes_files = true}), 0);
  EXPECT_EQ(in_filter(send), 0);
  for (const int end : ends) ::close(end);
}

}  // namespace
}  // namespace weightfs::seccomp_test
