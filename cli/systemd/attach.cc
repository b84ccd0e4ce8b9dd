#include "cli/systemd/attach.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/os/mounts.h"
#include "base/os/system_error.h"
#include "base/text.h"
#include "cli/mount/mount_point.h"
#include "cli/mount/mount_report.h"
#include "cli/mount/unmount.h"
#include "cli/options/store_options.h"
#include "cli/process/child_process.h"
#include "cli/systemd/notify.h"

namespace weightfs::service {
namespace {

unsigned long flags_of(const std::vector<std::string>& options) {
  unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV;
  for (const std::string& option : options) {
    if (option == "noexec") flags |= MS_NOEXEC;
    if (option == "noatime") flags |= MS_NOATIME;
  }
  return flags;
}

// The creator of a mount. A mount whose server hangs may be in use, and is removed only if attach() made it.
enum class MountOrigin { unknown, attach };

// Why a mount in this condition must not be removed; null if it can be.
const char* reason_to_keep(MountCondition state, MountOrigin origin) {
  switch (state) {
    case MountCondition::dead:
      return nullptr;
    case MountCondition::unresponsive:
      return origin == MountOrigin::attach ? nullptr : "the weightfs mounted there is not responding";
    case MountCondition::unknown:
      return "cannot determine the state of the weightfs mount there";
    case MountCondition::covered:
      return "another file system is mounted over the weightfs there";
    case MountCondition::serving:
    case MountCondition::inaccessible:
      break;
  }
  return "weightfs is already mounted there";
}

// Removes all weightfs mounts at the point, one above the other; bounded in case others mount at the same time.
Result<void> remove_mounts(const std::string& point, MountOrigin origin) {
  for (int attempts = 16; attempts > 0; --attempts) {
    const Mounts mounts = Mounts::now();
    if (!mounts.is_weightfs_point(point)) return {};
    const auto mount = mounts.on(point);
    const MountCondition state = mount->is_weightfs() ? probe_mounts({*mount}).front().state : MountCondition::covered;
    if (const char* reason = reason_to_keep(state, origin))
      return failure(Code::io, fmt::format("{}: {}", point, reason));
    const UnmountResult unmounted = unmount(*mount, Detach::now);
    if (unmounted.status != UnmountResult::done) return failure(Code::io, fmt::format("{}: {}", point, unmounted.why));
  }
  return {};
}

bool is_automount_point(const std::string& point) {
  const auto mount = Mounts::now().on(point);
  return mount && mount->type == "autofs";
}

// The file in which attach() records the mount point, because the config may change before detach().
std::filesystem::path note_path(const std::string& name) {
  return std::filesystem::path(runtime_directory()) / (name + ".mounted");
}

Result<void> write_note(const std::string& name, const std::string& point) {
  const auto note = note_path(name);
  std::error_code error;
  std::filesystem::create_directories(note.parent_path(), error);
  std::ofstream out(note);
  out << point;
  out.close();
  if (!out) return failure(Code::io, fmt::format("{}: cannot write", note.string()));
  return {};
}

std::string read_note(const std::string& name) {
  std::ifstream in(note_path(name));
  return {std::istreambuf_iterator<char>(in), {}};
}

// Requests the mount from the mount helper, because this process would block at the automount point. systemctl converts
// the path to the name of the mount unit.
Result<Descriptor> request_mount(const Config& config) {
  if (run_program({"systemctl", "start", "--no-block", "--", config.mountpoint}, Stderr::inherited).status == 0)
    if (auto taken = TRY(receive_fd(config.name, ReceiveWait::for_sender))) return std::move(*taken);
  return failure(
      Code::io,
      fmt::format("{}: no mount unit with the option service={} for this automount point; run systemctl daemon-reload",
                  config.mountpoint, config.name));
}

Result<Descriptor> mount_here(const Config& config, const std::vector<std::string>& options) {
  TRY_VOID(detach(config.name, config.mountpoint));
  if (is_automount_point(config.mountpoint)) return request_mount(config);
  std::error_code error;
  const mode_t before = ::umask(0022);  // other users, and the server, need access to the created directories
  std::filesystem::create_directories(config.mountpoint, error);
  ::umask(before);
  if (error) return failure(Code::io, fmt::format("{}: {}", config.mountpoint, error.message()));
  return mount_device(config, options);
}

}  // namespace

Result<Descriptor> mount_device(const Config& config, const std::vector<std::string>& options) {
  const std::string point = MountPoint::of_mount(config.mountpoint).path();
  Descriptor device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device) return failure(io_error("/dev/fuse"));
  std::vector<std::string> shown;
  for (const std::string& source : config.sources) shown.push_back(absolute_source(source));
  const std::string source = source_label(shown);
  const std::string data = fmt::format("fd={},rootmode=40000,user_id={},group_id={},default_permissions,allow_other",
                                       device.number(), ::getuid(), ::getgid());
  if (::mount(source.c_str(), point.c_str(), "fuse.weightfs", flags_of(options), data.c_str()) != 0)
    return failure(io_error(fmt::format("{}: cannot mount", point)));
  return device;
}

void remove_device(const Config& config) {
  const auto mount = Mounts::now().on(MountPoint::of_mount(config.mountpoint).path());
  if (mount && mount->is_weightfs()) unmount(*mount, Detach::now);
}

Result<void> attach(const Config& config, const std::vector<std::string>& options) {
  auto offered = TRY(receive_fd(config.name, ReceiveWait::none));
  const Descriptor device = offered ? std::move(*offered) : TRY(mount_here(config, options));
  return write_note(config.name, MountPoint::of_mount(config.mountpoint).path())
      .and_then([&] { return keep_descriptor(device.number(), kDeviceName); })
      .map_error([&](Error failed) {
        remove_device(config);
        return failed;
      });
}

Result<void> detach(const std::string& name, const std::string& mountpoint) {
  forget_descriptor(kDeviceName);
  const std::string noted = read_note(name);
  const std::string& point = noted.empty() ? mountpoint : noted;
  const MountOrigin origin = noted.empty() ? MountOrigin::unknown : MountOrigin::attach;
  if (!point.empty()) TRY_VOID(remove_mounts(MountPoint::of_mount(point).path(), origin));
  ::unlink(note_path(name).c_str());
  return {};
}

}  // namespace weightfs::service
