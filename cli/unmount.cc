#include "cli/unmount.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/kept_stderr.h"
#include "base/text.h"

namespace weightfs {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

// Where a path leads: through which mount, and under which name. To open it like this asks no server.
struct Place {
  std::optional<uint64_t> mount;
  std::string path;  // without links
};

Result<Place> place_of(const std::string& path) {
  const int found = ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (found < 0) return failure(Code::io, str(path, ": ", reason(errno)));
  const std::string descriptor = std::to_string(found);
  std::error_code failed;
  Place place{mount_id_of("self", descriptor), std::filesystem::read_symlink("/proc/self/fd/" + descriptor, failed)};
  ::close(found);
  return place;
}

// Through fusermount3, which checks that the mount is the user's.
Unmounted ask_fusermount(const std::string& path, Detach detach) {
  const KeptStderr kept;
  const pid_t child = ::fork();
  if (child == 0) {
    if (detach == Detach::now)
      ::execlp("fusermount3", "fusermount3", "-u", "-z", "--", path.c_str(), nullptr);
    else
      ::execlp("fusermount3", "fusermount3", "-u", "--", path.c_str(), nullptr);
    ::perror("fusermount3");
    std::_Exit(127);
  }
  int status = 0;
  if (child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return {Unmounted::done, {}};
  const std::string said = kept.last_line();
  // It speaks the C library's English, whatever the locale.
  return {said.ends_with("Device or resource busy") ? Unmounted::busy : Unmounted::refused, said};
}

}  // namespace

Result<Mount> weightfs_at(const std::string& path) {
  const Place place = TRY(place_of(path));
  const Mounts now = Mounts::now();
  const Mount* mount = place.mount ? now.find(*place.mount) : nullptr;
  const bool is_root = mount != nullptr && mount->point == place.path;
  if (is_root && mount->is_weightfs()) return *mount;
  if (is_root && now.is_weightfs_point(place.path))
    return failure(Code::io, str(path, ": ", printable(mount->type), " is mounted over weightfs there"));
  return failure(Code::io, str(path, ": weightfs is not mounted there"));
}

Unmounted unmount(const Mount& mount, Detach detach) {
  // By now something else may be there.
  const auto place = place_of(mount.point);
  if (!place || place->mount != mount.id) return {Unmounted::refused, "something else is mounted over it"};
  if (::umount2(mount.point.c_str(), UMOUNT_NOFOLLOW | (detach == Detach::now ? MNT_DETACH : 0)) == 0)
    return {Unmounted::done, {}};
  if (errno == EPERM) return ask_fusermount(mount.point, detach);
  return {errno == EBUSY ? Unmounted::busy : Unmounted::refused, reason(errno)};
}

}  // namespace weightfs
