// Which directories are shown by weightfs itself: a mount that fed on its own bytes would wait for itself, one that
// showed itself would never end.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace weightfs {

/// What is mounted in this mount namespace at one moment, as the kernel tells it: without asking any file system, some
/// of which may be stuck, or may be served by this very process.
class Mounts {
 public:
  static Mounts now();

  /// Whether the path, which is absolute, lies on a weightfs mount, as far as its names tell: links are not followed.
  bool is_on_weightfs(const std::string& path) const;

  /// Whether weightfs is mounted at that very path, which is absolute and without links; its server may be dead.
  bool is_weightfs_point(const std::string& path) const;

  /// The type of what is mounted at that very path: the one mounted last, which covers the others. Empty: nothing is.
  std::string type_at(const std::string& path) const;

  /// The device of the weightfs mount at that very path, if there is one.
  std::optional<dev_t> weightfs_at(const std::string& path) const;

  /// Whether that is the device of a weightfs mount, which tells it of any open file.
  bool is_weightfs(dev_t device) const;

 private:
  struct Mount {
    dev_t device;
    std::string point;
    std::string type;

    bool is_weightfs() const;
  };

  std::vector<Mount> mounts_;  // the one mounted last comes last
};

/// Whether `path` is `directory` or lies below it; both absolute, without `.` and `..`.
bool is_at_or_below(const std::string& path, const std::string& directory);

}  // namespace weightfs
