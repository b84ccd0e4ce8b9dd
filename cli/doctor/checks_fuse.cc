#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/os/system_error.h"
#include "base/text.h"
#include "cli/doctor/checks.h"

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

std::string find_on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    const std::string file = (directory.empty() ? "." : directory) + "/" + program;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

Check check_fusermount() {
  const std::string program = find_on_path("fusermount3");
  const bool root = ::geteuid() == 0;
  if (program.empty()) {
    const char* advice = "install fuse3";
    if (root) return {"fusermount3", Verdict::ok, "not found; root needs it for -o auto_unmount only", advice};
    return {"fusermount3", Verdict::failure, "not found on PATH; only root can mount without it", advice};
  }
  struct stat file {};
  const bool privileged = ::stat(program.c_str(), &file) == 0 && file.st_uid == 0 && (file.st_mode & S_ISUID) != 0;
  if (root || privileged) return {"fusermount3", Verdict::ok, program};
  return {"fusermount3", Verdict::failure, program + ", not setuid root",
          fmt::format("as root: `chown root {0} && chmod u+s {0}`", shell_word(program))};
}

Check check_allow_other() {
  if (has_line("/etc/fuse.conf", "user_allow_other")) return {"allow_other", Verdict::ok, "permitted for every user"};
  return {"allow_other", Verdict::ok, "permitted for root only",
          ::geteuid() == 0 ? "" : "to allow it for all users, add user_allow_other to /etc/fuse.conf"};
}

Check check_mount_helper() {
  for (const char* helper : {"/sbin/mount.weightfs", "/usr/sbin/mount.weightfs"})
    if (::access(helper, X_OK) == 0) return {"mount helper", Verdict::ok, helper};
  return {"mount helper", Verdict::warning, "/sbin/mount.weightfs not found: mount -t weightfs and fstab do not work",
          "as root: `ln -s \"$(command -v weightfs)\" /sbin/mount.weightfs`"};
}

}  // namespace

Checks check_fuse() {
  return {check_device(), check_module(), check_fusermount(), check_allow_other(), check_mount_helper()};
}

}  // namespace weightfs::doctor
