// A directory that a user named, and all that may be opened below it: with openat2(2) relative to the open directory,
// so that its entries, which other users may write, cannot lead to a file elsewhere.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/descriptor.h"
#include "base/os/path_walk.h"
#include "base/result.h"
#include "base/source.h"

namespace weightfs {

/// A file or directory that a user named, at one moment.
struct NamedFile {
  Descriptor descriptor;  ///< opened with O_PATH
  struct stat status;
  /// The first owners, other than root, of a symbolic link and of a directory on the way to it.
  std::optional<uid_t> link_owner;
  std::optional<uid_t> directory_owner;
};

/// Follows every symbolic link on the way. Fails with not_found or io, naming the path, which is absolute.
Result<NamedFile> find_named_file(const std::string& path);

/// An entry of a directory.
struct DirectoryEntry {
  std::string name;
  unsigned char type;  ///< DT_REG, DT_DIR, DT_LNK, ...: readdir(3); DT_UNKNOWN for what has gone
};

/// The entries of a directory that was opened for OpenFor::list, without `.` and `..`, sorted by byte. Fails with io;
/// the message gives the reason and no path.
Result<std::vector<DirectoryEntry>> entries_of(const Descriptor& directory);

/// Names are relative to the directory, components joined by `/`; an empty one is the directory itself. What a name
/// leads to is decided by the Confinement, see PathWalk::open. All methods may be called from any thread. Errors name
/// the path; those of what the Confinement forbids have the code unsupported.
class ConfinedDirectory {
 public:
  /// `path` is what messages call it: absolute.
  ConfinedDirectory(Descriptor directory, std::string path, Confinement rules);

  std::string path_of(std::string_view name) const;

  /// Which links are followed. `named`: the name is the SOURCE itself, all links.
  enum class Links { by_rules, named };

  /// Fails with not_found and io.
  Result<struct stat> examine(const std::string& name, Links links = Links::by_rules) const;

  /// Opens a regular file.
  Result<SourcePtr> open_file(const std::string& name, Links links = Links::by_rules) const;

  /// Opens a directory to be listed, or whatever it is to be looked at.
  Result<OpenedPath> open(const std::string& name, OpenFor purpose) const { return open_by(rules_, name, purpose); }

  /// entries_of() that directory.
  Result<std::vector<DirectoryEntry>> list(const std::string& name) const;

 private:
  Confinement rules_for(Links links) const;
  Result<OpenedPath> open_by(const Confinement& rules, const std::string& name, OpenFor purpose) const;

  std::shared_ptr<const Descriptor> directory_;
  std::string path_;
  Confinement rules_;
};

using ConfinedDirectoryPtr = std::shared_ptr<const ConfinedDirectory>;

}  // namespace weightfs
