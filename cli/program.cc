#include "cli/verbs.h"

namespace weightfs {

Command program() {
  Command program{"weightfs", "Mount machine-learning model files as read-only directories."};
  program.commands = {mount_command(), umount_command(), mounts_command(),  ls_command(),     cat_command(),
                      info_command(),  stats_command(),  diff_command(),    export_command(), verify_command(),
                      fetch_command(), cache_command(),  service_command(), doctor_command(), completion_command()};
  return program;
}

}  // namespace weightfs
