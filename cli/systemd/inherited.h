// Descriptors that the parent of the process left open: lock files of scripts, sockets of a build server.
#pragma once

namespace weightfs::service {

/// Closes all but the standard ones, those of the service manager (sd_listen_fds(3)) and those that an argument names
/// as /dev/fd/N or /proc/self/fd/N: a shell's <(…), the device of mount.fuse3(8). To be called before others are
/// opened. The sandbox could not refuse to use them.
void close_inherited_descriptors(int argc, const char* const* argv);

}  // namespace weightfs::service
