#include "cli/mount_point.h"

#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/kept_stderr.h"
#include "base/text.h"
#include "base/mounts.h"
#include "fs/place.h"

namespace weightfs {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

// The path without links; of what does not exist (or answer) yet, that of the directory it lies in.
Result<std::string> real_path(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  if (!error) return real.string();
  return absolute_path(path);
}

// The process that serves the mount at `path`, as a descriptor that can be waited on; -1 if that is not known.
int server_of(const std::string& path) {
  std::array<char, 32> text{};
  if (::getxattr(path.c_str(), kPidXattr, text.data(), text.size() - 1) <= 0) return -1;
  const long pid = std::strtol(text.data(), nullptr, 10);
  return pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)) : -1;
}

// Through fusermount3, which checks that the mount is the user's.
Result<void> ask_fusermount(const std::string& path, const char* how = "-u") {
  const KeptStderr kept;
  const pid_t child = ::fork();
  if (child == 0) {
    ::execlp("fusermount3", "fusermount3", how, path.c_str(), nullptr);
    ::perror("fusermount3");
    std::_Exit(127);
  }
  int status = 0;
  if (child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return failure(Code::io, kept.last_line());
}

}  // namespace

Result<MountPoint> MountPoint::at(const std::string& path) {
  MountPoint point(TRY(real_path(path)));
  // The attribute first: the kernel may still know the stat of a mount whose server is gone.
  if (::getxattr(point.path_.c_str(), kPidXattr, nullptr, 0) >= 0)
    return failure(Code::io, str(path, ": weightfs is mounted there already"));
  if (errno == ENOTCONN)
    return failure(Code::io, str(path, ": a mount whose server died; `weightfs umount ", path, "` removes it"));
  struct stat found {};
  if (::stat(point.path_.c_str(), &found) == 0) {
    if (!S_ISDIR(found.st_mode)) return failure(Code::io, str(path, ": not a directory"));
  } else if (errno != ENOENT) {
    return failure(Code::io, str(path, ": ", reason(errno)));
  }
  return point;
}

MountPoint MountPoint::of_mount(const std::string& path) {
  if (!Mounts::now().type_at(path).empty()) return MountPoint(path);
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return MountPoint(error ? path : real.string());
}

Result<void> MountPoint::make() {
  made_ = ::mkdir(path_.c_str(), 0755) == 0;
  if (!made_ && errno != EEXIST) return failure(Code::io, str(path_, ": ", reason(errno)));
  return {};
}

void MountPoint::remove_if_made() const {
  if (made_) ::rmdir(path_.c_str());
}

Result<void> unmount(const std::string& path) {
  constexpr int kLongestWaitMs = 10'000;
  const std::string real = TRY(real_path(path));
  if (!Mounts::now().is_weightfs_point(real)) return failure(Code::io, str(path, ": weightfs is not mounted there"));
  const int server = server_of(real);
  Result<void> done;
  if (::umount2(real.c_str(), UMOUNT_NOFOLLOW) != 0)
    done = errno == EPERM ? ask_fusermount(real) : failure(Code::io, reason(errno));
  // Until the server has ended, the mount point that it made is still there.
  if (server >= 0) {
    pollfd ended{server, POLLIN, 0};
    if (done) ::poll(&ended, 1, kLongestWaitMs);
    ::close(server);
  }
  return done.map_error([&](const Error& error) { return Error{error.code, str(path, ": ", error.message)}; });
}

Result<void> unmount_lazily(const std::string& path) {
  Result<void> done;
  if (::umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0)
    done = errno == EPERM ? ask_fusermount(path, "-uz") : failure(Code::io, reason(errno));
  return done.map_error([&](const Error& error) { return Error{error.code, str(path, ": ", error.message)}; });
}

}  // namespace weightfs
