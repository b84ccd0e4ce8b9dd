// Landlock (landlock(7)): which files this process and its threads may open, and which TCP ports they may use, from now
// on and for good.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace weightfs {

/// The files that a confined process may use. A path is resolved once, when the rules are made; one that does not exist
/// is left out. A directory stands for everything below it.
struct FileAccess {
  std::vector<std::string> read;   ///< files and directories to read
  std::vector<std::string> write;  ///< files to read and write; directories, also to make and remove files in them
};

enum class Network { none, connect };

/// The version of Landlock that the kernel offers; 0 when there is none.
int landlock_version();

/// Allows this thread, which must be the only one of its process and have no_new_privs set, what `files` and `network`
/// name, and no other access to files or TCP ports. Before version 4 the kernel does not restrict ports. Fails with
/// unsupported where Landlock cannot be used (the message has the errno), with io when the kernel refuses the rules.
Result<void> restrict_files(const FileAccess& files, Network network);

}  // namespace weightfs
