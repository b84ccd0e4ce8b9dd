// The sockets that an HTTP server listens on. They are opened before the sandbox is entered.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/os/descriptor.h"
#include "base/result.h"

namespace weightfs {

/// A socket that listens.
struct Listening {
  Descriptor socket;
  std::string url;             ///< "http://127.0.0.1:8421/", with the port that the kernel has picked; "unix:/path"
  std::string host = {};       ///< its address or name, as in Host; empty for a local socket
  bool is_loopback = true;     ///< only this machine can connect
  bool is_any = false;         ///< it listens on all addresses
  ino_t inode = 0;             ///< of a local socket that this process has made
  bool has_directory = false;  ///< this process has also made the directory of the socket
};

/// Removes the local socket of a URL, unless it is another one by now, and its directory if this process has made it.
void remove_socket(const Listening& listening);

/// The address where `weightfs serve` listens by default.
inline constexpr const char* kDefaultListen = "127.0.0.1:8421";

/// Opens sockets for ADDRESS:PORT (`localhost:0`, `[::1]:8421`, `:8421` for all addresses), unix:PATH, or `systemd`:
/// those that the service manager passed (sd_listen_fds(3)). `scheme` is the scheme of the URLs. A path that is a
/// socket without a server is replaced; a missing directory is made, for this user only. Fails with unsupported for
/// other texts, and with io.
Result<std::vector<Listening>> listen_on(const std::string& where, const std::string& scheme);

}  // namespace weightfs
