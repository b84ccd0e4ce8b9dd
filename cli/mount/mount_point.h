// The mount point of a mount: checks, creation and removal.
#pragma once

#include <string>
#include <vector>

#include "base/os/descriptor.h"
#include "base/result.h"

namespace weightfs {

/// A directory to mount on. It is created if missing, and then removed after the unmount. It is looked up once and held
/// open: while the sources are read, its path may be replaced by a link to another directory.
class MountPoint {
 public:
  /// Fails with io if `path` is not a directory, or if weightfs is already mounted there. A weightfs mount whose server
  /// died is removed, which is reported on standard error. Creates nothing. To be called while the process has one
  /// thread.
  static Result<MountPoint> at(const std::string& path);

  /// The path of an existing or future mount. Sends no request to the mount, and does not trigger an
  /// automount.
  static MountPoint of_mount(const std::string& path);

  const std::string& path() const { return path_; }  ///< absolute, without links

  /// Where to mount, after make(). For root that is the directory itself, whatever is at its path by now. fusermount3
  /// mounts for other users, only on directories that they may write to.
  std::string target() const;

  /// The descriptors that the process needs that calls the methods below.
  std::vector<int> descriptors() const { return {directory_.number(), parent_.number()}; }

  /// Creates the directory if it is missing. Fails with io if the path has changed since at().
  Result<void> make();

  /// Prevents other weightfs processes from mounting there until release() or the end of this process. Waits a few
  /// seconds for another claim; fails with io if that process has mounted. Warns on standard error if the directory is
  /// not empty.
  Result<void> claim();

  /// Ends the claim, and closes the directory: only remove_if_made() may be called then.
  void release() {
    claim_ = Descriptor();
    directory_ = Descriptor();
  }

  /// Removes the directory if make() created it. Does not block if a directory above it is unresponsive.
  void remove_if_made() const;

 private:
  explicit MountPoint(std::string path) : path_(std::move(path)) {}

  std::string path_;
  Descriptor directory_;  // none until make(), if it is missing
  Descriptor parent_;     // of a missing directory
  bool made_ = false;
  Descriptor claim_;
};

/// The source of a mount in /proc/mounts: "/srv/a.gguf and 2 more".
std::string source_label(const std::vector<std::string>& sources);

/// Fails with unsupported if a source path, or a directory of the system such as /etc, is at or below `point`
/// (absolute, without links): the mount would hide it from the server.
Result<void> check_hides_nothing_needed(const std::vector<std::string>& sources, const std::string& point);

}  // namespace weightfs
