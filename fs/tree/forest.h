// The content of a mount: a growing set of immutable trees with stable inode numbers. It serves the requests of the
// kernel, and those of `weightfs ls`, `cat` and `info`, which work without a mount.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fs/tree/grafted_trees.h"
#include "fs/tree/tree.h"

namespace weightfs {

/// The result of stat, without the owner and device.
struct Attributes {
  NodeKind kind;  ///< directory and tree are directories, link is a symbolic link, the others are regular files
  uint64_t size;  ///< bytes; the length of a link's target
  /// 2 + its subdirectories for a directory; 1 for one that is not entered yet (as in btrfs: not counted).
  uint32_t links;
  Time modified;

  bool is_directory() const { return kind == NodeKind::directory || kind == NodeKind::tree; }
};

/// An extended attribute: its full name ("user.weightfs.dtype") and its value.
using Xattr = std::pair<std::string, std::string>;

/// Grows by grafting. When memory is short, the least recently used outermost models are dropped. They are loaded again
/// on use, with the same inode numbers. So any call may read a model, and fails with io if the model has changed.
/// Callable from any thread.
class Forest {
 public:
  static constexpr Ino kRoot = GraftedTrees::kRoot;

  /// `root_xattrs` are the extended attributes of the root.
  explicit Forest(TreePtr root, std::vector<Xattr> root_xattrs = {}, ModelLimits limits = {});

  /// Adds `tree` as the directory `name` of the root. It is found by name but not listed (as .zfs is), so that a
  /// recursive copy of a mount omits it. Call it at most once, before any request.
  void add_unlisted(std::string name, TreePtr tree);

  /// Whether it is the unlisted directory, or is below it. Reads no model.
  bool is_unlisted(Ino ino) const;

  /// The child `name` of a directory. Enters the directory if necessary. Fails with not_found, or as entering fails.
  Result<Ino> lookup(Ino directory, std::string_view name);

  /// The parent directory; the root for the root.
  Result<Ino> parent(Ino ino) const;

  /// Renders a text or opens a file if its size is not known otherwise. Does not enter directories.
  Result<Attributes> attributes(Ino ino) const;

  /// The attributes, if they are known without rendering, opening or loading anything.
  std::optional<Attributes> known_attributes(Ino ino) const;

  /// A tensor, by its index in Model::tensors.
  struct TensorRef {
    ModelPtr model;
    size_t index;
  };
  /// The tensor whose file it is, in any view; nothing for other files, and if its model was dropped.
  std::optional<TensorRef> tensor_of(Ino ino) const;

  /// The attributes of a file whose size is not known yet, with size 0.
  Result<Attributes> unsized_attributes(Ino ino) const;

  /// The entries of a directory: `count` nodes of `tree` from `first` on, sorted as in the Tree.
  struct Listing {
    TreePtr tree;
    uint32_t first;
    uint32_t count;
    Ino ino;              ///< of the first entry; those of the others follow
    NodeNumbers numbers;  ///< the numbers of all nodes of the tree instead, of a directory that can change

    Ino ino_of(uint32_t entry) const { return numbers == nullptr ? ino + entry : (*numbers)[first + entry]; }
    bool can_change() const { return numbers != nullptr; }
  };
  Result<Listing> list(Ino directory);

  /// The tree of a directory, whose model is not dropped while `in_use` exists. It may still be replaced.
  struct Held {
    TreePtr tree;
    std::shared_ptr<const void> in_use;  ///< null above the models, which are never dropped
  };
  /// Enters the directory, and fails as list().
  Result<Held> hold(Ino directory);

  /// The content of a file. Fails with corrupt for a refused tensor.
  Result<SourcePtr> open(Ino ino) const;

  /// The SHA-256 of `source`, the content of a file, if the container or a manifest states it.
  std::optional<Digest> digest(Ino ino, const SourcePtr& source) const;

  /// Whether it is a dynamic file.
  bool is_dynamic(Ino ino) const;

  /// The target of a symbolic link.
  Result<std::string> link(Ino ino) const;

  /// The attributes: name, dtype and shape for a tensor's files; for every file how its bytes are verified
  /// (Source::verification()), as far as that is known without opening it.
  Result<std::vector<Xattr>> xattrs(Ino ino) const;

  /// Whether a symbolic link at the end of a path is followed.
  enum class FinalLink { kept, followed };

  /// Resolves `path` as the kernel does: symbolic links on the path are followed, empty components and `.` are ignored.
  Result<Ino> resolve(std::string_view path, FinalLink final_link = FinalLink::kept);

  /// The path from the root to `ino`; the path of its model if that can no longer be read.
  std::string path(Ino ino) const;

  /// The model that `ino` belongs to; null above the models, and if the model can no longer be read.
  ModelPtr model_of(Ino ino) const;

  /// As GraftedTrees::update() and replace_root(), for the thread that follows directories.
  Changes update(Ino directory, const TreePtr& before, const TreePtr& tree);
  Changes replace_root(TreePtr tree);
  TreePtr tree_at(Ino directory) const { return trees_.tree_at(directory); }
  std::optional<GraftedTrees::Followed> followed(Ino directory) const { return trees_.followed(directory); }
  std::optional<GraftedTrees::Entry> followed_entry(Ino directory) const { return trees_.followed_entry(directory); }
  std::optional<Ino> entry_above(Ino ino) const { return trees_.entry_above(ino); }
  std::vector<Ino> followed_above(Ino ino) const { return trees_.followed_above(ino); }

  /// `on_entered` is called with each directory whose tree has an Origin, when it is entered for the first time; by the
  /// thread that enters it. Call it before any request.
  void set_on_entered(std::function<void(Ino)> on_entered) { trees_.set_on_entered(std::move(on_entered)); }

  uint64_t container_bytes() const;  ///< of the mounted containers
  uint64_t node_count() const;       ///< of the entered trees

 private:
  using NodeHandle = GraftedTrees::NodeHandle;

  Result<SourcePtr> open(const NodeHandle& at) const;
  static std::vector<Xattr> xattrs_of_file(const NodeHandle& at);

  mutable GraftedTrees trees_;  // mutable: const calls load dropped models again
  std::vector<Xattr> root_xattrs_;
  std::atomic<uint64_t> container_bytes_;
  std::string unlisted_;  // the name of the second added tree; empty if there is none
  Ino unlisted_root_ = 0;
  bool unlisted_has_trees_ = false;  // others may be grafted below it
  Ino unlisted_end_ = 0;             // its nodes have the numbers from unlisted_root_ to this one
};

}  // namespace weightfs
