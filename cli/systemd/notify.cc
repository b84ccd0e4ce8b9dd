#include "cli/systemd/notify.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <string_view>
#include <tuple>

#include "base/os/system_error.h"
#include "base/os/unix_socket.h"
#include "base/text.h"

namespace weightfs::service {
namespace {

constexpr int kBarrierTimeoutMs = 5'000;
constexpr int kFirstPassed = 3;  // SD_LISTEN_FDS_START of sd_listen_fds(3)

// The address of the service manager's socket ($NOTIFY_SOCKET, sd_notify(3)): a path, or the name of an abstract socket
// after `@`. Nothing without a manager.
struct ManagerAddress {
  sockaddr_un name;
  socklen_t size;
};
std::optional<ManagerAddress> manager_address() {
  const std::string path = environment("NOTIFY_SOCKET");
  const bool is_abstract = path.starts_with('@');
  auto name = unix_address(path);
  if (!name || !(is_abstract || path.starts_with('/'))) return std::nullopt;
  if (is_abstract) name->sun_path[0] = '\0';
  // The name of an abstract socket has no end but its length.
  return ManagerAddress{*name,
                        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (is_abstract ? 0 : 1))};
}

Descriptor datagram_socket() { return Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

// Sends lines and a descriptor to the manager, which gets a duplicate of it (sd_pid_notify_with_fds(3)).
Result<void> send_descriptor(const ManagerAddress& manager, std::string_view lines, int descriptor) {
  const Descriptor socket = datagram_socket();
  const bool is_sent =
      ::connect(socket.number(), reinterpret_cast<const sockaddr*>(&manager.name), manager.size) == 0 &&
      send_message(socket.number(), lines, descriptor);
  return is_sent ? Result<void>() : failure(io_error("the service manager refused the descriptor"));
}

// Waits until the manager has processed all notifications (sd_notify_barrier(3)): it closes the descriptor that it gets
// with this one. Returns at once without a manager.
void wait_for_manager() {
  const auto manager = manager_address();
  std::array<int, 2> ends{};
  if (!manager || ::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  const Descriptor received(ends[0]);
  {
    const Descriptor sent(ends[1]);
    if (!send_descriptor(*manager, "BARRIER=1", sent.number())) return;
  }
  pollfd closed{received.number(), 0, 0};  // POLLHUP always counts
  while (::poll(&closed, 1, kBarrierTimeoutMs) < 0 && errno == EINTR) continue;
}

// How many descriptors were passed to this process ($LISTEN_PID, $LISTEN_FDS), from kFirstPassed on. 0 if one of them
// is not open. Programs that are executed will not inherit them.
int passed_count() {
  if (parse_number<pid_t>(environment("LISTEN_PID")) != ::getpid()) return 0;
  const int count = parse_number<int>(environment("LISTEN_FDS")).value_or(0);
  for (int i = 0; i < count; ++i) {
    const int flags = ::fcntl(kFirstPassed + i, F_GETFD);  // ends the loop at a descriptor that is not open
    if (flags < 0 || ::fcntl(kFirstPassed + i, F_SETFD, flags | FD_CLOEXEC) < 0) return 0;
  }
  return std::max(count, 0);
}

// Returns the same count, to one caller: children do not get the variables.
int take_passed() {
  const int count = passed_count();
  for (const char* const name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(name);
  return count;
}

int socket_option(int descriptor, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(descriptor, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

}  // namespace

// As sd_notify(3), which calls sendmsg(2): the sandbox does not permit that.
void notify(const std::string& lines) {
  const auto manager = manager_address();
  if (!manager) return;
  std::ignore = ::sendto(datagram_socket().number(), lines.data(), lines.size(), MSG_NOSIGNAL,
                         reinterpret_cast<const sockaddr*>(&manager->name), manager->size);
}

void notify_reloading() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  notify(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1'000'000 + now.tv_nsec / 1'000));
}

Result<void> keep_descriptor(int descriptor, const std::string& name) {
  const auto manager = manager_address();
  if (!manager)
    return failure(Code::io,
                   "no service manager ($NOTIFY_SOCKET is not set); this command is for "
                   "ExecStartPre= of a service");
  TRY_VOID(send_descriptor(*manager, fmt::format("FDSTORE=1\nFDNAME={}", name), descriptor));
  wait_for_manager();
  return {};
}

void forget_descriptor(const std::string& name) {
  notify(fmt::format("FDSTOREREMOVE=1\nFDNAME={}", name));
  wait_for_manager();
}

std::vector<int> passed_descriptors() {
  std::vector<int> passed;
  for (int i = 0, count = passed_count(); i < count; ++i) passed.push_back(kFirstPassed + i);
  return passed;
}

// $LISTEN_FDNAMES has the names, separated by colons; it is set if a name was given.
std::optional<int> kept_descriptor(const std::string& name) {
  std::istringstream all(environment("LISTEN_FDNAMES") + ':');  // so that an empty last name counts
  std::vector<std::string> names;
  for (std::string each; std::getline(all, each, ':');) names.push_back(each);
  const auto count = static_cast<size_t>(take_passed());
  if (names.size() != count) names.assign(count, "");
  std::optional<int> found;
  for (size_t i = 0; i < count; ++i) {
    const int descriptor = kFirstPassed + static_cast<int>(i);
    if (!found && name == names[i])
      found = descriptor;
    else
      ::close(descriptor);
  }
  return found;
}

std::optional<int> accepted_connection() {
  const auto passed = kept_descriptor("connection");  // systemd.socket(5), FileDescriptorName=
  const bool is_connected = passed && socket_option(*passed, SO_DOMAIN) == AF_UNIX &&
                            socket_option(*passed, SO_TYPE) == SOCK_SEQPACKET &&
                            socket_option(*passed, SO_ACCEPTCONN) == 0;
  return is_connected ? passed : std::nullopt;
}

std::vector<int> listening_descriptors() {
  std::vector<int> listening;
  for (int i = 0, count = take_passed(); i < count; ++i) {
    const int descriptor = kFirstPassed + i;
    if (socket_option(descriptor, SO_TYPE) == SOCK_STREAM && socket_option(descriptor, SO_ACCEPTCONN) == 1)
      listening.push_back(descriptor);
    else
      ::close(descriptor);
  }
  return listening;
}

// $WATCHDOG_PID is absent, or this process (sd_watchdog_enabled(3)).
std::optional<std::chrono::microseconds> watchdog_limit() {
  const std::string process = environment("WATCHDOG_PID");
  const auto limit = parse_number<uint64_t>(environment("WATCHDOG_USEC"));
  const bool is_this = process.empty() || parse_number<pid_t>(process) == ::getpid();
  const auto most = static_cast<uint64_t>(std::chrono::microseconds::max().count());
  if (!is_this || limit.value_or(0) == 0 || *limit > most) return std::nullopt;
  return std::chrono::microseconds(*limit);
}

}  // namespace weightfs::service
