// Landlock (landlock(7)): restricts for good which files this process and its threads can open, and which TCP ports
// they can use.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace weightfs::sandbox {

/// The files that a confined process can use. Paths are resolved once, when the rules are created; missing files are
/// skipped. A directory includes everything below it.
struct FileAccess {
  std::vector<std::string> read;   ///< files and directories to read
  std::vector<std::string> write;  ///< files to read and write; in directories also to create and remove files
};

enum class Network { none, connect };

/// The version of Landlock in the kernel; 0 if it is not available.
int landlock_version();

/// Permits this thread only the access in `files` and `network`. It must be the only thread of the process, and
/// no_new_privs must be set. Before version 4 ports are not restricted. Fails with unsupported if Landlock is not
/// available (the message has the errno), with io if the kernel refuses the rules.
Result<void> restrict_files(const FileAccess& files, Network network);

}  // namespace weightfs::sandbox
