#include "formats/common/compromise.h"

#include "base/os/system_error.h"

#ifdef WEIGHTFS_TEST_HOOKS

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <utility>

namespace weightfs {
namespace {

bool open_for(const std::string& path, int flags) {
  const int file = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
  return file >= 0;
}

bool run(const std::string& path) {
  std::string word = path;
  std::array<char*, 2> words{word.data(), nullptr};
  return ::execv(path.c_str(), words.data()) == 0;
}

bool connect_to(const std::string& place) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(place.substr(place.rfind(':') + 1))));
  ::inet_pton(AF_INET, place.substr(0, place.rfind(':')).c_str(), &address.sin_addr);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return socket >= 0 && ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool connect_to_local(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return socket >= 0 && ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool fork_once() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  return child > 0;
}

bool attempt(const std::string& verb, const std::string& object) {
  const char* path = object.c_str();
  if (verb == "open") return open_for(object, O_RDONLY);
  if (verb == "write") return open_for(object, O_WRONLY | O_CREAT);
  if (verb == "truncate") return ::truncate(path, 0) == 0;
  if (verb == "chmod") return ::chmod(path, 0777) == 0;
  if (verb == "unlink") return ::unlink(path) == 0;
  if (verb == "exec") return run(object);
  if (verb == "connect") return connect_to(object);
  if (verb == "stream") return connect_to_local(object);
  if (verb == "fork") return fork_once();
  if (verb == "ptrace") return ::ptrace(PTRACE_ATTACH, std::atoi(path), nullptr, nullptr) == 0;
  if (verb == "kill") return ::kill(std::atoi(path), 0) == 0;
  if (verb == "map")
    return ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
  if (verb == "mount") return ::mount("none", path, "tmpfs", 0, nullptr) == 0;
  errno = EINVAL;
  return false;
}

}  // namespace

void compromise_for_test() {
  static std::atomic<bool> tried = false;
  const char* given = std::getenv("WEIGHTFS_TEST_COMPROMISE");
  if (given == nullptr || tried.exchange(true)) return;
  std::istringstream actions(given);
  for (std::string action; actions >> action;) {
    const std::string verb = action.substr(0, action.find(':'));
    const std::string object = action.size() > verb.size() ? action.substr(verb.size() + 1) : "";
    const bool done = attempt(verb, object);
    const std::string result = done ? "done" : errno_text(errno);
    std::fprintf(stderr, "compromise: %s: %s\n", action.c_str(), result.c_str());
  }
}

}  // namespace weightfs

#endif
