// The cache of huggingface_hub on this machine, which is read and never written: models--ORG--REPO/ has refs/REVISION
// (a commit), snapshots/COMMIT/ (links to blobs) and blobs/ (files that are named by their hashes).
#pragma once

#include <optional>
#include <string>

#include "protocols/huggingface.h"

namespace weightfs::huggingface {

/// The commit of `name.revision`, of which there is a snapshot. Its facts are the repository and the commit.
std::optional<Revision> find_cached_revision(const Name& name);

/// The files of a snapshot that are links to blobs of the same repository, with the hashes that name these. It may lack
/// files of the commit; a warning says so, and there is one for each of the first files that are left out. Empty if
/// there is no snapshot. Fails with unsupported beyond the limits of a list, and with io.
Result<CommitFiles> list_cached_files(const Name& name, const std::string& commit);

/// The bytes of the blob with the name of a Git object, if there is one of this size. Not verified.
std::optional<std::string> read_cached_git_file(const Name& name, const Sha1& id, uint64_t size);

}  // namespace weightfs::huggingface
