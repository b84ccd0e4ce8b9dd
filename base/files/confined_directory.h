// A directory that a user named, and safe access to everything below it. Files are opened with openat2(2) relative to
// the open directory, so its entries, which other users may write, cannot redirect an access elsewhere.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/path_walk.h"
#include "base/os/descriptor.h"
#include "base/result.h"

namespace weightfs {

/// A file or directory that a user named, as it was when it was opened.
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
  unsigned char type;  ///< DT_REG, DT_DIR, DT_LNK, ... (readdir(3)); DT_UNKNOWN for an entry that has disappeared
};

/// The entries of a directory that was opened for OpenFor::list, without `.` and `..`, sorted by byte. Fails with io;
/// the message has the reason without the path.
Result<std::vector<DirectoryEntry>> entries_of(const Descriptor& directory);

/// Names are relative to the directory, components joined by `/`; the empty name is the directory itself. The
/// Confinement decides which links are followed, see PathWalk::open. Callable from any thread. Errors name the path; an
/// access that the Confinement forbids fails with unsupported.
class ConfinedDirectory {
 public:
  /// `path`: the directory's absolute path, for messages.
  ConfinedDirectory(Descriptor directory, std::string path, Confinement rules);

  std::string path_of(std::string_view name) const;

  int number() const { return directory_.number(); }  ///< the descriptor, which is valid as long as this object

  /// Which links are followed. `named`: all, because the name is the SOURCE itself.
  enum class Links { by_rules, named };

  /// Fails with not_found and io.
  Result<struct stat> examine(const std::string& name, Links links = Links::by_rules) const;

  /// Opens a file or a directory. A regular file becomes a Source by open_file() (base/files/file_source.h).
  Result<OpenedPath> open(const std::string& name, OpenFor purpose, Links links = Links::by_rules) const;

  /// A subdirectory from which no link leads out, except with `follow_links`; by default not even a link of the
  /// mounting user. Fails as open() does.
  Result<std::shared_ptr<const ConfinedDirectory>> below(const std::string& name) const;

  /// The entries of a directory, as entries_of().
  Result<std::vector<DirectoryEntry>> list(const std::string& name) const;

 private:
  Confinement rules_for(Links links) const;
  Result<OpenedPath> open_once(const Confinement& rules, const std::string& name, OpenFor purpose) const;

  Descriptor directory_;
  std::string path_;
  Confinement rules_;
};

using ConfinedDirectoryPtr = std::shared_ptr<const ConfinedDirectory>;

}  // namespace weightfs
