// The rows of the table of blocks: which nodes of the tree of names are in each, and how a row is replaced by its
// children.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/summary/name_tree.h"

namespace weightfs::summary {

/// Nodes that are shown as one row.
struct BlockRow {
  struct Entry {
    NameTree::Index node;
    uint32_t member;  ///< of the row
    uint32_t outer;   ///< the member of the outermost fold that it is in
  };

  std::string path;
  std::vector<Entry> entries;
  uint64_t bytes = 0;
  uint32_t members = 1;
  // The outermost fold; a block that differs from its siblings is a fold of one.
  std::optional<size_t> fold;
  std::string fold_path;
  uint32_t fold_members = 1;
  bool is_final = false;  ///< cannot be replaced by its children, or does not fit

  bool is_small(uint64_t total) const { return bytes < total / 100 + (total % 100 != 0 ? 1 : 0); }
};

/// Replaces rows by their children.
class RowExpansion {
 public:
  explicit RowExpansion(const NameTree& tree) : tree_(tree), total_(tree[NameTree::kRoot].bytes) {}

  /// The row of the whole tree.
  BlockRow root() const;

  /// Whether a row has one child, so that its replacement costs no line.
  bool has_one_child(const BlockRow& row) const;

  enum class Excess { refuse, merge_smallest };
  /// The children of a row, in stored order. Those below one percent in one outermost fold are one row. Nothing if
  /// there are more than `most`, unless the smallest may be merged.
  std::optional<std::vector<BlockRow>> children(const BlockRow& row, size_t most, Excess excess);

  /// Replaces the row at `place` by its children and merges the rows below one percent of each outermost fold, if there
  /// are two or more. False if the table would have more than `most` rows; then it is unchanged.
  bool replace(std::vector<BlockRow>& rows, size_t place, std::vector<BlockRow> children, size_t most) const;

 private:
  // Children that become a row.
  struct Group {
    std::string_view text;  // the name; of numbered ones, and of those with a common first word, the stem
    enum { named, numbered, stem } how = named;
    NameTree::Index first = 0;  // of its children
    uint64_t bytes = 0;
    size_t begin = 0, entries = 0;  // of its children, when they are sorted
    bool is_merged = false;         // shown in the row of the others
  };
  struct Child {
    BlockRow::Entry entry;  // with the members of the parent
    uint32_t group;
  };
  struct Children {
    std::vector<Group> groups;  // in stored order
    std::vector<Child> all;     // after sort_by_group(), those of one group in a row
    void sort_by_group();
    std::span<const Child> of(const Group& group) const { return std::span(all).subspan(group.begin, group.entries); }
  };

  std::vector<std::string_view> common_stems(NameTree::Index block) const;
  Children group_children(const BlockRow& row) const;
  bool merge_groups(const BlockRow& row, Children& found, size_t most, Excess excess) const;
  BlockRow row_of(const BlockRow& parent, const Children& found, const Group& group);
  BlockRow others_of(const BlockRow& parent, const Children& found) const;
  bool can_expand(NameTree::Index node) const;
  bool is_mergeable(const BlockRow& row) const;

  const NameTree& tree_;
  uint64_t total_;
  size_t folds_ = 0;  // numbers of outermost folds
};

}  // namespace weightfs::summary
