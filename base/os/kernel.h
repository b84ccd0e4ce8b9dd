// The few constants of the kernel's interface that the C library does not declare. They are written down here, because
// the headers of the kernel are made for C: a version of Debian 12's linux/ioprio.h has a parameter named `class`.
// tests/kernel_headers_test.py lists the headers of the kernel that may be included.
#pragma once

#include <sys/ioctl.h>

#include <cstdint>

namespace weightfs::kernel {

/// ioprio_set(2), linux/ioprio.h: the priority of one thread, and the class that is served when no other has requests.
inline constexpr int kIoPriorityOfThread = 1;    // IOPRIO_WHO_PROCESS
inline constexpr int kIoPriorityIdle = 3 << 13;  // IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)

/// The argument of FICLONERANGE (ioctl_ficlonerange(2), linux/fs.h), in bytes.
struct CloneRange {
  int64_t source_descriptor;
  uint64_t source_offset;
  uint64_t length;
  uint64_t destination_offset;
};

/// ioctl(2) requests that make files share blocks (linux/fs.h).
inline constexpr unsigned long kClone = _IOW(0x94, 9, int);               // FICLONE
inline constexpr unsigned long kCloneRange = _IOW(0x94, 13, CloneRange);  // FICLONERANGE

/// ioctl_tty(2), asm-generic/ioctls.h: the attributes of a terminal, as isatty(3) asks for them since glibc 2.42. Its
/// argument, `struct termios2`, has 44 bytes.
inline constexpr unsigned long kTerminalAttributes = _IOR('T', 0x2A, char[44]);  // TCGETS2

/// statfs(2), linux/magic.h: `f_type` of a FUSE file system.
inline constexpr long kFuseMagic = 0x65735546;  // FUSE_SUPER_MAGIC

/// `f_type` of file systems that only the kernel of this machine changes; linux/magic.h has all but the last three.
inline constexpr long kLocalMagics[] = {
    0xEF53,      // EXT4_SUPER_MAGIC
    0x58465342,  // XFS_SUPER_MAGIC
    0x9123683E,  // BTRFS_SUPER_MAGIC
    0x01021994,  // TMPFS_MAGIC
    0x794C7630,  // OVERLAYFS_SUPER_MAGIC
    0xF2F52010,  // F2FS_SUPER_MAGIC
    0x858458F6,  // RAMFS_MAGIC
    0x73717368,  // SQUASHFS_MAGIC
    0x2011BAB0,  // EXFAT_SUPER_MAGIC
    0x4D44,      // MSDOS_SUPER_MAGIC
    0x9660,      // ISOFS_SUPER_MAGIC
    0x2FC12FC1,  // zfs
    0xCA451A4E,  // bcachefs
    0x7366746E,  // ntfs3
};

/// netlink(7), linux/netlink.h: the protocol of addresses and routes.
inline constexpr int kNetlinkRoute = 0;  // NETLINK_ROUTE

}  // namespace weightfs::kernel
