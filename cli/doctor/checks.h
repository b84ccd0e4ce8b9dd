// What weightfs doctor looks at: each thing that weightfs needs of a machine, whether it is there, and what to do.
#pragma once

#include <string>
#include <vector>

namespace weightfs {

enum class Verdict { ok, warning, failure };

struct Check {
  std::string name;
  Verdict verdict;
  std::string found;
  std::string advice = {};  ///< what to do; empty where there is nothing to do
};

using Checks = std::vector<Check>;

/// Each only while the process has one thread.
Checks check_fuse();     ///< the device, the module, fusermount3, its configuration, mount(8)'s helper
Checks check_cache();    ///< where it is, whether it can be used, room, unfinished fetches
Checks check_limits();   ///< certificates, open files, mounts whose server died
Checks check_kernel();   ///< what the kernel's FUSE offers: nothing of it is a failure
Checks check_sandbox();  ///< what the kernel offers to confine servers

}  // namespace weightfs
