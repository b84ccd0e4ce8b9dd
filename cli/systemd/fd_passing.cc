#include "cli/systemd/fd_passing.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "base/os/system_error.h"
#include "base/os/unix_socket.h"
#include "base/text.h"

namespace weightfs::service {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kMessageTimeout = std::chrono::seconds(15);

// TimeoutStartSec= of the service, which may wait for the network or for its previous instance.
constexpr milliseconds kStartTimeout = std::chrono::minutes(5);

std::string path_of(const std::string& name) { return fmt::format("{}/{}.offer", runtime_directory(), name); }

bool can_be_read(const Descriptor& socket) {
  pollfd ready{socket.number(), POLLIN, 0};
  return ::poll(&ready, 1, static_cast<int>(kMessageTimeout.count())) == 1;
}

// Whether a receiver connects before the start ends or times out.
bool wait_for_receiver(const Descriptor& socket, const ChildProcess& start) {
  std::array<pollfd, 2> news{{{socket.number(), POLLIN, 0}, {start.end(), POLLIN, 0}}};
  return ::poll(news.data(), news.size(), static_cast<int>(kStartTimeout.count())) > 0 && news[0].revents != 0;
}

std::string lock_of(const std::string& path) { return path + ".lock"; }

// The holder of a lock removes its file, so a lock on a removed file does not count.
Result<Descriptor> lock(const std::string& path) {
  for (;;) {
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return failure(io_error(path));
    if (::flock(file.number(), LOCK_EX | LOCK_NB) != 0)
      return errno == EWOULDBLOCK ? failure(Code::io, "already being mounted by another process")
                                  : failure(io_error(path));
    struct stat held {};
    struct stat there {};
    if (::fstat(file.number(), &held) == 0 && ::stat(path.c_str(), &there) == 0 && held.st_ino == there.st_ino)
      return file;
  }
}

// A message of one byte, which may have a descriptor; empty after a timeout.
SocketMessage receive(const Descriptor& socket) {
  return can_be_read(socket) ? receive_message(socket.number(), 1) : SocketMessage{};
}

Descriptor new_socket() { return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

// Nothing if there is no sender.
Result<std::optional<Descriptor>> connect_to_sender(const std::string& path) {
  const sockaddr_un address = TRY(unix_address(path));
  Descriptor socket = new_socket();
  if (::connect(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return std::optional(std::move(socket));
  if (errno == ENOENT || errno == ECONNREFUSED) return std::nullopt;
  return failure(io_error(path));
}

}  // namespace

std::string runtime_directory() {
  if (const char* directory = std::getenv("RUNTIME_DIRECTORY")) return directory;
  const char* users = ::geteuid() == 0 ? nullptr : std::getenv("XDG_RUNTIME_DIR");
  return fmt::format("{}/weightfs", users == nullptr ? "/run" : users);
}

std::string broker_path() { return runtime_directory() + "-passthrough.sock"; }

Result<FdSender> FdSender::listen(const std::string& name) {
  const std::string path = path_of(name);
  const sockaddr_un address = TRY(unix_address(path));
  std::error_code error;
  std::filesystem::create_directories(runtime_directory(), error);
  FdSender sender(TRY(lock(lock_of(path))), path);
  ::unlink(path.c_str());               // left by a killed sender
  const mode_t before = ::umask(0077);  // only this user may connect
  const bool bound = ::bind(sender.socket_.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::umask(before);
  if (!bound || ::listen(sender.socket_.number(), 1) != 0) return failure(io_error(path));
  return sender;
}

FdSender::FdSender(Descriptor lock, std::string path)
    : lock_(std::move(lock)), socket_(new_socket()), path_(std::move(path)) {}

FdSender::~FdSender() {
  if (!lock_) return;
  ::unlink(path_.c_str());
  ::unlink(lock_of(path_).c_str());
}

Result<void> FdSender::send(const std::function<Result<Descriptor>()>& make, const ChildProcess& start) {
  if (!wait_for_receiver(socket_, start))
    return failure(Code::io, "start failed or timed out before the service requested the mount");
  const Descriptor receiver(::accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!receiver) return failure(io_error("the service disconnected"));
  const Descriptor descriptor = TRY(make());
  // A receiver that dies before it reads the message loses the descriptor, hence the acknowledgement.
  if (send_message(receiver.number(), "d", descriptor.number()) && !receive(receiver).bytes.empty()) return {};
  return failure(Code::io, "the service did not accept the mount");
}

Result<std::optional<Descriptor>> receive_fd(const std::string& name, ReceiveWait when) {
  const auto end = std::chrono::steady_clock::now() + (when == ReceiveWait::none ? milliseconds(0) : kMessageTimeout);
  for (;;) {
    if (const auto socket = TRY(connect_to_sender(path_of(name)))) {
      Descriptor descriptor = receive(*socket).descriptor;
      if (!descriptor) return failure(Code::io, "no mount received");
      send_message(socket->number(), "t");
      return std::optional(std::move(descriptor));
    }
    if (std::chrono::steady_clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(milliseconds(20));
  }
}

}  // namespace weightfs::service
