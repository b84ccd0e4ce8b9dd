// mount(8)'s helper: what `mount -t weightfs`, fstab and mount units call, as /sbin/mount.weightfs, which is another
// name of this program.
#pragma once

#include <string_view>

namespace weightfs {

/// Whether a program of this name (argv[0]) is the helper: mount.weightfs, mount.fuse.weightfs.
bool is_mount_helper(std::string_view program);

/// Whether these are the arguments that mount.fuse3(8) calls a file system with: SOURCE DIR -o OPTIONS, no verb.
bool is_called_by_mount_fuse(int argc, const char* const* argv);

/// Mounts as the arguments say: SOURCE DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE] (mount(8), "External
/// helpers"). Returns what mount(8) wants: 0, 1 for wrong arguments, 32 when it cannot be mounted.
int run_mount_helper(int argc, char** argv);

}  // namespace weightfs
