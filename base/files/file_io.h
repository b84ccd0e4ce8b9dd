// Reads and writes of whole ranges of files, and locks and names of open files.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/os/descriptor.h"
#include "base/result.h"

namespace weightfs {

/// Fills `out` from `offset`; returns the number of bytes, fewer than requested only at the end of the file. Fails with
/// io and the reason, without a name; errno is set.
Result<size_t> read_up_to_end(int fd, uint64_t offset, std::span<std::byte> out);

/// Fills `out` from `offset`. Fails with io on an error, for which errno is set, or if the file ends before; the
/// message has `name`.
Result<void> read_fully(int fd, uint64_t offset, std::span<std::byte> out, std::string_view name);

/// Writes all bytes at `offset`; false with errno set on failure.
bool write_fully(int fd, uint64_t offset, std::span<const std::byte> bytes);

/// Locks the file (flock(2)) if it is free. Closing the descriptor or unlock() releases it.
bool try_lock(int fd);
void unlock(int fd);

/// Whether `name` in `folder` is the file open as `fd`. False with errno set: ENOENT if it is another one.
bool is_same_file(const Descriptor& folder, const std::string& name, int fd);

/// The disk space of the file, in bytes.
inline uint64_t on_disk(const struct stat& file) { return static_cast<uint64_t>(file.st_blocks) * 512; }

}  // namespace weightfs
