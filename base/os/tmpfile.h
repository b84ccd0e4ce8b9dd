// Unnamed temporary files (O_TMPFILE): the kernel deletes them when the process ends, however it ends.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace weightfs {

/// Where temporary files may be large: $TMPDIR, then /var/tmp, then /tmp, which is often in memory.
std::vector<std::string> tmpfile_directories();

/// A descriptor, close-on-exec, of a new file in `directory` that has no name; -1 and errno when there can be none.
int open_tmpfile(const std::string& directory);

/// Replaces the implementation of open_tmpfile(), for a process that may not open files itself. Call it only while the
/// process has one thread.
void set_tmpfile_opener(std::function<int(const std::string& directory)> opener);

}  // namespace weightfs
