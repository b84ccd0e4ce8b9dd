#include "cli/start_service.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/mounts.h"
#include "base/text.h"
#include "cli/mount_point.h"

namespace weightfs {
namespace {

// The exit status of `systemctl start`; it says on standard error what went wrong.
int start_unit(std::string unit) {
  std::string program = "systemctl";
  std::string verb = "start";
  const std::array<char*, 4> arguments = {program.data(), verb.data(), unit.data(), nullptr};
  pid_t child = 0;
  int status = 0;
  if (::posix_spawnp(&child, program.c_str(), nullptr, nullptr, arguments.data(), environ) != 0) return -1;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

Result<void> start_service(const std::string& name, const std::string& mountpoint) {
  const std::string unit = str("weightfs@", name, ".service");
  if (start_unit(unit) != 0) return failure(Code::io, str(printable(unit), " does not start"));
  if (Mounts::now().is_weightfs_point(MountPoint::of_mount(mountpoint).path())) return {};
  return failure(Code::io, str(printable(unit), " has started, but does not mount at ", printable(mountpoint)));
}

}  // namespace weightfs
