// Who keeps a mount busy. Only the kernel is asked, through /proc: a server that hangs does not matter.
#pragma once

#include <string>
#include <vector>

#include "base/os/mounts.h"

namespace weightfs {

struct Holder {
  uint64_t process;
  std::string name;  ///< of its program: any text
  std::string what;  ///< "working directory", or a path in the mount: any text
};

struct Holders {
  std::vector<Holder> found;
  bool is_all = false;  ///< or time was up before everything was looked at
};

/// The processes that use the mount, by their number, with one reason each. Those of other users are seen by root only.
/// Only while the process has one thread.
Holders holders_of(const Mount& mount);

}  // namespace weightfs
