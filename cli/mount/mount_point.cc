#include "cli/mount/mount_point.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/os/mounts.h"
#include "base/os/system_error.h"
#include "base/text.h"
#include "cli/mount/mount_report.h"
#include "cli/mount/unmount.h"
#include "cli/process/isolated.h"
#include "cli/verbs.h"
#include "fs/source_tree.h"

namespace weightfs {
namespace {

// Another weightfs holds the claim from the mount to the first reply. Any user who can open the directory can lock it
// for longer, which must not prevent mounting.
constexpr std::chrono::seconds kClaimTimeout{5};

// The path without links. If it does not exist (or respond) yet, only its directory is resolved.
Result<std::string> real_path(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  if (!error) return real.string();
  return absolute_path(path);
}

bool is_root_of_weightfs(const Descriptor& found, const std::string& path) {
  const auto id = mount_id_of("self", std::to_string(found.number()));
  const Mounts now = Mounts::now();
  const Mount* mount = id ? now.find(*id) : nullptr;
  return mount != nullptr && mount->is_weightfs() && mount->point == path;
}

tl::unexpected<Error> already_mounted(const std::string& path) {
  return failure(Code::io, fmt::format("{}: weightfs is already mounted there", path));
}

// Removes a mount whose server died; fails if the server is alive.
Result<void> remove_dead_mount(const Mount& mount, const std::string& path) {
  if (probe_mounts({mount}).front().state != MountCondition::dead) return already_mounted(path);
  const UnmountResult unmounted = unmount(mount, Detach::now);
  if (unmounted.status != UnmountResult::done)
    return failure(Code::io, fmt::format("{}: cannot remove a mount whose server died: {}", path, unmounted.why));
  log_to_stderr(fmt::format("{}: removed a mount whose server died", path));
  return {};
}

}  // namespace

Result<MountPoint> MountPoint::at(const std::string& path) {
  if (const auto mount = weightfs_at(path)) TRY_VOID(remove_dead_mount(*mount, path));
  MountPoint point(TRY(real_path(path)));
  struct stat found {};
  if (::stat(point.path_.c_str(), &found) == 0) {
    if (!S_ISDIR(found.st_mode)) return failure(Code::io, fmt::format("{}: not a directory", path));
  } else if (errno != ENOENT) {
    return failure(io_error(path));
  }
  return point;
}

MountPoint MountPoint::of_mount(const std::string& path) {
  if (Mounts::now().on(path)) return MountPoint(path);
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return MountPoint(error ? path : real.string());
}

Result<void> MountPoint::make() {
  made_ = ::mkdir(path_.c_str(), 0755) == 0;
  if (!made_ && errno != EEXIST) return failure(io_error(path_));
  return {};
}

// The lock is on the covered directory itself. The kernel handles flock on directories locally, so no file server is
// involved. There is no claim if the directory cannot be opened for reading, nor on an automount point: opening its
// path with O_DIRECTORY would trigger it and wait for this process.
Result<void> MountPoint::claim() {
  const Descriptor found(::open(path_.c_str(), O_PATH | O_CLOEXEC));
  if (is_root_of_weightfs(found, path_)) return already_mounted(path_);
  claim_ =
      Descriptor(::open(fmt::format("/proc/self/fd/{}", found.number()).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto limit = std::chrono::steady_clock::now() + kClaimTimeout;
  while (claim_ && ::flock(claim_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
         std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  // Another weightfs may have mounted while it held the claim.
  const Descriptor by_now(::open(path_.c_str(), O_PATH | O_CLOEXEC));
  if (is_root_of_weightfs(by_now, path_)) return already_mounted(path_);
  std::error_code unreadable;
  const std::string claimed = fmt::format("/proc/self/fd/{}", claim_.number());
  if (claim_ && !made_ && !std::filesystem::is_empty(claimed, unreadable) && !unreadable)
    log_to_stderr(fmt::format("{}: directory not empty; the mount hides its content", path_));
  return {};
}

void MountPoint::remove_if_made() const {
  if (!made_) return;
  (void)run_isolated_or_here([this] {
    ::rmdir(path_.c_str());
    return Map();
  });
}

std::string source_label(const std::vector<std::string>& sources) {
  return sources.size() == 1 ? sources[0] : fmt::format("{} and {} more", sources.at(0), sources.size() - 1);
}

Result<void> check_hides_no_source(const std::vector<std::string>& sources, const std::string& point) {
  for (const std::string& source : sources) {
    std::error_code no_path;
    const auto real = std::filesystem::canonical(source, no_path);
    if (!no_path && is_at_or_below(real, point))
      return failure(Code::unsupported,
                     fmt::format("{}: a mount there would hide its source {}; use another mount point",
                                 printable(point), printable(source)));
  }
  return {};
}

}  // namespace weightfs
