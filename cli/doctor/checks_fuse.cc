#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/os/system_error.h"
#include "base/text.h"
#include "cli/doctor/checks.h"
#include "cli/mount/fusermount.h"

namespace weightfs::doctor {
namespace {

bool has_line(const char* file, const std::string& wanted) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, second;
    words >> first >> second;
    if (first == wanted || (first == "nodev" && second == wanted)) return true;
  }
  return false;
}

Check check_device() {
  Check check{"/dev/fuse", Verdict::failure, {}};
  struct stat found {};
  if (::stat("/dev/fuse", &found) != 0) {
    check.found = errno_text(errno);
    check.advice = "load the module with `modprobe fuse`; start a container with --device /dev/fuse";
    return check;
  }
  const int device = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (device >= 0) {
    ::close(device);
    return {"/dev/fuse", Verdict::ok, "can be opened"};
  }
  check.found = fmt::format("cannot be opened: {}", errno_text(errno));
  check.advice = errno == EACCES ? "allow all users to open it: `chmod 666 /dev/fuse`"
                                 : "load the module with `modprobe fuse`; in a container, allow the device";
  return check;
}

Check check_module() {
  if (has_line("/proc/filesystems", "fuse")) return {"fuse module", Verdict::ok, "in the kernel"};
  return {"fuse module", Verdict::warning, "not in /proc/filesystems", "load it with `modprobe fuse`"};
}

Check check_fusermount() {
  const bool root = ::geteuid() == 0;
  const Fusermount found = find_fusermount();
  if (found.path.empty()) {
    const char* advice = "install fuse3";
    if (root) return {"fusermount3", Verdict::ok, "not found; root needs it for -o auto_unmount only", advice};
    return {"fusermount3", Verdict::failure, "not found on PATH; only root can mount without it", advice};
  }
  struct stat file {};
  const bool privileged = ::stat(found.path.c_str(), &file) == 0 && file.st_uid == 0 && (file.st_mode & S_ISUID) != 0;
  if (root || privileged) return {"fusermount3", Verdict::ok, found.path};
  return {"fusermount3", Verdict::failure, found.path + ", not setuid root",
          fmt::format("as root: `chown root {0} && chmod u+s {0}`", shell_word(found.path))};
}

// fusermount3 looks up there whose a mount is.
Check check_mtab() {
  if (::access("/etc/mtab", R_OK) == 0) return {"/etc/mtab", Verdict::ok, "can be read"};
  const std::string found = fmt::format("cannot be read: {}", errno_text(errno));
  const char* advice = "as root: `ln -s /proc/self/mounts /etc/mtab`";
  if (::geteuid() == 0) return {"/etc/mtab", Verdict::ok, found + "; only users need it to unmount", advice};
  return {"/etc/mtab", Verdict::failure, found + "; only root can unmount without it", advice};
}

Check check_allow_other() {
  if (has_line("/etc/fuse.conf", "user_allow_other")) return {"allow_other", Verdict::ok, "permitted for every user"};
  return {"allow_other", Verdict::ok, "permitted for root only",
          ::geteuid() == 0 ? "" : "to allow it for all users, add user_allow_other to /etc/fuse.conf"};
}

Check check_mount_helper() {
  for (const char* helper : {"/sbin/mount.weightfs", "/usr/sbin/mount.weightfs"})
    if (::access(helper, X_OK) == 0) return {"mount helper", Verdict::ok, helper};
  return {"mount helper", Verdict::warning, "no /sbin/mount.weightfs: mount -t weightfs and fstab do not work",
          "as root: `ln -s \"$(command -v weightfs)\" /sbin/mount.weightfs`"};
}

}  // namespace

Checks check_fuse() {
  return {check_device(), check_module(), check_fusermount(), check_mtab(), check_allow_other(), check_mount_helper()};
}

}  // namespace weightfs::doctor
