// The trees of a mount, by number. Trees of models are dropped to save memory, and loaded again when needed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/os/memory.h"
#include "fs/fingerprint.h"
#include "fs/tree.h"

namespace weightfs {

/// An inode number. It never changes. The numbers of a mount have no gaps as large as a tree: the kernel finds inodes
/// by a hash of the low bits. The root is 1, as in FUSE.
using Ino = uint64_t;

/// The limits of a process for the models of a mount.
struct ModelLimits {
  std::function<uint64_t()> memory_used = process_memory_used;    ///< bytes
  std::function<uint64_t()> memory_limit = process_memory_limit;  ///< bytes
};

/// Models are dropped as a whole: an outermost model (in a directory of models, in a store, one of several sources)
/// with all entered trees below it. Callable from any thread.
class GraftedTrees {
  struct OutermostModel;

 public:
  /// A node of a tree. Keeps the tree in memory: its model is not dropped meanwhile.
  struct NodeHandle {
    TreePtr tree_ptr;
    uint32_t number;  ///< of the tree
    uint32_t index;   ///< of the node
    Ino root;         ///< inode number of the tree's root
    Ino first;        ///< node `i` has the number first + i, except the root of a grafted tree
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

  /// The node; nothing if its tree is dropped.
  std::optional<NodeHandle> find_loaded(Ino ino) const;

  /// The node. Loads its tree if it is dropped. Fails as loading does, and with io if the tree differs from the dropped
  /// one.
  Result<NodeHandle> load(Ino ino);

  /// The node of a directory; for a node of kind tree, the root of that tree, which is loaded if necessary. Fails with
  /// not_found if it is not a directory, with resource if memory or numbers for trees are exhausted, and as loading
  /// fails.
  Result<NodeHandle> enter(Ino directory);

  /// The path of `ino` below the added tree, without the components in a tree that cannot be loaded again.
  std::string path(Ino ino);

  /// If the process has no free file descriptor: drops the least recently used half of the models. Returns whether it
  /// dropped any.
  bool free_descriptors();

  uint64_t node_count() const;      ///< of the entered trees
  size_t models_in_memory() const;  ///< outermost models

 private:
  struct Grafted {
    TreePtr tree;  // null if dropped
    Ino root;      // of a grafted tree: the number of the node where it was grafted
    Ino first;     // as in NodeHandle; ascends with the number of the tree
    uint32_t node_count;
    uint32_t model;  // index in models_; or kNoModel or kAddedModel
    // By Node::first of a node of kind tree: the number of the tree that was grafted there, 0 for none. Null if there
    // is none at all.
    std::unique_ptr<uint32_t[]> grafts;
  };
  static constexpr uint32_t kNoModel = UINT32_MAX;         // the tree is above the models
  static constexpr uint32_t kAddedModel = UINT32_MAX - 1;  // it is in a model that was added, which is never dropped

  struct Position {
    uint32_t number;  // of the tree
    uint32_t index;   // of the node
  };

  Position position_of(Ino ino) const;
  NodeHandle handle_of(Position position) const;
  uint32_t grafted_at(const NodeHandle& node) const;
  std::optional<Ino> graft_point(Ino ino) const;
  Result<NodeHandle> reload(const NodeHandle& parent, uint32_t number);
  Result<TreePtr> load_tree(const NodeHandle& node);
  NodeHandle graft(const NodeHandle& parent, TreePtr tree);
  Result<void> check_unchanged(const NodeHandle& parent, uint32_t number, const TreePtr& tree);

  void restore(uint32_t number, TreePtr tree);
  bool is_outermost(uint32_t number) const;

  bool is_above(unsigned eighths) const;
  void drop_above_limit();
  size_t drop_until(const std::function<bool(size_t)>& enough);
  std::vector<uint32_t> unused_models() const;
  bool drop(uint32_t model);

  const ModelLimits limits_;
  std::mutex dropping_;        // one thread drops at a time; locked before mutex_
  mutable std::mutex mutex_;   // guards the rest
  std::deque<Grafted> trees_;  // by number
  Ino next_ = 1;               // Grafted::first of the next tree
  std::deque<std::shared_ptr<OutermostModel>> models_;
  std::unordered_map<uint32_t, uint64_t> fingerprints_;  // of the trees that were dropped, by number
  std::unordered_map<uint32_t, FileIdentities> files_;   // of the models that were dropped, by index in models_
  size_t models_in_memory_ = 0;
  mutable uint64_t uses_ = 0;  // the clock of OutermostModel::last_use
};

}  // namespace weightfs
