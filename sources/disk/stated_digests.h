// Digests of files on disk that are stated beside them: in the name of a file in a store of blobs, in the notes of
// huggingface_hub about a download, in lists of checksums, and in the notes of programs that manage models. `info` and
// `verify` get them from the same call.
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

  /// The digests of the files in a directory. It is listed when the first digest is asked for.
  static std::shared_ptr<const StatedDigests> beside(const Location& directory);

  /// The digest of the file at a path. The first of these counts: its name, the notes of huggingface_hub, a list for
  /// this file (`FILE.sha256`), other lists in its directory or above, the notes of programs that manage models. Adds a
  /// line to `warnings` for each list, and each note of such a program, that is invalid, not supported, or beyond the
  /// budget, which may be null.
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

/// Adds a check for each file of a model whose digest is stated, unless the model itself has its SHA-256. The paths of
/// its parts are below the directory of `stated`.
void add_stated_checks(Model& model, const StatedDigests& stated);

/// Adds those of a model that was read from one file: of the file `name`, or of the parts of the model, which are
/// beside it.
void add_stated_checks(Model& model, const StatedDigests& stated, const std::string& name, const SourcePtr& bytes);

}  // namespace weightfs
