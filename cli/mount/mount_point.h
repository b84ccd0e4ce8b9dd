// Where a mount is made, and what is mounted there.
#pragma once

#include <string>
#include <vector>

#include "base/os/descriptor.h"
#include "base/result.h"

namespace weightfs {

/// On the root of a mount: the process that serves it, in decimal.
inline constexpr const char* kPidXattr = "user.weightfs.pid";

/// A directory to mount on; made if it is not there, and then removed again.
class MountPoint {
 public:
  /// Fails with io when nothing can be mounted at `path`: it is no directory, or weightfs is mounted there already.
  /// Makes nothing; a weightfs mount whose server died is removed, which standard error is told. Only while the
  /// process has one thread.
  static Result<MountPoint> at(const std::string& path);

  /// Where something is mounted already, or nothing yet. Does not ask the mount, nor wait for an automount point.
  static MountPoint of_mount(const std::string& path);

  const std::string& path() const { return path_; }  ///< absolute, without links

  /// Makes the directory if it is not there.
  Result<void> make();

  /// Keeps any other weightfs from mounting there until it is released, or this process ends: a weightfs mount that is
  /// there by then is ours. Waits for another one that is about to, some seconds at most; fails with io when that has
  /// mounted. That it hides what lies there, standard error is told.
  Result<void> claim();

  void release() { claim_ = Descriptor(); }

  /// Without waiting long for a directory above it that does not answer.
  void remove_if_made() const;

 private:
  explicit MountPoint(std::string path) : path_(std::move(path)) {}

  std::string path_;
  bool made_ = false;
  Descriptor claim_;
};

/// How /proc/mounts names what is mounted: "/srv/a.gguf and 2 more".
std::string name_of_sources(const std::vector<std::string>& sources);

/// Fails with unsupported when a source that is a path lies at or below `point` (absolute, without links): what is
/// mounted there would hide it from the server.
Result<void> check_hides_none(const std::vector<std::string>& sources, const std::string& point);

}  // namespace weightfs
