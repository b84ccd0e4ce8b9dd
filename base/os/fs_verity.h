// fs-verity (Documentation/filesystems/fsverity.rst): the kernel makes a file read-only for good, and verifies each
// block that it reads of it.
#pragma once

namespace weightfs {

/// Enables fs-verity of a file, with SHA-256, blocks of 4096 bytes and no salt. `fd` is open for reading only, and no
/// process has the file open for writing. Reads the whole file, so it may take long. Returns whether fs-verity of the
/// file is enabled now: false where the file system or the kernel does not support it, the file is open for writing, or
/// it cannot be enabled for another reason; the file is unchanged then.
bool enable_fs_verity(int fd);

}  // namespace weightfs
