// Regular files that are open already, as sources.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/os/confined_directory.h"
#include "base/os/descriptor.h"
#include "base/source.h"

namespace weightfs {

/// As open_file(path), of `file`, which was opened as `name` in `directory`, or where that is null by its path `name`.
/// A file in a directory is closed when it is not in use (base/os/open_files.h), and opened again by the next read,
/// which fails with io if the name does not lead to the same unchanged file. Fails with io when it is not a regular
/// file.
Result<SourcePtr> source_of_file(Descriptor file, ConfinedDirectoryPtr directory, std::string name,
                                 ConfinedDirectory::Links links);

/// A regular file as stat(2) found it: the fields that are compared later, in half of the memory.
struct FileStatus {
  explicit FileStatus(const struct stat& file);

  std::string identity() const;  ///< as Source::identity()

  dev_t device;
  ino_t inode;
  uint64_t size;
  uint64_t occupied;  ///< as Source::occupied()
  timespec modified;
  timespec changed;
  mode_t mode;
  uid_t user;
  gid_t group;
};

}  // namespace weightfs
