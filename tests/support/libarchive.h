// What differs between the versions of libarchive that weightfs is built with.
#pragma once

#include <archive.h>

namespace weightfs {

/// Since 3.8 libarchive skips PAX records that it does not use without reading them, and refuses members whose size
/// overflows an offset.
inline bool libarchive_skips_records() { return archive_version_number() >= 3'008'000; }

}  // namespace weightfs
