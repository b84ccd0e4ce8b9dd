#include "cli/mount/unmount.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "base/os/descriptor.h"
#include "base/os/system_error.h"
#include "base/text.h"
#include "cli/mount/fusermount.h"
#include "cli/process/child_process.h"
#include "report/text/map_of.h"

namespace weightfs {
namespace {

constexpr const char* kUnresponsive = "path not responding";

// A resolved path and its mount. Resolving with O_PATH sends no request to a server and triggers no automount
// (O_DIRECTORY would).
struct ResolvedPath {
  std::optional<uint64_t> mount;
  std::string path;  // without links
  int error;         // errno, or 0
};

ResolvedPath resolve_path(const std::string& path) {
  const int found = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (found < 0) return {{}, {}, errno};
  const std::string descriptor = std::to_string(found);
  std::error_code failed;
  ResolvedPath resolved{mount_id_of("self", descriptor),
                        std::filesystem::read_symlink("/proc/self/fd/" + descriptor, failed), 0};
  ::close(found);
  return resolved;
}

// Unmounts through fusermount3, which checks that the mount belongs to the user.
UnmountResult run_fusermount(const std::string& path, Detach detach) {
  const std::string program = find_fusermount().name;
  std::vector<std::string> words = {program, "-u", "--", path};
  if (detach == Detach::now) words.insert(words.begin() + 1, "-z");
  const ProcessResult result = run_program(std::move(words), Stderr::captured);
  if (result.status == 0) return {UnmountResult::done, {}};
  // fusermount3 does not set a locale, so its messages are English.
  std::string why = result.last_line(program);
  return {why.ends_with("Device or resource busy") ? UnmountResult::busy : UnmountResult::refused, why};
}

// The id of the mount whose root the path is.
Map find_mount_root(const std::string& path) {
  const ResolvedPath resolved = resolve_path(path);
  const Mounts now = Mounts::now();
  const Mount* mount = resolved.mount ? now.find(*resolved.mount) : nullptr;
  Map result;
  result.append("error", static_cast<uint64_t>(resolved.error));
  if (mount != nullptr && mount->point == resolved.path) result.append("mount", mount->id);
  return result;
}

}  // namespace

Result<Mount> weightfs_at(const std::string& path, std::chrono::milliseconds timeout) {
  const auto result = run_isolated_or_here([&] { return find_mount_root(path); }, timeout);
  if (!result) return failure(Code::io, fmt::format("{}: {}", path, kUnresponsive));
  if (const auto error = find_number(*result, "error").value_or(0); error != 0)
    return failure(io_error(path, static_cast<int>(error)));
  const auto id = find_number(*result, "mount");
  const Mounts now = Mounts::now();
  const Mount* mount = id ? now.find(*id) : nullptr;
  if (mount != nullptr && mount->is_weightfs()) return *mount;
  if (mount != nullptr && now.is_weightfs_point(mount->point))
    return failure(Code::io, fmt::format("{}: {} is mounted over weightfs there", path, printable(mount->type)));
  return failure(Code::io, fmt::format("{}: weightfs is not mounted there", path));
}

UnmountResult unmount_here(const Mount& mount, Detach detach) {
  const std::filesystem::path point(mount.point);
  // The parent directory is held open: after a rename of a directory above, the path could lead to another mount.
  const Descriptor folder(::open(point.parent_path().c_str(), O_PATH | O_CLOEXEC));
  if (!folder) return {UnmountResult::refused, errno_text(errno)};
  const std::string at = fmt::format("/proc/self/fd/{}/{}", folder.number(), point.filename().string());
  // Another file system may be mounted there by now.
  const ResolvedPath resolved = resolve_path(at);
  if (resolved.error != 0) return {UnmountResult::refused, errno_text(resolved.error)};
  if (resolved.mount != mount.id) return {UnmountResult::refused, "another file system is mounted over it"};
  if (::umount2(at.c_str(), UMOUNT_NOFOLLOW | (detach == Detach::now ? MNT_DETACH : 0)) == 0)
    return {UnmountResult::done, {}};
  if (errno == EPERM && mount.user.value_or(0) != ::geteuid())
    return {UnmountResult::refused, "mounted by another user; only that user and root can unmount it"};
  if (errno == EPERM) return run_fusermount(mount.point, detach);
  return {errno == EBUSY ? UnmountResult::busy : UnmountResult::refused, errno_text(errno)};
}

UnmountResult unmount(const Mount& mount, Detach detach, std::chrono::milliseconds timeout) {
  const auto unmount = [&] {
    const UnmountResult unmounted = unmount_here(mount, detach);
    return map_of({{"end", static_cast<uint64_t>(unmounted.status)}, {"why", unmounted.why}});
  };
  const auto result = run_isolated_or_here(unmount, timeout);
  if (!result) return {UnmountResult::unresponsive, kUnresponsive};
  return {static_cast<UnmountResult::Status>(find_number(*result, "end").value_or(UnmountResult::refused)),
          find_text(*result, "why").value_or("")};
}

}  // namespace weightfs
