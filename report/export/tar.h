// Writes a tar archive (POSIX.1-2001, pax) of regular files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/time.h"

namespace weightfs::exporting {

/// What precedes the bytes of a file: its header, behind an extended header for what does not fit into it.
std::string tar_header(std::string_view path, uint64_t size, Time modified);

/// What follows the bytes of a file.
std::string tar_padding(uint64_t size);

/// What ends the archive.
std::string tar_end();

}  // namespace weightfs::exporting
