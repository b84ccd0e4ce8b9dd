// The trees of a mount, by number. Trees of models are dropped to save memory, and loaded again when needed. Those of
// living directories are replaced by newer ones.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/os/memory.h"
#include "fs/tree/fingerprint.h"
#include "fs/tree/numbering.h"
#include "fs/tree/tree.h"

namespace weightfs {

/// The limits of a process for the models of a mount.
struct ModelLimits {
  std::function<uint64_t()> memory_used = process_memory_used;    ///< bytes
  std::function<uint64_t()> memory_limit = process_memory_limit;  ///< bytes
};

/// What the kernel has to forget after a living directory has changed.
struct Changes {
  struct Name {
    Ino directory;
    std::string name;
  };
  std::vector<Name> names;       ///< that were added, removed or replaced
  std::vector<Ino> directories;  ///< whose listings or times have changed
};

/// Models are dropped as a whole: an outermost model (in a directory of models, in a store, one of several sources)
/// with all entered trees below it. Callable from any thread.
///
/// The nodes of a tree with an Origin are numbered one by one, so that an unchanged node keeps its number when the tree
/// is updated. The numbers of removed nodes, and of all nodes below them, are stale: they are never used again.
class GraftedTrees {
  struct OutermostModel {
    // What is remembered of a model that was dropped.
    struct Dropped {
      FileIdentities files;
      std::unordered_map<TreeId, uint64_t> fingerprints;
    };
    std::vector<TreeId> trees;  // the model's own tree first
    uint64_t last_use = 0;
    size_t number = 0;                               // in models_
    std::shared_ptr<const Origin> origin = nullptr;  // of its own tree
    std::unique_ptr<Dropped> dropped = nullptr;      // since it was dropped for the first time
  };

 public:
  static constexpr Ino kRoot = 1;

  /// A node of a tree. Keeps the tree in memory: its model is not dropped meanwhile.
  struct NodeHandle {
    TreePtr tree_ptr;
    TreeId id;            ///< of the tree
    uint32_t index;       ///< of the node
    Ino root;             ///< inode number of the tree's root
    Ino first;            ///< node `i` has the number first + i, except the root of a grafted tree
    NodeNumbers numbers;  ///< those of the nodes instead, of a tree that can be updated
    std::shared_ptr<const OutermostModel> in_use;

    const Tree& tree() const { return *tree_ptr; }
    Node node() const { return tree_ptr->node(index); }
    Ino ino_of(uint32_t node) const;
    Ino ino() const { return ino_of(index); }
  };

  explicit GraftedTrees(ModelLimits limits) : limits_(std::move(limits)) {}

  /// Adds a tree that is never dropped; returns the inode number of its root, which is 1 for the first. Call it before
  /// any other function.
  Ino add(TreePtr tree);

  /// See Forest.
  void set_on_entered(std::function<void(Ino)> on_entered) { on_entered_ = std::move(on_entered); }

  /// The node; nothing if its tree is dropped, or it is stale.
  std::optional<NodeHandle> find_loaded(Ino ino) const;

  /// The node. Loads its tree if it is dropped. Fails as loading does, with io if the tree differs from the dropped
  /// one, and with stale.
  Result<NodeHandle> load(Ino ino);

  /// The node of a directory; for a node of kind tree, the root of that tree, which is loaded if necessary. Fails with
  /// not_found if it is not a directory, with resource if memory or numbers for trees are exhausted, with stale, and as
  /// loading fails.
  Result<NodeHandle> enter(Ino directory);

  /// The node of an added tree that `ino` is, or is below; `ino` if it is stale.
  Ino in_added(Ino ino) const;

  /// The path of `ino` below the added tree, without the components in a tree that cannot be loaded again.
  std::string path(Ino ino);

  /// Replaces the tree that was grafted at `directory` (kRoot: the first that was added) by a newer one of the same
  /// origin, if it still is `before`. Nodes with the same path, kind and version (Origin) keep their numbers and what
  /// is below them; the others become stale.
  Changes update(Ino directory, const TreePtr& before, const TreePtr& tree);

