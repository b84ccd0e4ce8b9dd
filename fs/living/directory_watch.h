// Reports changes of directories: inotify(7).
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "base/os/descriptor.h"

namespace weightfs {

/// Reports when a file in a watched directory was created, removed, renamed, closed after writing, or had its
/// attributes changed. Not thread-safe.
class DirectoryWatch {
 public:
  /// Without inotify, no directory can be watched; and never more than `most`, or a quarter of the user's watches.
  explicit DirectoryWatch(size_t most);

  /// The number of a watch of an open directory; that of the watch that it has already. Nothing if it cannot be
  /// watched: the user has no watches left (fs.inotify.max_user_watches), or its file system is changed by other
  /// machines or processes, which inotify does not report.
  std::optional<int> add(const Descriptor& directory);

  /// No effect if the directory has been removed.
  void remove(int watch);

  /// What poll(2) waits for; -1 without inotify.
  int descriptor() const { return inotify_.number(); }

  struct Events {
    std::vector<int> watches;  ///< whose directories have changed
    std::vector<int> ended;    ///< whose directories were removed or unmounted: their numbers are free
    bool has_lost = false;     ///< events were lost: any directory may have changed
  };
  /// Those since the last call. Never waits.
  Events read();

 private:
  const size_t most_;
  Descriptor inotify_;
  std::set<int> watches_;
};

}  // namespace weightfs
