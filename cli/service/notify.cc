#include "cli/service/notify.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <tuple>

#include "base/os/system_error.h"
#include "base/text.h"
#include "cli/process/unix_socket.h"

namespace weightfs::service {
namespace {

constexpr uint64_t kBarrierTimeoutUs = 5'000'000;

// Waits until the manager has processed all notifications; returns at once without a manager.
void wait_for_manager() { ::sd_notify_barrier(0, kBarrierTimeoutUs); }

}  // namespace

// As sd_notify(3), which calls sendmsg(2): the sandbox does not permit that.
void notify(const std::string& lines) {
  const std::string path = environment("NOTIFY_SOCKET");
  const bool is_abstract = path.starts_with('@');
  auto address = unix_address(path);
  if (!address || !(is_abstract || path.starts_with('/'))) return;
  if (is_abstract) address->sun_path[0] = '\0';
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // The name of an abstract socket has no end but its length.
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (is_abstract ? 0 : 1));
  std::ignore = ::sendto(socket.number(), lines.data(), lines.size(), MSG_NOSIGNAL,
                         reinterpret_cast<const sockaddr*>(&*address), size);
}

void notify_reloading() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  notify(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1'000'000 + now.tv_nsec / 1'000));
}

Result<void> keep_descriptor(int descriptor, const std::string& name) {
  const std::string lines = fmt::format("FDSTORE=1\nFDNAME={}", name);
  const int sent = ::sd_pid_notify_with_fds(0, 0, lines.c_str(), &descriptor, 1);
  if (sent == 0)
    return failure(Code::io,
                   "no service manager ($NOTIFY_SOCKET is not set); this command is for "
                   "ExecStartPre= of a service");
  if (sent < 0) return failure(io_error("the service manager refused the descriptor", -sent));
  wait_for_manager();
  return {};
}

void forget_descriptor(const std::string& name) {
  notify(fmt::format("FDSTOREREMOVE=1\nFDNAME={}", name));
  wait_for_manager();
}

std::vector<int> passed_descriptors() {
  std::vector<int> passed;
  for (int i = 0, count = ::sd_listen_fds(0); i < count; ++i) passed.push_back(SD_LISTEN_FDS_START + i);
  return passed;
}

std::optional<int> kept_descriptor(const std::string& name) {
  char** names = nullptr;
  const int count = ::sd_listen_fds_with_names(1, &names);
  std::optional<int> found;
  for (int i = 0; i < count; ++i) {
    const int descriptor = SD_LISTEN_FDS_START + i;
    if (!found && name == names[i])
      found = descriptor;
    else
      ::close(descriptor);
    std::free(names[i]);
  }
  std::free(names);
  return found;
}

std::optional<int> accepted_connection() {
  const auto passed = kept_descriptor("connection");  // sd_listen_fds_with_names(3)
  const bool is_connected = passed && ::sd_is_socket(*passed, AF_UNIX, SOCK_SEQPACKET, 0) > 0;
  return is_connected ? passed : std::nullopt;
}

std::vector<int> listening_descriptors() {
  std::vector<int> listening;
  for (int i = 0, count = ::sd_listen_fds(1); i < count; ++i) {
    const int descriptor = SD_LISTEN_FDS_START + i;
    if (::sd_is_socket(descriptor, AF_UNSPEC, SOCK_STREAM, 1) > 0)
      listening.push_back(descriptor);
    else
      ::close(descriptor);
  }
  return listening;
}

std::optional<std::chrono::microseconds> watchdog_limit() {
  uint64_t limit = 0;
  if (::sd_watchdog_enabled(0, &limit) <= 0) return std::nullopt;
  return std::chrono::microseconds(limit);
}

}  // namespace weightfs::service
