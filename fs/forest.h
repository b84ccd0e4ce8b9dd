// Everything that is mounted, as one growing set of immutable trees under stable inode numbers. What the kernel asks,
// and what `weightfs ls`, `cat` and `info` ask without a kernel, is answered here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fs/grafted_trees.h"
#include "fs/tree.h"

namespace weightfs {

/// What stat says, but for what the mount decides (owner, device).
struct Attributes {
  NodeKind kind;  ///< directory and tree are directories, link is a link, all else regular files
  uint64_t size;  ///< bytes; of a link, those of its text
  uint32_t
      links;  ///< a directory's 2 + its directories; 1 for one that is not entered yet (as btrfs has it: not counted)
  Time modified;

  bool is_directory() const { return kind == NodeKind::directory || kind == NodeKind::tree; }
};

/// An extended attribute: its name in full ("user.weightfs.dtype") and its value.
using Xattr = std::pair<std::string, std::string>;

/// Grows by grafting. When memory runs short, the outermost models that were used longest ago are dropped; they are
/// made again when they are used, under the same inode numbers. So any call may have to read a model, and fails with io
/// when that has changed. Callable from any thread.
class Forest {
 public:
  static constexpr Ino kRoot = 1;

  /// `root_xattrs` are shown on the root beside what its tree gives.
  explicit Forest(TreePtr root, std::vector<Xattr> root_xattrs = {}, ModelLimits limits = {});

  /// Shows `tree` as the directory `name` of the root, found by its name but not listed (as the snapshots of other file
  /// systems are), so that no copy of a mount takes it along. Once, before anything is asked.
  void hide(std::string name, TreePtr tree);

  /// Whether it is what was hidden, or lies below that.
  bool is_hidden(Ino ino) const;

  /// The child `name` of a directory; enters the directory if need be. Fails with not_found, or as entering fails.
  Result<Ino> lookup(Ino directory, std::string_view name);

  /// The directory that `ino` lies in; the root's is the root.
  Result<Ino> parent(Ino ino) const;

  /// Makes what has to be made to know the size (renders a text, opens a file), but enters no directory.
  Result<Attributes> attributes(Ino ino) const;

  /// The attributes if nothing has to be made to know them.
  std::optional<Attributes> known_attributes(Ino ino) const;

  /// The attributes of a file of which the size is not known yet, and told as 0.
  Result<Attributes> unsized_attributes(Ino ino) const;

  /// What a directory holds: `count` nodes of `tree` from `first` on, sorted by name; their inode numbers run from
  /// `ino`.
  struct Listing {
    TreePtr tree;
    uint32_t first;
    uint32_t count;
    Ino ino;
  };
  Result<Listing> list(Ino directory);

  /// The bytes of a file. Fails with corrupt for a tensor that was refused.
  Result<SourcePtr> open(Ino ino) const;

  /// Whether it is a file whose content changes.
  bool is_live(Ino ino) const;

  /// The text of a symbolic link.
  Result<std::string> link(Ino ino) const;

  Result<std::vector<Xattr>> xattrs(Ino ino) const;

  /// Whether a link at the end of a path is what is asked for, or what it leads to.
  enum class Last { kept, followed };

  /// The node at `path` (components joined by `/`; empty components and `.` are passed over), as the kernel would find
  /// it: links on the way are followed.
  Result<Ino> resolve(std::string_view path, Last last = Last::kept);

  /// The names from the root to `ino`, joined by `/`; of the model alone when that cannot be read any more.
  std::string path(Ino ino) const;

  /// The model that `ino` belongs to; null above the models, and when it cannot be read any more.
  ModelPtr model_of(Ino ino) const;

  uint64_t container_bytes() const;  ///< of the containers that were mounted
  uint64_t node_count() const;       ///< of the trees that were entered

 private:
  using Place = GraftedTrees::Place;

  Result<SourcePtr> open(const Place& at) const;

  mutable GraftedTrees trees_;  // what was dropped is made again by a call that changes nothing
  std::vector<Xattr> root_xattrs_;
  uint64_t container_bytes_;
  std::string hidden_;  // the name of the tree that is added second; empty when there is none
};

}  // namespace weightfs
