#pragma once

namespace weightfs {

/// When a cached blob is compared with its verified content again, because a disk may return other bytes: `read`: the
/// checksum of each block at its first read in a process; `full`: the digest of the whole blob before its first read in
/// a process; `off`: never.
enum class Recheck { read, full, off };

}  // namespace weightfs
