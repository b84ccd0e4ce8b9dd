// Where a tree comes from: what it is compared with when something has changed, and how it is made again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fs/tree/tree.h"
#include "sources/source.h"

namespace weightfs {

/// The version of an entry of a directory of models.
struct EntryVersion {
  uint64_t source = 0;    ///< a hash of SourceEntry::version
  uint32_t reopened = 0;  ///< how often the same was opened again
  bool operator==(const EntryVersion&) const = default;
};

/// Where the tree of a directory of models comes from, or that of a model that a newer one can replace. Immutable.
struct Origin {
  /// The SourceEntry::version of the SOURCE; empty below the root.
  std::string source_version = {};

  /// For a directory of models: the versions of its directories and of its files, by Node::first.
  std::vector<EntryVersion> trees = {};
  std::vector<EntryVersion> files = {};
  /// The number of its entries that are files with models.
  size_t model_files = 0;
  /// Makes the tree of what is listed now: of a directory of models, or of what the directory is by now. Null if it
  /// cannot be listed again. Fails as opening does.
  std::function<Result<TreePtr>(const Tree& before, Directories)> again = {};

  /// For a model in a directory on disk: equal if nothing has changed. Null for other models.
  std::string version = {};
  std::function<Result<std::string>()> version_now = {};

  /// The directories on disk that decide all of this.
  std::vector<WatchedDirectory> directories = {};

  /// The version of a node of kind tree or file.
  const EntryVersion& version_of(const Node& node) const {
    return node.kind == NodeKind::tree ? trees[node.first] : files[node.first];
  }
};
using OriginPtr = std::shared_ptr<const Origin>;

}  // namespace weightfs
