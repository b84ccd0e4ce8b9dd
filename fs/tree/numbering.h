// The inode numbers of a mount. Those of most trees are consecutive; a tree that is updated has a table. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace weightfs {

/// An inode number. It never changes, and is never used again. The numbers of a mount have no gaps as large as a tree:
/// the kernel finds inodes by a hash of the low bits. The root is 1, as in FUSE.
using Ino = uint64_t;

/// A tree of a mount; never 0.
using TreeId = uint64_t;

/// The numbers of the nodes of a tree, by node.
using NodeNumbers = std::shared_ptr<const std::vector<Ino>>;

/// A node of a tree.
struct Position {
  TreeId tree;
  uint32_t index;
};

class Numbering {
 public:
  /// Consecutive numbers for the nodes of a new tree; returns the first, which also is the id of the tree.
  TreeId take(uint32_t nodes);

  /// Takes numbers for a tree that is updated: its root has the number `root`, or the first if there is none.
  TreeId add_updated(uint32_t nodes, std::optional<Ino> root);

  /// The numbers of a tree from add_updated().
  const NodeNumbers& numbers(TreeId tree) const { return updated_.at(tree).numbers; }

  /// Replaces them. A 0 stands for a new number. Old numbers that are not in `numbers` become stale.
  void update(TreeId tree, std::vector<Ino> numbers);

  /// Makes all numbers of a tree from add_updated() stale.
  void remove(TreeId tree);

  /// The node with that number in a tree from add_updated(); nothing for other numbers, and if it is stale.
  std::optional<Position> find(Ino ino) const;

 private:
  // Consecutive numbers of one tree.
  struct Range {
    Ino first;
    TreeId tree;  // 0: all are stale
    uint32_t count;
    uint32_t used;
  };
  struct Updated {
    NodeNumbers numbers;
    std::unordered_map<Ino, uint32_t> nodes;  // by number, without the root
  };

  const Range* range_of(Ino ino) const;
  void release(Ino ino);
  void end(const Range& range);
  void set_numbers(TreeId tree, std::vector<Ino> numbers);

  Ino next_ = 1;
  std::vector<Range> ranges_;  // in the order of their numbers
  size_t ended_ = 0;           // of the ranges
  std::unordered_map<TreeId, Updated> updated_;
};

}  // namespace weightfs
