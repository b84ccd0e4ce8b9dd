// The checks of weightfs doctor: each requirement of weightfs on a machine, its result, and advice.
#pragma once

#include <string>
#include <vector>

namespace weightfs::doctor {

enum class Verdict { ok, warning, failure };

struct Check {
  std::string name;
  Verdict verdict;
  std::string found;
  std::string advice = {};  ///< what to do; may be empty
};

using Checks = std::vector<Check>;

/// Each must be called while the process has one thread.
Checks check_fuse();       ///< the device, the module, fusermount3, its configuration, the helper of mount(8)
Checks check_cache();      ///< directory, permissions, disk space, partial downloads
Checks check_limits();     ///< certificates, open files, mounts whose server died
Checks check_libraries();  ///< their versions; never a failure
Checks check_kernel();     ///< its version, and passthrough by that; never a failure
Checks check_sandbox();    ///< sandbox features of the kernel

}  // namespace weightfs::doctor
