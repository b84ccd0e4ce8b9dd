#include "base/os/unix_socket.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/text.h"

namespace weightfs {
namespace {

// A header with space for one descriptor.
struct Header {
  explicit Header(iovec& bytes) {
    header.msg_iov = &bytes;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    // CMSG_SPACE has padding with space for a second descriptor, which the kernel would fill.
    header.msg_controllen = CMSG_LEN(sizeof(int));
  }
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
};

}  // namespace

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return failure(Code::io, fmt::format("{}: path too long for a socket", printable(path)));
  std::memcpy(&address.sun_path[0], path.c_str(), path.size() + 1);
  return address;
}

bool send_message(int socket, std::string_view bytes, int descriptor) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  Header message(part);
  if (descriptor >= 0) {
    cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
  }
  ssize_t sent = 0;
  // The sandbox permits sendmsg(2) only where descriptors are passed.
  do
    sent = descriptor < 0 ? ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL)
                          : ::sendmsg(socket, &message.header, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

SocketMessage receive_message(int socket, size_t max_bytes) {
  SocketMessage received{std::string(max_bytes, '\0')};
  iovec part{received.bytes.data(), received.bytes.size()};
  Header message(part);
  ssize_t got = 0;
  do got = ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  received.bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  const cmsghdr* const control = got > 0 ? CMSG_FIRSTHDR(&message.header) : nullptr;
  if (control != nullptr && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS &&
      control->cmsg_len == CMSG_LEN(sizeof(int))) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(control), sizeof number);
    received.descriptor = Descriptor(number);
  }
  return received;
}

}  // namespace weightfs
