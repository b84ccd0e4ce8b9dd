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
#include "fs/layout/source_tree.h"

namespace weightfs {
namespace {

// Another weightfs holds the claim from the mount to the first reply. Any user who can open the directory can lock it
// for longer, which must not prevent mounting.
constexpr std::chrono::seconds kClaimTimeout{5};

std::string proc_path(const Descriptor& descriptor) { return fmt::format("/proc/self/fd/{}", descriptor.number()); }

// The path of an open directory, without links.
Result<std::string> path_of(const Descriptor& directory, const std::string& given) {
  std::error_code error;
  const std::string path = std::filesystem::read_symlink(proc_path(directory), error);
  if (error || !path.starts_with('/')) return failure(Code::io, fmt::format("{}: is not below the root", given));
  return path;
}

Result<void> check_directory(const Descriptor& found, const std::string& path) {
  struct stat status {};
  if (::fstat(found.number(), &status) != 0) return failure(io_error(path));
  if (!S_ISDIR(status.st_mode)) return failure(Code::io, fmt::format("{}: not a directory", path));
  return {};
}

// O_DIRECTORY would trigger an automount.
Descriptor open_path(const std::string& path) { return Descriptor(::open(path.c_str(), O_PATH | O_CLOEXEC)); }

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
  MountPoint point(path);
  point.directory_ = open_path(path);
  if (point.directory_) {
    TRY_VOID(check_directory(point.directory_, path));
    point.path_ = TRY(path_of(point.directory_, path));
    return point;
  }
  if (errno != ENOENT) return failure(io_error(path));
  const std::filesystem::path missing(TRY(absolute_path(path)));
  point.parent_ = open_path(missing.parent_path());
  if (!point.parent_) return failure(io_error(path));
  point.path_ = std::filesystem::path(TRY(path_of(point.parent_, path))) / missing.filename();
  return point;
}

MountPoint MountPoint::of_mount(const std::string& path) {
  if (Mounts::now().on(path)) return MountPoint(path);
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return MountPoint(error ? path : real.string());
}

Result<void> MountPoint::make() {
  const std::filesystem::path path(path_);
  const auto now = directory_ ? path_of(directory_, path_) : path_of(parent_, path_);
  if (TRY(now) != (directory_ ? path : path.parent_path()))
    return failure(Code::io, fmt::format("{}: was moved or removed while the sources were read", path_));
  if (directory_) return {};
  const std::string name = path.filename();
  made_ = ::mkdirat(parent_.number(), name.c_str(), 0755) == 0;
  if (!made_ && errno != EEXIST) return failure(io_error(path_));
  directory_ = Descriptor(::openat(parent_.number(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!directory_) return failure(io_error(path_));
  return check_directory(directory_, path_);
}

std::string MountPoint::target() const { return ::geteuid() == 0 ? proc_path(directory_) : path_; }

// The lock is on the covered directory itself. The kernel handles flock on directories locally, so no file server is
// involved. There is no claim if the directory cannot be opened for reading.
Result<void> MountPoint::claim() {
  if (is_root_of_weightfs(open_path(path_), path_)) return already_mounted(path_);
  claim_ = Descriptor(::open(proc_path(directory_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto limit = std::chrono::steady_clock::now() + kClaimTimeout;
  while (claim_ && ::flock(claim_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
         std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  // Another weightfs may have mounted while it held the claim.
  if (is_root_of_weightfs(open_path(path_), path_)) return already_mounted(path_);
  std::error_code unreadable;
  if (claim_ && !made_ && !std::filesystem::is_empty(proc_path(claim_), unreadable) && !unreadable)
    log_to_stderr(fmt::format("{}: directory not empty; the mount hides its content", path_));
  return {};
}

void MountPoint::remove_if_made() const {
  if (!made_) return;
  const auto remove = [this] {
    ::unlinkat(parent_.number(), std::filesystem::path(path_).filename().c_str(), AT_REMOVEDIR);
    return Map();
  };
  (void)run_isolated_or_here(remove, kIsolatedTimeout, parent_.number());
}

std::string source_label(const std::vector<std::string>& sources) {
  if (sources.empty()) return {};
  return sources.size() == 1 ? sources[0] : fmt::format("{} and {} more", sources.at(0), sources.size() - 1);
}

Result<void> check_hides_nothing_needed(const std::vector<std::string>& sources, const std::string& point) {
  for (const char* const needed :
       {"/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr"}) {
    std::error_code no_path;
    const auto real = std::filesystem::canonical(needed, no_path);  // /bin may be a link to /usr/bin
    if (!no_path && is_at_or_below(real, point))
      return failure(Code::unsupported,
                     fmt::format("{}: a mount there would hide files that every program needs; use another mount point",
                                 printable(point)));
  }
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
