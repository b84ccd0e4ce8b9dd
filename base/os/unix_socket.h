// Local sockets (unix(7)): their addresses, and messages that pass an open file descriptor.
#pragma once

#include <sys/un.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "base/os/descriptor.h"
#include "base/result.h"

namespace weightfs {

/// The address of a socket file. Fails with io if the path is too long.
Result<sockaddr_un> unix_address(const std::string& path);

/// Bytes, with at most one descriptor.
struct SocketMessage {
  std::string bytes;
  Descriptor descriptor = Descriptor();
};

/// Sends `bytes`, which must not be empty, and `descriptor` unless it is negative. False if the other end is closed, or
/// the socket's timeout has passed.
bool send_message(int socket, std::string_view bytes, int descriptor = -1);

/// Receives up to `max_bytes` and at most one descriptor, which programs that are executed do not inherit. No bytes:
/// the other end is closed, or the socket's timeout has passed.
SocketMessage receive_message(int socket, size_t max_bytes);

}  // namespace weightfs
