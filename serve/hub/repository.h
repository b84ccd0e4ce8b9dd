// A model of the tree as a repository of the Hugging Face Hub: its files, and the commit that names its state.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/time.h"
#include "fs/tree/forest.h"

namespace weightfs::hub {

/// A file. At most one of its digests is set; neither if it is not known without reading a large file.
struct RepositoryFile {
  std::string path;                   ///< in the repository
  std::string place;                  ///< in the tree; empty for those of an origin
  uint64_t size = 0;                  ///< bytes
  std::optional<Digest> sha256 = {};  ///< of a file that the Hub stores in LFS
  std::optional<Sha1> git_id = {};    ///< git_blob_id() of another one
};

/// Which files a repository has.
enum class Shows {
  hub,     ///< those of the model, at the commit of the Hub
  origin,  ///< those of a commit of a Hub, which have no place in the tree (serve/hub/mirror.h)
  files,   ///< those of the model; the commit is a digest of their names, sizes, and digests or identities
  views    ///< the complete model as files of other formats, for clients that choose a file by its name
};

struct Repository {
  std::string id;       ///< "ORG/NAME"
  std::string commit;   ///< 40 hex digits
  std::string license;  ///< empty if the model does not state it
  Time modified = 0;
  std::string place;  ///< of the model in the tree: empty, or with a `/` at its end
  Shows shows = Shows::files;
  std::weak_ptr<const Model> model;   ///< as the tree has it
  std::vector<RepositoryFile> files;  ///< sorted by path

  /// Null if there is none.
  const RepositoryFile* find(std::string_view path) const;
};
using RepositoryPtr = std::shared_ptr<const Repository>;

/// A model in the tree. It is not dropped while a request that found it has this: its files would be another model's.
struct FoundModel {
  std::string place;  ///< as Repository::place
  TreePtr tree;
  std::shared_ptr<const void> in_use = nullptr;  ///< as Forest::Held
};

/// The repository and commit of the Hub that a model is; nothing for other models, and for a part of a repository.
struct HubName {
  std::string id;
  std::string commit;
};
std::optional<HubName> hub_name_of(const std::string& source);

/// Reads the files of a model: opens each for its size, and reads small local ones for their Git object id. Fails as
/// that does, and with unsupported for more than kMaxFiles.
Result<RepositoryPtr> read_repository(Forest& forest, const FoundModel& found, const std::string& id, Shows shows);

/// Whether reading it downloads nothing, and decodes little.
bool is_local(const Source& source);

inline constexpr size_t kMaxFiles = 100'000;
/// The Hub stores larger files in LFS.
inline constexpr uint64_t kMaxSmallFile = 10 << 20;
/// The bytes of small files of one repository that are read for their digests.
inline constexpr uint64_t kMaxHashed = 64 << 20;

/// The pointer that Git has in place of a file in LFS (git-lfs/docs/spec.md).
std::string lfs_pointer(const RepositoryFile& file);

}  // namespace weightfs::hub
