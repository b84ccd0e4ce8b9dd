// Where a mount is made, and what is mounted there.
#pragma once

#include <string>

#include "base/result.h"

namespace weightfs {

/// On the root of a mount: the process that serves it, in decimal.
inline constexpr const char* kPidXattr = "user.weightfs.pid";

/// A directory to mount on; made if it is not there, and then removed again.
class MountPoint {
 public:
  /// Fails with io when nothing can be mounted at `path`: it is no directory, or weightfs is mounted there already.
  /// Makes nothing.
  static Result<MountPoint> at(const std::string& path);

  /// Where something is mounted already, or nothing yet. Does not ask the mount, nor wait for an automount point.
  static MountPoint of_mount(const std::string& path);

  const std::string& path() const { return path_; }  ///< absolute, without links

  /// Makes the directory if it is not there.
  Result<void> make();

  void remove_if_made() const;

 private:
  explicit MountPoint(std::string path) : path_(std::move(path)) {}

  std::string path_;
  bool made_ = false;
};

/// Unmounts weightfs at `path` and waits until its server has ended. A mount whose server died is removed too. Fails
/// with io when weightfs is not mounted there or cannot be unmounted.
Result<void> unmount(const std::string& path);

/// Takes the mount at `path`, which is absolute and without links, out of the tree at once: who uses it goes on, if
/// there is a server. Fails with io.
Result<void> unmount_lazily(const std::string& path);

}  // namespace weightfs
