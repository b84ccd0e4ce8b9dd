#include "cli/service/start_service.h"

#include "base/os/mounts.h"
#include "base/text.h"
#include "cli/mount/mount_options.h"
#include "cli/mount/mount_point.h"
#include "cli/process/child_process.h"
#include "cli/service/attach.h"

namespace weightfs {
namespace {

// Whoever waits at the automount point waits until this process ends, and so does whoever comes that way meanwhile: the
// service, too. So this process mounts; from then on they wait for the service to answer.
Result<void> mount_at_automount_point(const Config& config, const std::string& unit) {
  MountOptions options;
  TRY_VOID(take_words(options, config.options, Words::ours));
  Offer offer = TRY(Offer::make(config.name));
  const Running start = TRY(Running::start({"systemctl", "start", "--", unit}));
  bool is_mounted = false;
  // Not before the service has come: systemd goes that way to start it.
  const auto mount = [&]() -> Result<Descriptor> {
    Descriptor device = TRY(mount_device(config, options.kernel));
    is_mounted = true;
    return device;
  };
  return offer.give(mount, start).map_error([&](const Error& failed) {
    if (is_mounted) remove_device(config);
    return Error{failed.code, str(printable(unit), ": ", failed.message)};
  });
}

}  // namespace

Result<void> start_service(const std::string& name, const std::string& mountpoint) {
  const std::string unit = str("weightfs@", name, ".service");
  const Config config = TRY(read_config(str(config_directory(), "/", name, ".conf")));
  const std::string point = MountPoint::of_mount(mountpoint).path();
  if (MountPoint::of_mount(config.mountpoint).path() != point)
    return failure(Code::io, str(printable(unit), " mounts at ", printable(config.mountpoint), ", not at ",
                                 printable(mountpoint)));
  if (const auto mount = Mounts::now().on(point); mount && mount->type == "autofs")
    return mount_at_automount_point(config, unit);
  if (run_program({"systemctl", "start", "--", unit}, Stderr::passed_on).status != 0)
    return failure(Code::io, str(printable(unit), " does not start"));
  if (Mounts::now().is_weightfs_point(MountPoint::of_mount(point).path())) return {};
  return failure(Code::io, str(printable(unit), " has started, but has not mounted at ", printable(mountpoint)));
}

}  // namespace weightfs
