#include "cli/systemd/notify.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "base/os/descriptor.h"
#include "base/os/unix_socket.h"
#include "tests/support/temporary.h"

namespace weightfs::notify_test {
namespace {

using std::chrono::microseconds;

// A service manager whose socket is a path, or has an abstract name.
class Manager {
 public:
  explicit Manager(bool is_abstract = false) : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const std::string name = is_abstract ? fmt::format("@weightfs-test-{}", ::getpid()) : folder_.path("notify");
    auto address = unix_address(name);
    if (is_abstract) address->sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (is_abstract ? 0 : 1));
    EXPECT_EQ(::bind(socket_.number(), reinterpret_cast<const sockaddr*>(&*address), size), 0);
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() { ::unsetenv("NOTIFY_SOCKET"); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  SocketMessage next() const { return receive_message(socket_.number(), 1000); }
  bool has_next() const {
    char byte = 0;
    return ::recv(socket_.number(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
  }

 private:
  TemporaryDirectory folder_;
  Descriptor socket_;
};

TEST(Notify, LinesArrive) {
  for (const bool is_abstract : {false, true}) {
    const Manager manager(is_abstract);
    service::notify("READY=1\nSTATUS=mounted");
    EXPECT_EQ(manager.next().bytes, "READY=1\nSTATUS=mounted");
  }
}

TEST(Notify, NothingHappensWithoutAManager) {
  for (const char* const name : {"", "relative", "vsock:2:1", "/does/not/exist"}) {
    ::setenv("NOTIFY_SOCKET", name, 1);
    service::notify("READY=1");
    service::forget_descriptor("device");
  }
  ::setenv("NOTIFY_SOCKET", std::string(200, '/').c_str(), 1);
  service::notify("READY=1");
  ::unsetenv("NOTIFY_SOCKET");
  EXPECT_FALSE(service::keep_descriptor(STDIN_FILENO, "device"));
}

TEST(Notify, DescriptorIsStoredBeforeTheCallReturns) {
  const Manager manager;
  const Descriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::atomic<bool> has_returned = false;
  std::thread caller([&] {
    EXPECT_TRUE(service::keep_descriptor(file.number(), "device"));
    has_returned = true;
  });
  const SocketMessage stored = manager.next();
  EXPECT_EQ(stored.bytes, "FDSTORE=1\nFDNAME=device");
  EXPECT_GE(stored.descriptor.number(), 0);
  {
    const SocketMessage barrier = manager.next();
    EXPECT_EQ(barrier.bytes, "BARRIER=1");
    EXPECT_GE(barrier.descriptor.number(), 0);
    EXPECT_FALSE(has_returned);  // only after the descriptor of the barrier is closed
  }
  caller.join();
  EXPECT_TRUE(has_returned);
  EXPECT_FALSE(manager.has_next());
}

TEST(Notify, RefusedDescriptorIsAnError) {
  { const Manager gone; }
  ::setenv("NOTIFY_SOCKET", "/does/not/exist", 1);
  EXPECT_FALSE(service::keep_descriptor(STDIN_FILENO, "device"));
  ::unsetenv("NOTIFY_SOCKET");
}

TEST(Watchdog, LimitIsThatOfThisProcess) {
  const std::string self = std::to_string(::getpid());
  const auto limit_with = [](const char* usec, const char* process) {
    ::setenv("WATCHDOG_USEC", usec, 1);
    process != nullptr ? ::setenv("WATCHDOG_PID", process, 1) : ::unsetenv("WATCHDOG_PID");
    const auto limit = service::watchdog_limit();
    ::unsetenv("WATCHDOG_USEC");
    ::unsetenv("WATCHDOG_PID");
    return limit;
  };
  EXPECT_EQ(limit_with("3000000", self.c_str()), microseconds(3'000'000));
  EXPECT_EQ(limit_with("3000000", nullptr), microseconds(3'000'000));
  EXPECT_EQ(limit_with("3000000", "1"), std::nullopt);
  EXPECT_EQ(limit_with("3000000", "x"), std::nullopt);
  for (const char* const wrong : {"", "0", "-1", "3s", "18446744073709551615", "18446744073709551616"})
    EXPECT_EQ(limit_with(wrong, nullptr), std::nullopt) << wrong;
  EXPECT_EQ(service::watchdog_limit(), std::nullopt);
}

// Runs in a child, whose descriptors from 3 on are those passed.
class Passed : public testing::Test {
 protected:
  // Makes `type` sockets 3 and 4, the first of which listens, and sets the variables.
  static void pass(int type, const char* count, const char* names) {
    for (const int number : {3, 4}) {
      const int made = ::socket(AF_UNIX, type, 0);
      if (made == number) continue;
      ::dup2(made, number);
      ::close(made);
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;  // without a name, the kernel finds one
    ::bind(3, reinterpret_cast<const sockaddr*>(&address), sizeof(sa_family_t));
    ::listen(3, 1);
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", count, 1);
    names != nullptr ? ::setenv("LISTEN_FDNAMES", names, 1) : ::unsetenv("LISTEN_FDNAMES");
  }
  static bool is_open(int number) { return ::fcntl(number, F_GETFD) >= 0; }
  static bool is_inherited(int number) { return (::fcntl(number, F_GETFD) & FD_CLOEXEC) == 0; }

  // Whether a check holds in a child.
  static bool holds(const std::function<bool()>& check) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(check() ? 0 : 1);
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status == 0;
  }
};

TEST_F(Passed, AreFoundByName) {
  EXPECT_TRUE(holds([] {
    pass(SOCK_STREAM, "2", "first:second");
    const bool both = service::passed_descriptors() == std::vector{3, 4};
    return both && service::kept_descriptor("second") == 4 && !is_open(3) && !is_inherited(4) &&
           ::getenv("LISTEN_FDS") == nullptr && service::passed_descriptors().empty();
  }));
}

TEST_F(Passed, EmptyLastNameCounts) {
  EXPECT_TRUE(holds([] {
    pass(SOCK_STREAM, "2", "first:");
    return service::kept_descriptor("first") == 3 && !is_open(4);
  }));
}

TEST_F(Passed, WithoutNamesAreClosed) {
  for (const char* const names : {"", "device", "a:b:device"}) {
    EXPECT_TRUE(holds([&] {
      pass(SOCK_STREAM, "2", names);
      return !service::kept_descriptor("device") && !is_open(3) && !is_open(4);
    })) << names;
  }
}

TEST_F(Passed, ListeningSocketsAreKept) {
  EXPECT_TRUE(holds([] {
    pass(SOCK_STREAM, "2", nullptr);
    return service::listening_descriptors() == std::vector{3} && is_open(3) && !is_open(4);
  }));
}

TEST_F(Passed, ConnectionIsNoListeningSocket) {
  const auto connection = [](int type, const char* names) {
    return holds([&] {
      pass(type, "2", names);
      return service::accepted_connection() == 4;
    });
  };
  EXPECT_TRUE(connection(SOCK_SEQPACKET, "other:connection"));
  EXPECT_FALSE(connection(SOCK_SEQPACKET, "connection:other"));
  EXPECT_FALSE(connection(SOCK_STREAM, "other:connection"));
}

TEST_F(Passed, WrongCountsAreNone) {
  for (const char* const count : {"", "0", "-1", "x", "2147483647", "4294967298", "1000000"}) {
    EXPECT_TRUE(holds([&] {
      pass(SOCK_STREAM, count, nullptr);
      return service::passed_descriptors().empty() && is_open(3);
    })) << count;
  }
}

TEST_F(Passed, ThoseOfAnotherProcessAreNone) {
  for (const char* const process : {"1", "", "self"}) {
    EXPECT_TRUE(holds([&] {
      pass(SOCK_STREAM, "2", nullptr);
      ::setenv("LISTEN_PID", process, 1);
      return service::passed_descriptors().empty() && is_inherited(3);
    })) << process;
  }
}

}  // namespace
}  // namespace weightfs::notify_test
