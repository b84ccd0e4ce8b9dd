// Files on disk below the directory of a SOURCE, and a directory on disk as a Folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/confined_directory.h"
#include "base/files/file_source.h"
#include "base/time.h"
#include "formats/format.h"

namespace weightfs {

/// A file or directory below the directory of a SOURCE.
struct Location {
  ConfinedDirectoryPtr root;
  std::string name = {};  ///< relative to root; empty: root itself
  ConfinedDirectory::Links links = ConfinedDirectory::Links::by_rules;

  std::string path() const { return root->path_of(name); }  ///< absolute, for messages and for the tree

  Result<struct stat> examine() const { return root->examine(name, links); }
  Result<SourcePtr> open() const { return open_file(root, name, links); }

  /// An entry of this directory.
  Location operator/(std::string_view entry) const;

  /// Its directory; the root for entries of the root.
  Location parent() const;

  std::string file_name() const;
};

/// The text of a symbolic link; nothing if it is not one.
std::optional<std::string> link_text(const Location& location);

/// Whether it is a directory; false if it cannot be examined.
bool is_directory(const Location& location);

/// Whether it is a store of manifests: it has the directories manifests/ and blobs/.
bool is_store(const Location& location);

/// The modification time, limited to the range of Time.
Time modified(const struct stat& status);

/// A regular file that is opened by its first read; `listed` is the result of examine(). Reads fail with io if its size
/// has changed.
SourcePtr listed_file(Location location, const struct stat& listed);

/// Whether an error means that the rules of the SOURCE's ConfinedDirectory forbid to open a file.
bool is_forbidden(const Error& error);

class DiskFolder final : public Folder {
 public:
  explicit DiskFolder(Location directory)
      : directory_(std::move(directory)),
        inside_([directory = directory_] { return directory.root->below(directory.name); }) {}

  Result<std::vector<std::string>> names() const override;
  Result<std::vector<Part>> parts() const override;
  Result<SourcePtr> open(std::string_view name) const override;
  Result<SourcePtr> open_below(std::string_view path, std::string_view referrer) const override;

 private:
  Location directory_;
  Later<ConfinedDirectoryPtr> inside_;  // the same directory, from which no link leads out
};

}  // namespace weightfs