  /// Replaces the first tree that was added by any other; all its nodes become stale.
  Changes replace_root(TreePtr tree);

  /// The tree in memory that was grafted at `directory`; null if there is none.
  TreePtr tree_at(Ino directory) const;

  /// What was grafted at a directory, if it has an Origin; nothing if the directory is stale. The tree is null while it
  /// is dropped.
  struct Followed {
    std::shared_ptr<const Origin> origin;
    TreePtr tree;
  };
  std::optional<Followed> followed(Ino directory) const;

  /// The entry of a directory of models at which something was grafted: that directory, its tree, and the node in it.
  struct Entry {
    Ino directory;
    TreePtr tree;
    uint32_t node;
  };
  std::optional<Entry> followed_entry(Ino directory) const;

  /// The entry of the innermost directory of models that `ino` is, or is below; nothing if it is not below one, or
  /// stale.
  std::optional<Ino> entry_above(Ino ino) const;

  /// The directories of trees with an Origin around `ino`, the innermost first.
  std::vector<Ino> followed_above(Ino ino) const;

  /// If the process has no free file descriptor: drops the least recently used half of the models. Returns whether it
  /// dropped any.
  bool free_descriptors();

  uint64_t node_count() const;      ///< of the entered trees
  size_t models_in_memory() const;  ///< outermost models

 private:
  struct Grafted {
    TreeId id;              // the first number of its nodes, if they are not numbered one by one
    TreePtr tree;           // null if dropped
    Ino root;               // of a grafted tree: the number of the node where it was grafted
    OutermostModel* model;  // null: the tree is above the models, or in a model that is never dropped
    // At Node::first + 1 of a node of kind tree: the tree that was grafted there, 0 for none; at 0 their number. Null
    // if there is none at all.
    std::unique_ptr<TreeId[]> grafts;
    uint32_t node_count;
    bool is_in_model;  // or is itself one
    bool is_updated;   // its nodes are numbered one by one
    bool has_ended;    // it was removed
  };

  static std::unique_ptr<TreeId[]> make_grafts(size_t count);
  Grafted* find_tree(TreeId id) const;
  Grafted& tree_of(TreeId id) const { return *find_tree(id); }

  std::optional<Position> position_of(Ino ino) const;
  NodeHandle handle_of(Position position) const;
  TreeId grafted_at(Position position) const;
  std::optional<Ino> graft_point(Ino ino) const;
  Result<NodeHandle> reload(const NodeHandle& parent, TreeId id);
  Result<TreePtr> load_tree(const NodeHandle& node);
  Result<NodeHandle> graft(Ino at, TreePtr tree);
  Result<void> check_unchanged(const NodeHandle& parent, TreeId id, const TreePtr& tree);

  TreeId insert(TreePtr tree, std::optional<Ino> root, const Grafted* above);
  void remove(TreeId id, std::vector<TreePtr>& removed);
  void forget_ended();
  void restore(TreeId id, TreePtr tree);
  bool is_outermost(TreeId id) const;
  std::shared_ptr<const Origin> origin_of(TreeId id) const;

  bool is_above(unsigned eighths) const;
  void drop_above_limit();
  size_t drop_until(const std::function<bool(size_t)>& enough);
  std::vector<std::weak_ptr<OutermostModel>> unused_models() const;
  bool drop(const std::weak_ptr<OutermostModel>& unused);

  const ModelLimits limits_;
  std::function<void(Ino)> on_entered_;
  std::mutex dropping_;                // one thread drops at a time; locked before mutex_
  mutable std::mutex mutex_;           // guards the rest
  mutable std::deque<Grafted> trees_;  // by id
  size_t ended_ = 0;                   // of the trees
  Numbering numbering_;
  TreeId root_ = 0;
  std::vector<std::shared_ptr<OutermostModel>> models_;
  size_t models_in_memory_ = 0;
  mutable uint64_t uses_ = 0;  // the clock of OutermostModel::last_use
};

}  // namespace weightfs
