#include "cli/mount/fusermount.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "base/os/system_error.h"
#include "base/os/unix_socket.h"
#include "cli/process/child_process.h"
#include "fs/fuse/session.h"

namespace weightfs {
namespace {

constexpr const char* kOldName = "fusermount";
constexpr const char* kSocketName = "_FUSE_COMMFD";  // the variable that names the socket for the device

}  // namespace

Fusermount find_fusermount() {
  Fusermount found;
  found.path = find_on_path(found.name);
  if (!found.path.empty()) return found;
  std::string old = find_on_path(kOldName);
  return old.empty() ? found : Fusermount{kOldName, std::move(old)};
}

bool needs_old_fusermount() { return ::geteuid() != 0 && find_fusermount().name == kOldName; }

Result<int> mount_by_old_fusermount(fuse::SessionParams params, const std::string& target) {
  std::erase(params.options, "auto_unmount");  // the broker does it
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return failure(io_error(target));
  const Descriptor here(ends[0]);
  ProcessResult result;
  {
    const Descriptor there(ends[1]);
    ::fcntl(there.number(), F_SETFD, 0);
    ::setenv(kSocketName, std::to_string(there.number()).c_str(), 1);
    result = run_program({kOldName, "-o", fuse::mount_options(params), "--", target}, Stderr::captured);
    ::unsetenv(kSocketName);
  }
  SocketMessage answer = receive_message(here.number(), 1);
  if (result.status == 0 && answer.descriptor) return answer.descriptor.release();
  return failure(Code::io, fmt::format("{}: cannot mount: {}", params.mountpoint, result.last_line(kOldName)));
}

}  // namespace weightfs
