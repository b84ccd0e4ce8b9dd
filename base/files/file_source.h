// Regular files as sources.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/files/confined_directory.h"
#include "base/source.h"

namespace weightfs {

/// Opens a regular file and records its inode, size, modification and change time. After one of them changed, or
/// another file took the path, this read and all later ones fail with io: bytes of two versions never mix. A change
/// time that a rename, link, unlink, chmod or chown explains is accepted if no other user can write the file (see
/// is_private_file). A read fails with Code::resource if the work of the calling thread was cancelled (base/cancel.h).
/// Fails with not_found or io.
Result<SourcePtr> open_file(const std::string& path);

/// The file `name` in a directory, see ConfinedDirectory::open(). It is closed when it is not in use
/// (base/files/open_files.h), and opened again by the next read, which fails with io if the name does not lead to the
/// same unchanged file.
Result<SourcePtr> open_file(const ConfinedDirectoryPtr& directory, const std::string& name,
                            ConfinedDirectory::Links links = ConfinedDirectory::Links::by_rules);

/// A regular file as stat(2) found it: the fields that are compared later, in half of the memory.
struct FileStatus {
  explicit FileStatus(const struct stat& file);

  /// The beginning of Source::identity() of the file; a content_mark() follows there.
  std::string identity() const;

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
