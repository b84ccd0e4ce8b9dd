// Builds the root tree of a mount from its SOURCE arguments, and newer ones when directories or names have changed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fs/layout/model_files.h"
#include "fs/tree/tree.h"
#include "sources/source.h"

namespace weightfs {

/// For one source: its tree. For several: a directory of each name (the second of a name gets `~2`), opened when
/// entered. Fails as find_source() does; for one source also as opening it does, and with unsupported for a directory
/// without models.
/// `files` is about views/.
Result<TreePtr> open_sources(const std::vector<std::string>& sources, const OpenOptions& options, MayOpen proof,
                             const ModelFileOptions& files = {});

/// The tree of a model, or of a directory of models. Fails as opening it does, and with unsupported for a directory
/// without models.
Result<TreePtr> open_entry(const SourceEntry& entry, const ModelFileOptions& files);

/// The root tree after all names were resolved again, and all directories at the top listed again.
struct Refreshed {
  TreePtr tree;               ///< the one before if nothing has changed; null if the new one cannot be opened
  bool is_same_directory;     ///< a newer tree of the same directory of models, for Forest::update()
  std::vector<Error> errors;  ///< of sources that could not be found; they stay as they are, or are removed
  std::string version = {};   ///< SourceEntry::version of one source
};

/// The root trees of a mount, one after the other. Not thread-safe, with the trees that are listed again.
class SourceTrees {
 public:
  /// refresh() uses `absolute`, the same sources without relative paths: the working directory may have changed by
  /// then.
  SourceTrees(std::vector<std::string> sources, std::vector<std::string> absolute, OpenOptions options, MayOpen proof,
              ModelFileOptions files);

  /// As open_sources(). Call it once.
  Result<TreePtr> open();

  /// `before` is the tree so far, with an Origin. Fails as open_sources() does, for one source also if it does not
  /// exist any more.
  Result<Refreshed> refresh(const TreePtr& before) const;

  const ModelFileOptions& files() const { return files_; }

 private:
  class Names;

  static Listing followed(const std::shared_ptr<const Names>& names,
                          const std::shared_ptr<std::vector<SourceEntry>>& entries, Listing listing);
  Result<Refreshed> refresh_one(const TreePtr& before) const;

  const std::vector<std::string> sources_;
  const std::vector<std::string> absolute_;
  const OpenOptions options_;
  const MayOpen proof_;
  const ModelFileOptions files_;
  // The names of several sources; null for one.
  std::shared_ptr<const Names> names_;
  std::shared_ptr<std::vector<SourceEntry>> entries_;  // those of the last tree
};

/// The tree of a directory of models in which the node `entry` is opened again; the others are shared.
TreePtr with_reopened(const Tree& directory, uint32_t entry);

}  // namespace weightfs
