#include "cli/service/attach.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/os/mounts.h"
#include "base/text.h"
#include "cli/mount/mount_point.h"
#include "cli/mount/mount_report.h"
#include "cli/mount/unmount.h"
#include "cli/process/child_process.h"
#include "cli/service/notify.h"

namespace weightfs {
namespace {

Error cannot(const std::string& what) { return {Code::io, str(what, ": ", std::generic_category().message(errno))}; }

unsigned long flags_of(const std::vector<std::string>& options) {
  unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV;
  for (const std::string& option : options) {
    if (option == "noexec") flags |= MS_NOEXEC;
    if (option == "noatime") flags |= MS_NOATIME;
  }
  return flags;
}

// Whose a mount is: that of a server which only hangs may be in use, and is removed only where attach() made it.
enum class Maker { unknown, attach };

// Why a mount in that state stays; nothing when it may go.
const char* reason_to_stay(MountState state, Maker maker) {
  switch (state) {
    case MountState::dead:
      return nullptr;
    case MountState::silent:
      return maker == Maker::attach ? nullptr : "the weightfs that is mounted there does not answer";
    case MountState::unasked:
      return "the weightfs that is mounted there could not be asked whether it is served";
    case MountState::covered:
      return "something else is mounted over the weightfs that is mounted there";
    case MountState::serving:
    case MountState::foreign:
      break;
  }
  return "weightfs is mounted there already";
}

// Whatever is mounted there of ours, one above the other; `most` is for those that are being mounted meanwhile.
Result<void> remove_mounts(const std::string& point, Maker maker) {
  for (int most = 16; most > 0; --most) {
    const Mounts mounts = Mounts::now();
    if (!mounts.is_weightfs_point(point)) return {};
    const auto mount = mounts.on(point);
    const MountState state = mount->is_weightfs() ? ask_mounts({*mount}).front().state : MountState::covered;
    if (const char* reason = reason_to_stay(state, maker)) return failure(Code::io, str(point, ": ", reason));
    const Unmounted unmounted = unmount(*mount, Detach::now);
    if (unmounted.end != Unmounted::done) return failure(Code::io, str(point, ": ", unmounted.why));
  }
  return {};
}

bool is_automount_point(const std::string& point) {
  const auto mount = Mounts::now().on(point);
  return mount && mount->type == "autofs";
}

// Where attach() notes the mount point: by the time of detach() somebody may have written another one into the config.
std::filesystem::path note_of(const std::string& name) {
  return std::filesystem::path(runtime_directory()) / (name + ".mounted");
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

// Where somebody may wait at this moment, and with it whoever comes that way, the mount is asked for. systemctl takes
// the path for the mount unit's name.
Result<Descriptor> asked_for(const Config& config) {
  if (run_program({"systemctl", "start", "--no-block", "--", config.mountpoint}, Stderr::passed_on).status == 0)
    if (auto taken = TRY(take_offered(config.name, Offered::soon))) return std::move(*taken);
  return failure(Code::io,
                 str(config.mountpoint, ": an automount point, where nothing mounts with -o service=", config.name));
}

Result<Descriptor> mounted_here(const Config& config, const std::vector<std::string>& options) {
  TRY_VOID(detach(config.name, config.mountpoint));
  if (is_automount_point(config.mountpoint)) return asked_for(config);
  std::error_code error;
  const mode_t before = ::umask(0022);  // whoever comes to the mount goes through them, the server, too
  std::filesystem::create_directories(config.mountpoint, error);
  ::umask(before);
  if (error) return failure(Code::io, str(config.mountpoint, ": ", error.message()));
  return mount_device(config, options);
}

}  // namespace

Result<Descriptor> mount_device(const Config& config, const std::vector<std::string>& options) {
  const std::string point = MountPoint::of_mount(config.mountpoint).path();
  Descriptor device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device) return tl::unexpected(cannot("/dev/fuse"));
  const std::string source = name_of_sources(config.sources);
  const std::string data = str("fd=", device.number(), ",rootmode=40000,user_id=", ::getuid(), ",group_id=", ::getgid(),
                               ",default_permissions,allow_other");
  if (::mount(source.c_str(), point.c_str(), "fuse.weightfs", flags_of(options), data.c_str()) != 0)
    return tl::unexpected(cannot(str(point, ": cannot be mounted on")));
  return device;
}

void remove_device(const Config& config) {
  const auto mount = Mounts::now().on(MountPoint::of_mount(config.mountpoint).path());
  if (mount && mount->is_weightfs()) unmount(*mount, Detach::now);
}

Result<void> attach(const Config& config, const std::vector<std::string>& options) {
  auto offered = TRY(take_offered(config.name, Offered::now));
  const Descriptor device = offered ? std::move(*offered) : TRY(mounted_here(config, options));
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
  const Maker maker = noted.empty() ? Maker::unknown : Maker::attach;
  if (!point.empty()) TRY_VOID(remove_mounts(MountPoint::of_mount(point).path(), maker));
  ::unlink(note_of(name).c_str());
  return {};
}

}  // namespace weightfs
