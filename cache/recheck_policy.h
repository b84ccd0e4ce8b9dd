#pragma once

namespace weightfs {

/// When a cached blob is compared again with what was verified, since a disk may return other bytes: each block when it
/// is read for the first time in a process, with its checksum; or all of it with its digest, before its first byte is
/// read in a process; or never.
enum class Recheck { read, full, off };

}  // namespace weightfs
