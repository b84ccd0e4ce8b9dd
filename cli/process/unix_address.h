// Addresses of local sockets (unix(7)).
#pragma once

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>

#include "base/result.h"
#include "base/text.h"

namespace weightfs {

/// The address of a socket file. Fails with io if the path is too long.
inline Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return failure(Code::io, fmt::format("{}: path too long for a socket", printable(path)));
  std::memcpy(&address.sun_path[0], path.c_str(), path.size() + 1);
  return address;
}

}  // namespace weightfs
