// The cache of huggingface_hub: models--ORG--NAME with blobs/, refs/ and snapshots/COMMIT/, whose files are links to
// blobs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sources/disk_folder.h"

namespace weightfs {

/// The part of a path after its last slash, and the part before it, which is the path itself if it has none.
std::string_view last_component(std::string_view path);
std::string_view parent_of(std::string_view path);

/// A snapshot of a repository in the cache.
struct Snapshot {
  std::string name;                 ///< of its directory in snapshots/, mostly the commit
  std::vector<std::string> others;  ///< of the other snapshots
};

/// The snapshot that a directory of a repository stands for: that of refs/main, else the only one, else the newest.
/// Nothing if the directory is not one of the cache. `entries` are those of the directory.
std::optional<Snapshot> find_snapshot(const Location& directory, const std::vector<DirectoryEntry>& entries);

/// The repository and the commit of the path of a snapshot, `…/models--ORG--NAME/snapshots/COMMIT`; nothing for other
/// paths.
struct CachedCommit {
  std::string repository;  ///< "org/name"
  std::string commit;
};
std::optional<CachedCommit> cached_commit_at(const std::string& path);

/// The name of the blob that a symbolic link leads to, by its text: `../../blobs/HEX`, or
/// `…/models--ORG--NAME/blobs/HEX`. HEX has 64 digits, the SHA-256 of a file in LFS or Xet, or 40, the Git object id of
/// another file. Nothing for other files.
std::optional<std::string> blob_of_link(const Location& location);

}  // namespace weightfs
