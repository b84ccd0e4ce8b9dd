// weightfs umount.
#include <memory>

#include "cli/mount_point.h"
#include "cli/verbs.h"

namespace weightfs {

void add_umount(CLI::App& app, Run& run) {
  auto path = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("umount", "unmount, and wait until the server has ended");
  verb->add_option("MOUNTPOINT", *path, "where it is mounted")->required();
  verb->callback([&run, path] {
    run = [path] {
      const auto done = unmount(*path);
      if (done) return Exit::ok;
      complain(done.error());
      return Exit::mount;
    };
  });
}

}  // namespace weightfs
