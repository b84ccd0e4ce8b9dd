#include "cli/attach.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/mounts.h"
#include "base/text.h"
#include "cli/mount_point.h"
#include "cli/notify.h"

namespace weightfs {
namespace {

Error cannot(const std::string& what) { return {Code::io, str(what, ": ", std::generic_category().message(errno))}; }

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// Whether somebody serves the mount. One that does not answer in time does not count: nobody can use it. Asked by a
// process of its own, which may have to wait for as long as the mount is there.
bool is_served(const std::string& point) {
  constexpr int kLongestWaitMs = 3'000;
  const pid_t child = ::fork();
  if (child < 0) return true;
  if (child == 0) {
    std::array<char, 32> pid{};
    std::_Exit(::getxattr(point.c_str(), kPidXattr, pid.data(), pid.size()) > 0 ? 0 : 1);
  }
  const Descriptor end(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  pollfd ended{end.number(), POLLIN, 0};
  if (::poll(&ended, 1, kLongestWaitMs) != 1) {
    ::kill(child, SIGKILL);
    return false;
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

unsigned long flags_of(const std::vector<std::string>& options) {
  unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV;
  for (const std::string& option : options) {
    if (option == "noexec") flags |= MS_NOEXEC;
    if (option == "noatime") flags |= MS_NOATIME;
  }
  return flags;
}

// Whatever is mounted there of ours, one above the other; `most` is for those that are being mounted meanwhile.
Result<void> remove_mounts(const std::string& point) {
  for (int most = 16; most > 0 && Mounts::now().is_weightfs_point(point); --most) {
    if (is_served(point)) return failure(Code::io, str(point, ": weightfs is mounted there already"));
    TRY_VOID(unmount_lazily(point));
  }
  return {};
}

// Where attach() notes the mount point: by the time of detach() somebody may have written another one into the config.
std::filesystem::path note_of(const std::string& name) {
  const char* directory = std::getenv("RUNTIME_DIRECTORY");
  return std::filesystem::path(directory != nullptr ? directory : "/run/weightfs") / (name + ".mounted");
}

Result<void> write_note(const std::string& name, const std::string& point) {
  const auto note = note_of(name);
  std::error_code error;
  std::filesystem::create_directories(note.parent_path(), error);
  std::ofstream out(note);
  out << point;
  out.close();
  if (!out) return failure(Code::io, str(note.string(), ": cannot be written"));
  return {};
}

std::string read_note(const std::string& name) {
  std::ifstream in(note_of(name));
  return {std::istreambuf_iterator<char>(in), {}};
}

Result<void> mount_and_hand_over(const Config& config, const std::string& point, unsigned long flags) {
  const Descriptor device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (device.number() < 0) return tl::unexpected(cannot("/dev/fuse"));
  const std::string source = config.sources.size() == 1 ? config.sources[0] : "weightfs";
  const std::string data = str("fd=", device.number(), ",rootmode=40000,user_id=", ::getuid(), ",group_id=", ::getgid(),
                               ",default_permissions,allow_other");
  if (::mount(source.c_str(), point.c_str(), "fuse.weightfs", flags, data.c_str()) != 0)
    return tl::unexpected(cannot(str(point, ": cannot be mounted on")));
  return keep_descriptor(device.number(), kDeviceName).map_error([&](Error failed) {
    (void)unmount_lazily(point);
    return failed;
  });
}

}  // namespace

Result<void> attach(const Config& config, const std::vector<std::string>& options) {
  TRY_VOID(detach(config.name, config.mountpoint));
  std::error_code error;
  std::filesystem::create_directories(config.mountpoint, error);
  if (error) return failure(Code::io, str(config.mountpoint, ": ", error.message()));
  const std::string point = MountPoint::of_mount(config.mountpoint).path();
  TRY_VOID(write_note(config.name, point));
  return mount_and_hand_over(config, point, flags_of(options));
}

Result<void> detach(const std::string& name, const std::string& mountpoint) {
  forget_descriptor(kDeviceName);
  const std::string noted = read_note(name);
  const std::string& point = noted.empty() ? mountpoint : noted;
  if (!point.empty()) TRY_VOID(remove_mounts(MountPoint::of_mount(point).path()));
  ::unlink(note_of(name).c_str());
  return {};
}

}  // namespace weightfs
