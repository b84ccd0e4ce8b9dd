// A frozen directory tree: of a model, of a view of its tensors, or of a directory of models.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/later.h"
#include "base/time.h"
#include "formats/model.h"
#include "fs/names.h"
#include "fs/views/view.h"

namespace weightfs {

struct Origin;
class Tree;
using TreePtr = std::shared_ptr<const Tree>;

enum class NodeKind : uint8_t {
  directory,
  file,     ///< a file with its own Source
  dynamic,  ///< a file whose content is generated each time it is opened; nothing else in a mount changes
  tensor,   ///< a tensor, in the form of the tree's view
  link,     ///< a symbolic link
  tree,     ///< a directory that is another tree, loaded when entered
};

/// The contents of several files.
using LaterFiles = std::shared_ptr<const std::vector<Later<SourcePtr>>>;

/// Generates the content of a dynamic file.
using DynamicFile = std::function<Result<SourcePtr>()>;

/// A node, as a value. The children of a directory are the nodes [first, first + count). For other kinds `first` is an
/// index into the tensors of the model, or into the tree's files, trees or others.
struct Node {
  std::string_view text;    ///< its name, without the suffix
  std::string_view suffix;  ///< of its view, in a tree that shares the nodes of another one
  NodeKind kind;
  uint32_t first;
  uint32_t count;

  std::string name() const { return std::string(text).append(suffix); }
};

/// Immutable and sorted: a lookup is a binary search, a listing is a range. The trees of npy/ and float32/ share the
/// nodes of tensors/ if their names differ only by the suffix; then they are sorted by the name without the suffix.
/// Callable from any thread without a lock.
class Tree {
  struct Key {};  // only TreeBuilder makes trees

 public:
  explicit Tree(Key) {}

  static constexpr uint32_t kRoot = 0;

  uint32_t size() const { return shared_ == nullptr ? size_ : shared_->size_; }
  Node node(uint32_t index) const;

  /// The directory of a node; the root for the root.
  uint32_t parent(uint32_t index) const;

  /// The child of directory `directory` with this name.
  std::optional<uint32_t> find(uint32_t directory, std::string_view name) const;

  /// The path from the root; "" for the root.
  std::string path(uint32_t index) const;

  /// The number of subdirectories of a directory.
  uint32_t directories_in(uint32_t directory) const;

  /// The content of a node of the named kind.
  TensorView tensor(const Node& node) const { return model_->tensors[node.first]; }
  Result<SourcePtr> file(const Node& node) const;               ///< makes it on first use
  std::optional<SourcePtr> known_file(const Node& node) const;  ///< nothing if it was not made yet
  const DynamicFile& dynamic_file(const Node& node) const {
    return std::get<DynamicFile>((*contents_->others)[node.first]);
  }
  const std::string& link(const Node& node) const { return std::get<std::string>((*contents_->others)[node.first]); }
  const Later<TreePtr>& tree(const Node& node) const { return contents_->trees[node.first].tree; }
  size_t tree_count() const { return contents_ == nullptr ? 0 : contents_->trees.size(); }  ///< of kind tree
  Time modified_of_tree(const Node& node) const { return contents_->trees[node.first].modified; }

  const views::View& view() const { return *view_; }  ///< of the nodes of kind tensor; the tree must have one

  const ModelPtr& model() const { return model_; }  ///< null in a directory of models
  Time modified() const { return modified_; }
  /// The SOURCE in the metadata of a model; empty for other trees.
  std::string source() const { return contents_ == nullptr || contents_->source == nullptr ? "" : *contents_->source; }
  /// Null unless the tree can be replaced by a newer one.
  std::shared_ptr<const Origin> origin() const { return contents_ == nullptr ? nullptr : contents_->origin; }
  /// The total size of its containers, if it is the tree of a model or of a directory of models.
  uint64_t container_bytes() const { return contents_ == nullptr ? 0 : contents_->container_bytes; }

 private:
  friend class TreeBuilder;

  // A Node in memory: there may be a million. `first` of a directory is its index in directories() + 1, of the root 0.
  struct PackedNode {
    const char* name;
    uint32_t first;
    uint16_t name_size;
    NodeKind kind;
  };
  // A directory other than the root: the children of the root begin at node 1. In the order of their nodes, so that the
  // children of one end where those of the next begin.
  struct Directory {
    uint32_t node;
    uint32_t first;  // child
  };

