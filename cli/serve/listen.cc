#include "cli/serve/listen.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "base/os/system_error.h"
#include "base/os/unix_socket.h"
#include "base/text.h"
#include "cli/systemd/notify.h"

namespace weightfs {
namespace {

constexpr int kBacklog = 1024;

// HOST:PORT, where HOST may be empty or an IPv6 address in brackets; or PORT alone, of this machine only.
struct HostAndPort {
  std::string host;
  std::string port;
};

Result<HostAndPort> split(const std::string& where) {
  const auto at_port = [&](const std::string& host, const std::string& port) -> Result<HostAndPort> {
    if (parse_number<uint16_t>(port)) return HostAndPort{host, port};
    return failure(Code::unsupported,
                   fmt::format("--listen {}: not a valid port; ports are 0 to 65535", printable(where)));
  };
  if (!where.empty() && where.find_first_not_of("0123456789") == where.npos) return at_port("127.0.0.1", where);
  const size_t colon = where.rfind(':');
  const bool is_bracketed = where.starts_with('[');
  if (colon == where.npos || (is_bracketed && (colon == 0 || where[colon - 1] != ']')) ||
      (!is_bracketed && where.find(':') != colon))
    return failure(Code::unsupported,
                   fmt::format("--listen {}: not PORT, ADDRESS:PORT, unix:PATH or systemd", printable(where)));
  std::string host = where.substr(0, colon);
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  return at_port(host, where.substr(colon + 1));
}

// What the socket is bound to.
Result<Listening> described(Descriptor socket, const std::string& scheme) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return failure(io_error("the socket"));
  Listening listening{std::move(socket), ""};
  if (address.ss_family == AF_UNIX) {
    listening.url = fmt::format("unix:{}", reinterpret_cast<const sockaddr_un&>(address).sun_path);
    return listening;
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  unsigned port = 0;
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    listening.is_loopback = ntohl(v4.sin_addr.s_addr) >> 24 == 127;
    listening.is_any = v4.sin_addr.s_addr == INADDR_ANY;
    port = ntohs(v4.sin_port);
  } else {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    listening.is_loopback = IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0;
    listening.is_any = IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr) != 0;
    port = ntohs(v6.sin6_port);
  }
  listening.host = text.data();
  const bool is_v6 = address.ss_family == AF_INET6;
  listening.url = fmt::format("{}://{}{}{}:{}/", scheme, is_v6 ? "[" : "", listening.host, is_v6 ? "]" : "", port);
  return listening;
}

Result<std::vector<Listening>> one(Result<Listening> listening) {
  std::vector<Listening> all;
  all.push_back(TRY(std::move(listening)));
  return all;
}

Result<std::vector<Listening>> listen_on_tcp(const std::string& where, const std::string& scheme) {
  const HostAndPort at = TRY(split(where));
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(at.host.empty() ? nullptr : at.host.c_str(), at.port.c_str(), &hints, &found);
  if (error != 0) return failure(Code::io, fmt::format("--listen {}: {}", printable(where), ::gai_strerror(error)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, ::freeaddrinfo);
  int failed = 0;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    Descriptor socket(::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int yes = 1;
    ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (::bind(socket.number(), each->ai_addr, each->ai_addrlen) == 0 && ::listen(socket.number(), kBacklog) == 0)
      return one(described(std::move(socket), scheme));
    failed = errno;
  }
  return failure(Code::io, fmt::format("--listen {}: {}{}", printable(where), errno_text(failed),
                                       failed == EADDRINUSE ? "; another program has this port" : ""));
}

bool has_server(const sockaddr_un& address) {
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::connect(probe.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

std::string directory_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

Result<std::vector<Listening>> listen_on_path(const std::string& path) {
  const sockaddr_un address = TRY(unix_address(path));
  struct stat there {};
  if (::lstat(path.c_str(), &there) == 0 && S_ISSOCK(there.st_mode) && !has_server(address)) ::unlink(path.c_str());
  const bool has_directory = path.find('/') != path.npos && ::mkdir(directory_of(path).c_str(), S_IRWXU) == 0;
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (::bind(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.number(), kBacklog) != 0) {
    auto failed = failure(io_error(path));
    if (has_directory) ::rmdir(directory_of(path).c_str());
    return failed;
  }
  auto made = TRY(one(described(std::move(socket), "")));
  // The process may change its directory.
  made.front().url = "unix:" + std::filesystem::absolute(path).string();
  if (::lstat(path.c_str(), &there) == 0) made.front().inode = there.st_ino;
  made.front().has_directory = has_directory;
  return made;
}

Result<std::vector<Listening>> passed_by_systemd(const std::string& scheme) {
  std::vector<Listening> all;
  for (const int number : service::listening_descriptors()) {
    Descriptor socket(number);
    ::fcntl(number, F_SETFL, ::fcntl(number, F_GETFL) | O_NONBLOCK);
    all.push_back(TRY(described(std::move(socket), scheme)));
  }
  if (!all.empty()) return all;
  return failure(Code::io, "--listen systemd: the service manager has passed no socket; use a .socket unit");
}

}  // namespace

void remove_socket(const Listening& listening) {
  const std::string path = listening.url.substr(listening.url.find(':') + 1);
  struct stat there {};
  if (listening.inode != 0 && ::lstat(path.c_str(), &there) == 0 && there.st_ino == listening.inode)
    ::unlink(path.c_str());
  if (listening.has_directory) ::rmdir(directory_of(path).c_str());
}

Result<std::vector<Listening>> listen_on(const std::string& where, const std::string& scheme) {
  if (where == "systemd") return passed_by_systemd(scheme);
  constexpr std::string_view kUnix = "unix:";
  if (where.starts_with(kUnix)) return listen_on_path(where.substr(kUnix.size()));
  return listen_on_tcp(where, scheme);
}

}  // namespace weightfs
