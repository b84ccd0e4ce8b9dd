// The helper of mount(8): called as /sbin/mount.weightfs by `mount -t weightfs`, fstab and mount units. It is a link to
// this program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weightfs {

/// Whether argv[0] is the name of the helper: mount.weightfs or mount.fuse.weightfs.
bool is_mount_helper(std::string_view program);

/// Whether the arguments have the form in which mount.fuse3(8) calls a file system: SOURCE DIR -o OPTIONS, without a
/// verb.
bool is_called_by_mount_fuse(const std::vector<std::string>& words);

/// Mounts: SOURCE DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE] (mount(8), "External helpers"). Returns an exit
/// status of mount(8): 0, 1 for invalid arguments, 32 if mounting failed.
int run_mount_helper(const std::vector<std::string>& words);

}  // namespace weightfs
