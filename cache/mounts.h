// Which directories are shown by weightfs itself: a mount that fed on its own bytes would wait for itself.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace weightfs {

/// What is mounted in this mount namespace at one moment, as the kernel tells it: without asking any file system, some
/// of which may be stuck, or may be served by this very process.
class Mounts {
 public:
  static Mounts now();

  /// Whether the path, which is absolute, lies on a weightfs mount, as far as its names tell: links are not followed.
  bool is_on_weightfs(const std::string& path) const;

  /// Whether that is the device of a weightfs mount, which tells it of any open file.
  bool is_weightfs(dev_t device) const;

 private:
  struct Mount {
    dev_t device;
    std::string point;
    bool weightfs;
  };

  std::vector<Mount> mounts_;  // the one mounted last comes last
};

/// Fails with unsupported when the directory lies on a weightfs mount, or will when it is made.
Result<void> check_not_in_a_mount(const std::string& directory);

}  // namespace weightfs
