#include "cli/sandbox/broker.h"

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>

#include "base/os/system_error.h"
#include "base/os/unix_socket.h"
#include "base/text.h"
#include "cli/process/child_process.h"

namespace weightfs::sandbox {
namespace {

// A service manager that has accepted the connection may still be starting the broker.
constexpr timeval kTimeout{30, 0};

Error error_of(const char* what) { return io_error(fmt::format("the broker process: {}", what)); }

// A terminal sends these signals to the whole process group; they are intended for the confined process.
void ignore_signals() {
  for (const int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE}) std::signal(number, SIG_IGN);
}

}  // namespace

void Broker::serve(int socket, const Handler& handler, const std::function<void()>& prepare, std::vector<int> kept) {
  ignore_signals();
  ::prctl(PR_SET_NAME, "weightfs-broker");
  kept.push_back(socket);
  close_all_but(std::move(kept));
  (void)!::chdir("/");
  prepare();
  for (;;) {
    SocketMessage request = receive_message(socket, kMaxBrokerMessage);
    if (request.bytes.empty()) break;
    BrokerReply reply;
    try {
      reply = handler({request.bytes[0], std::string_view(request.bytes).substr(1), std::move(request.descriptor)});
    } catch (const std::exception& error) {
      reply = {-1, error.what()};
    }
    std::string bytes(sizeof reply.status, '\0');
    std::memcpy(bytes.data(), &reply.status, sizeof reply.status);
    bytes += reply.text.substr(0, kMaxBrokerMessage - bytes.size());
    if (!send_message(socket, bytes, reply.descriptor.number())) break;
  }
  try {
    handler({kEnd});
  } catch (const std::exception&) {
    std::_Exit(1);
  }
  std::_Exit(0);
}

Result<std::unique_ptr<Broker>> Broker::start(const Handler& handler, const std::function<void()>& prepare,
                                              std::vector<int> kept) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return tl::unexpected(error_of("no socket"));
  Descriptor ours(ends[0]);
  const Descriptor theirs(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return tl::unexpected(error_of("cannot start"));
  if (child == 0) serve(theirs.number(), handler, prepare, std::move(kept));
  return std::unique_ptr<Broker>(new Broker(std::move(ours), child));
}

Result<std::unique_ptr<Broker>> Broker::connect(const std::string& path) {
  const sockaddr_un address = TRY(unix_address(path));
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return tl::unexpected(error_of("no socket"));
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO})
    ::setsockopt(socket.number(), SOL_SOCKET, option, &kTimeout, sizeof kTimeout);
  if (::connect(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return failure(io_error(printable(path)));
  return std::unique_ptr<Broker>(new Broker(std::move(socket), 0));
}

Broker::~Broker() {
  socket_ = Descriptor();
  while (process_ != 0 && ::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<BrokerReply> Broker::ask(char request, std::string_view argument) const {
  return exchange(fmt::format("{}{}", request, argument), -1);
}

Result<BrokerReply> Broker::ask(char request, int descriptor) const { return exchange({request}, descriptor); }

Result<BrokerReply> Broker::exchange(const std::string& request, int descriptor) const {
  const std::scoped_lock lock(mutex_);
  if (!send_message(socket_.number(), request.substr(0, kMaxBrokerMessage), descriptor))
    return tl::unexpected(error_of("exited"));
  SocketMessage reply = receive_message(socket_.number(), kMaxBrokerMessage);
  BrokerReply read;
  if (reply.bytes.size() < sizeof read.status) {
    // A late reply must not be taken for the reply to the next request.
    ::shutdown(socket_.number(), SHUT_RDWR);
    return failure(Code::io, "the broker process exited");
  }
  std::memcpy(&read.status, reply.bytes.data(), sizeof read.status);
  read.text = reply.bytes.substr(sizeof read.status);
  read.descriptor = std::move(reply.descriptor);
  return read;
}

}  // namespace weightfs::sandbox
