// Unnamed temporary files (O_TMPFILE): the kernel deletes them when the process ends, however it ends.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace weightfs {

/// Where temporary files may be large: $TMPDIR, then /var/tmp, then /tmp, which is often in memory.
std::vector<std::string> tmpfile_directories();

/// The descriptor, close-on-exec, of a new unnamed file in `directory`; -1 with errno on failure.
int open_tmpfile(const std::string& directory);

/// Replaces the implementation of open_tmpfile(), for a process that may not open files itself. Call it only while the
/// process has one thread.
void set_tmpfile_opener(std::function<int(const std::string& directory)> opener);

}  // namespace weightfs
