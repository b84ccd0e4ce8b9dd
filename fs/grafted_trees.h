// The trees of a mount, by number: those in memory, and those of models that were dropped to save memory, which are
// made again when they are needed.
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
#include "fs/tree.h"

namespace weightfs {

/// An inode number: the tree's number and the node's, for ever. The root is 1, as FUSE has it.
using Ino = uint64_t;

/// What a process may use for the models of a mount.
struct ModelLimits {
  std::function<uint64_t()> memory_used = process_memory_used;    ///< bytes
  std::function<uint64_t()> memory_limit = process_memory_limit;  ///< bytes
  std::function<size_t()> max_models;                             ///< in memory; by default half of RLIMIT_NOFILE

  ModelLimits();
};

/// The outermost models (in a directory of models, in a store, one of several sources) are the unit of dropping: each
/// with all trees that were entered below it. Callable from any thread.
class GraftedTrees {
  struct OutermostModel;

 public:
  /// A node of a tree. It keeps the tree in memory, and its model from being dropped.
  struct Place {
    TreePtr tree_ptr;
    uint32_t number;  ///< of the tree
    uint32_t index;   ///< of the node
    Ino root;         ///< what the tree's root answers to
    std::shared_ptr<const OutermostModel> in_use;

    const Tree& tree() const { return *tree_ptr; }
    const Node& node() const { return tree_ptr->node(index); }
    Ino ino_of(uint32_t node) const;
    Ino ino() const { return ino_of(index); }
  };

  explicit GraftedTrees(ModelLimits limits) : limits_(std::move(limits)) {}

  /// Adds a tree that is never dropped, and whose root answers to `root`; before anything else is called.
  void add(TreePtr tree, Ino root);

  /// The node; nothing when its tree has been dropped.
  std::optional<Place> find(Ino ino) const;

  /// The node. Makes its tree again when it has been dropped; fails with io when the tree differs from the dropped one,
  /// and as making fails.
  Result<Place> place(Ino ino);

  /// The directory's own place, or the root of the tree that it is, which is made if need be. Fails with not_found when
  /// it is no directory, with unavailable when there is no memory for more trees, and as making fails.
  Result<Place> enter(Ino directory);

  /// The names from the root of the tree that was added to `ino`, joined by `/`; without those in a tree that cannot be
  /// made again.
  std::string path(Ino ino);

  /// When the process has no descriptor left: drops half of the models, those used longest ago. Whether it dropped any.
  bool free_descriptors();

  uint64_t node_count() const;      ///< of the trees that were entered
  size_t models_in_memory() const;  ///< outermost models that can be dropped

 private:
  struct Grafted {
    TreePtr tree;  // null: dropped
    Ino root;
    uint32_t node_count;
    uint32_t model;                       // its place in models_; kNever
    bool in_model;                        // a model's tree, or below one
    std::optional<uint64_t> fingerprint;  // of a tree that was dropped
  };
  static constexpr uint32_t kNever = UINT32_MAX;

  Place place_of(uint32_t number, uint32_t index) const;
  std::optional<Ino> grown_from(Ino ino) const;
  Result<Place> remade(const Place& parent, uint32_t number);
  Result<TreePtr> make(const Place& node);
  Place graft(const Place& parent, TreePtr tree);
  Result<void> check_unchanged(const Place& parent, uint32_t number, const TreePtr& tree);

  void restore(uint32_t number, TreePtr tree);
  bool is_outermost(uint32_t number) const;

  bool is_used(unsigned eighths) const;
  void make_room();
  size_t drop_until(const std::function<bool(size_t)>& enough);
  std::vector<uint32_t> unused_models() const;
  bool drop(uint32_t model);

  const ModelLimits limits_;
  std::mutex dropping_;                      // one thread drops at a time; taken before mutex_
  mutable std::mutex mutex_;                 // guards the rest
  std::deque<Grafted> trees_;                // by number
  std::unordered_map<Ino, uint32_t> grown_;  // node of kind tree → number of the tree that grew there
  std::deque<std::shared_ptr<OutermostModel>> models_;
  size_t models_in_memory_ = 0;
  mutable uint64_t uses_ = 0;  // counts uses, to order them
};

}  // namespace weightfs
