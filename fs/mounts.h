// What is mounted in this mount namespace, as the kernel tells it: without asking any file system, some of which may be
// stuck.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

namespace weightfs {

/// Whether weightfs is mounted at `path`, which is absolute and without links; its server may be dead.
bool is_weightfs_mount(const std::string& path);

/// The devices of all weightfs mounts.
std::set<dev_t> weightfs_devices();

}  // namespace weightfs
