// What tells two files apart that have equal device, inode, size and times: the author of a disk image chooses all but
// the device, and a loop device shows one image after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace weightfs {

/// As many bytes of each end are read.
inline constexpr size_t kMarkedBytes = 4096;

/// A hash, as hexadecimal digits, of the id of a file system and of the ends of a file.
std::string content_mark(uint64_t file_system, uint64_t size, std::span<const std::byte> head,
                         std::span<const std::byte> tail);

/// That of an open file of this size. Fails with io.
Result<std::string> content_mark(int fd, uint64_t size);

}  // namespace weightfs
