#include "cli/systemd/start_service.h"

#include <fmt/core.h>

#include "base/os/mounts.h"
#include "base/text.h"
#include "cli/mount/mount_options.h"
#include "cli/mount/mount_point.h"
#include "cli/process/child_process.h"
#include "cli/systemd/attach.h"

namespace weightfs::service {
namespace {

// All processes that access the automount point, and the service too, block until this process exits. So this process
// mounts; from then on they wait for a reply of the service.
Result<void> mount_at_automount_point(const Config& config, const std::string& unit) {
  MountOptions options;
  TRY_VOID(parse_mount_options(options, config.options, OptionOrigin::command_line));
  FdSender sender = TRY(FdSender::listen(config.name));
  const ChildProcess start = TRY(ChildProcess::start({"systemctl", "start", "--", unit}));
  bool is_mounted = false;
  // Not before the service has connected: systemd accesses the path to start it.
  const auto mount = [&]() -> Result<Descriptor> {
    Descriptor device = TRY(mount_device(config, options.kernel));
    is_mounted = true;
    return device;
  };
  return sender.send(mount, start).map_error([&](const Error& failed) {
    if (is_mounted) remove_device(config);
    return Error{failed.code, fmt::format("{}: {}", printable(unit), failed.message)};
  });
}

}  // namespace

Result<void> start_service(const std::string& name, const std::string& mountpoint) {
  const std::string unit = fmt::format("weightfs@{}.service", name);
  const Config config = TRY(read_config(fmt::format("{}/{}.conf", config_directory(), name)));
  const std::string point = MountPoint::of_mount(mountpoint).path();
  if (MountPoint::of_mount(config.mountpoint).path() != point)
    return failure(Code::io, fmt::format("{} mounts at {}, not at {}", printable(unit), printable(config.mountpoint),
                                         printable(mountpoint)));
  if (const auto mount = Mounts::now().on(point); mount && mount->type == "autofs")
    return mount_at_automount_point(config, unit);
  if (run_program({"systemctl", "start", "--", unit}, Stderr::inherited).status != 0)
    return failure(Code::io, fmt::format("{} failed to start", printable(unit)));
  if (Mounts::now().is_weightfs_point(MountPoint::of_mount(point).path())) return {};
  return failure(Code::io, fmt::format("{} started, but did not mount at {}", printable(unit), printable(mountpoint)));
}

}  // namespace weightfs::service