  std::span<const PackedNode> nodes() const {
    return {shared_ == nullptr ? nodes_.get() : shared_->nodes_.get(), size()};
  }
  std::span<const Directory> directories() const {
    const auto& contents = shared_ == nullptr ? contents_ : shared_->contents_;
    return contents == nullptr ? std::span<const Directory>() : contents->directories;
  }
  std::optional<uint32_t> find_text(uint32_t directory, std::string_view text) const;

  TreePtr shared_;  // whose nodes it has, with the suffix of view_; null if it has its own
  ModelPtr model_;
  const views::View* view_ = nullptr;
  Time modified_ = 0;
  std::unique_ptr<PackedNode[]> nodes_;
  uint32_t size_ = 0;
  struct Grafted {
    Later<TreePtr> tree;
    Time modified;
  };
  // Data of the nodes that are not tensors, and their names; absent in a tree of tensors without directories and names
  // of its own.
  struct Contents {
    std::vector<Directory> directories;
    std::vector<Later<SourcePtr>> files;
    std::unique_ptr<Later<LaterFiles>> list;  // the files after those; null if there are none
    std::vector<Grafted> trees;
    // Dynamic files and targets of links; null if there are none.
    std::unique_ptr<std::vector<std::variant<DynamicFile, std::string>>> others;
    uint64_t container_bytes = 0;
    std::shared_ptr<const Origin> origin;
    std::shared_ptr<const std::string> source;
    std::unique_ptr<const StringArena> texts;  // names of its own; null if it has none
  };
  std::unique_ptr<Contents> contents_;
};

/// Collects the nodes of a tree, then freezes it. Paths must be unique, and no file may be a parent of another path.
/// A path must exist as long as the tree: a literal, a text of the tree's model, or the result of keep().
class TreeBuilder {
 public:
  /// `model` has the tensors of the tree; null if there are none.
  explicit TreeBuilder(ModelPtr model);

  std::string_view keep(std::string_view path);  ///< a copy of the path, which the tree owns
  void set_modified(Time modified);
  void set_container_bytes(uint64_t bytes);
  void set_origin(std::shared_ptr<const Origin> origin);
  void set_source(std::shared_ptr<const std::string> source);
  void reserve_files(size_t count);           ///< makes room for so many calls of add_file()
  void add_directory(std::string_view path);  ///< a directory that may be empty
  void add_file(std::string_view path, Later<SourcePtr> source);
  /// Adds files whose list is made when the first of them is used: one for each path. Call it at most once, after
  /// add_file().
  void add_files(std::span<const std::string_view> paths, Later<LaterFiles> files);
  void add_dynamic_file(std::string_view path, DynamicFile file);
  void add_link(std::string_view path, std::string target);
  void add_tree(std::string_view path, Time modified, Later<TreePtr> tree);

  /// Adds the tensors of the model that `view` has, at their paths. Call it at most once, and add nothing else to the
  /// tree. Charges the nodes to the model's budget. Fails as Budget::charge does.
  Result<void> add_tensors(const views::View& view);

  /// Shares the nodes of `tensors`, the tree of tensors/, if the tree of `view` differs only by the suffix of the
  /// files. Returns null if it does not. Charges the check to the model's budget, and fails as Budget::charge does.
  static Result<TreePtr> share(TreePtr tensors, const views::View& view);

  /// Charges the added nodes and the kept paths to `budget`, if not null. Call it before freeze().
  Result<void> charge(const BudgetPtr& budget);

  TreePtr freeze() &&;

 private:
  struct Leaf {
    std::string_view path;
    NodeKind kind;
    uint32_t first;
  };

  void add(std::string_view path, NodeKind kind, size_t first);
  Tree::Contents& contents();
  void add_other(std::string_view path, NodeKind kind, std::variant<DynamicFile, std::string> other);
  size_t leaf_count() const { return tensors_.empty() ? leaves_.size() : tensors_.size(); }
  Leaf leaf(size_t i) const;
  void sort_leaves();
  uint64_t count_nodes();
  void build_nodes();

  std::shared_ptr<Tree> tree_;
  std::vector<Leaf> leaves_;
  std::vector<NamedPath> tensors_;  // sorted; a million take less memory than their leaves
  StringArena texts_;               // of the tree
  uint64_t kept_ = 0;               // bytes of kept paths that have not been charged yet
  bool is_sorted_ = true;           // whether the leaves are, as the members of most archives
  std::optional<uint64_t> nodes_;   // of count_nodes(); reset by add()
};

}  // namespace weightfs
