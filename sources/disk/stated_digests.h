// Digests of files on disk that lie beside their bytes: in the name of a file in a store of blobs, in what
// huggingface_hub notes when it downloads a file to a directory, in lists of checksums, and in what managers of models
// note. `info` and `verify` have them from the same call.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.h"
#include "sources/disk/digest_notes.h"
#include "sources/disk_folder.h"

namespace weightfs {

/// The names that a list of checksums may have one directory above this one, which the lines call `directory`.
std::vector<std::string> names_of_lists_above(std::string_view directory);

/// The stated digests of the files below a directory. Callable from any thread.
class StatedDigests {
 public:
  /// `paths`: of the files below `top`, sorted by byte.
  StatedDigests(Location top, const std::vector<std::string>& paths);

  /// Those of the files of a directory, which is listed when one is asked for.
  static std::shared_ptr<const StatedDigests> beside(const Location& directory);

  /// The digest of the file at a path, by the first of: its name, the notes of huggingface_hub, a list for this file
  /// (`FILE.sha256`), other lists in its directory or above, the notes of managers of models. Adds a line to
  /// `warnings` for each list and note of the latter that is not valid, not supported, or beyond the budget, which may
  /// be null.
  std::optional<StatedDigest> find(const std::string& path, Budget* budget, std::vector<std::string>& warnings) const;

 private:
  struct Files;
  struct Lists;
  explicit StatedDigests(Location top, Later<std::shared_ptr<const Files>> files);

  Location top_;
  Later<std::shared_ptr<const Files>> files_;
  Later<std::shared_ptr<const Lists>> lists_;
  Later<std::vector<Downloads>> downloads_;
};

/// Adds the files of a model whose digests are stated, and that have none in the model, to Model::named_blobs. The
/// paths of its parts are below the directory of `stated`.
void add_named_blobs(Model& model, const StatedDigests& stated);

/// Adds the container file of a model, or the files beside it, likewise.
void add_named_blobs(Model& model, const StatedDigests& stated, const std::string& name, const SourcePtr& bytes);

}  // namespace weightfs
