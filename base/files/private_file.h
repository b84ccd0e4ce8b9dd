// Whether other users can write a file.
#pragma once

#include <sys/stat.h>

namespace weightfs {

/// Whether only this process's user and root can write the file: one of them owns it, and its mode allows no others to
/// write, or only a group without other members (a user private group).
bool is_private_file(const struct stat& file);

/// As is_private_file(), of a file with this mode, owner and group.
bool is_private(mode_t mode, uid_t user, gid_t group);

/// Whether the open file cannot be written to without changing its mode or attributes first: it is immutable
/// (chattr(1), fs-verity), or it is private and its mode permits no user to write. Root can write to it anyway.
bool is_write_protected(int fd, const struct stat& file);

}  // namespace weightfs
