// Where a tree comes from: what it is compared with when something has changed, and how it is made again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "sources/source.h"

namespace weightfs {

class Tree;

/// Of the tree of a directory of models, or of a model that a newer one can replace. Immutable.
struct Origin {
  /// The SourceEntry::version of the SOURCE; empty below the root.
  std::string source_version = {};

  /// Of a directory of models, else null.
  std::shared_ptr<const Listing> listing = nullptr;
  /// The versions of its entries, by their paths in the tree.
  std::unordered_map<std::string, std::string> versions = {};
  /// Makes the tree of what is listed now: of a directory of models, or of what the directory is by now. Null if it
  /// cannot be listed again. Fails as opening does.
  std::function<Result<std::shared_ptr<const Tree>>(const Tree& before, Directories)> again = {};

  /// Of a model in a directory on disk: equal if nothing has changed. Null of other models.
  std::string version = {};
  std::function<Result<std::string>()> version_now = {};

  /// The directories on disk that decide all of this.
  std::vector<WatchedDirectory> directories = {};

  std::string version_of(const std::string& path) const {
    const auto found = versions.find(path);
    return found == versions.end() ? std::string() : found->second;
  }
};
using OriginPtr = std::shared_ptr<const Origin>;

}  // namespace weightfs
