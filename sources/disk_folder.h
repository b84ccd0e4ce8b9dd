// A directory on disk as a Folder, and where files on disk are: below the directory of a SOURCE.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/confined_directory.h"
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
  Result<SourcePtr> open() const { return root->open_file(name, links); }

  /// Something in this directory.
  Location operator/(std::string_view entry) const;

  /// The directory it lies in, which is root for what lies in root.
  Location parent() const;

  std::string file_name() const;
};

/// Whether it is a directory; not when it cannot be examined.
bool is_directory(const Location& location);

/// Whether it is a store of manifests.
bool is_store(const Location& location);

/// Modification time. Years that a Time cannot say become the nearest that it can.
Time modified(const struct stat& status);

/// A regular file that is opened when it is read first; `listed` is what examine() found. Reads fail with io when it
/// has another size by then.
SourcePtr listed_file(Location location, const struct stat& listed);

/// Whether an error says that the rules of the SOURCE's ConfinedDirectory forbid to open a file.
bool is_forbidden(const Error& error);

class DiskFolder final : public Folder {
 public:
  explicit DiskFolder(Location directory) : directory_(std::move(directory)) {}

  Result<std::vector<std::string>> names() const override;
  Result<std::vector<Part>> parts() const override;
  Result<SourcePtr> open(std::string_view name) const override;

  /// Why each file in it that names() leaves out because the rules forbid to open it is left out, a line each; of more
  /// than 100 the rest is counted.
  Result<std::vector<std::string>> forbidden() const;

 private:
  Location directory_;
};

}  // namespace weightfs
