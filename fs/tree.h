// A frozen directory tree: of a model, of a view of its tensors, or of a directory of models.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
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

/// Generates the content of a dynamic file.
using DynamicFile = std::function<Result<SourcePtr>()>;

/// A node. The children of a directory are the nodes [first, first + count). For other kinds `first` is an index into
/// the tensors of the model, or into the tree's files, dynamic files, links or trees.
struct Node {
  const char* name_begin;
  uint32_t name_size;
  NodeKind kind;
  uint32_t parent;
  uint32_t first;
  uint32_t count;

  std::string_view name() const { return {name_begin, name_size}; }
};

/// Immutable and sorted: a lookup is a binary search, a listing is a range. Callable from any thread without a lock.
class Tree {
 public:
  static constexpr uint32_t kRoot = 0;

  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }
  const Node& node(uint32_t index) const { return nodes_[index]; }

  /// The child of directory `directory` with this name.
  std::optional<uint32_t> find(uint32_t directory, std::string_view name) const;

  /// The path from the root; "" for the root.
  std::string path(uint32_t index) const;

  /// The number of subdirectories of a directory.
  uint32_t directories_in(uint32_t directory) const;

  /// The content of a node of the named kind.
  const Tensor& tensor(const Node& node) const { return model_->tensors[node.first]; }
  const Later<SourcePtr>& file(const Node& node) const { return files_[node.first]; }
  const DynamicFile& dynamic_file(const Node& node) const { return dynamic_files_[node.first]; }
  const std::string& link(const Node& node) const { return links_[node.first]; }
  const Later<TreePtr>& tree(const Node& node) const { return trees_[node.first].tree; }
  Time modified_of_tree(const Node& node) const { return trees_[node.first].modified; }

  /// The node of the tensor with this index in the model; the root if the view does not have it.
  uint32_t node_of_tensor(size_t tensor) const { return tensor_nodes_[tensor]; }

  const views::View& view() const { return *view_; }  ///< of the nodes of kind tensor; the tree must have one

  const ModelPtr& model() const { return model_; }  ///< null in a directory of models
  Time modified() const { return modified_; }
  uint64_t container_bytes() const { return container_bytes_; }  ///< total size of its containers

 private:
  friend class TreeBuilder;
  Tree() = default;

  ModelPtr model_;
  const views::View* view_ = nullptr;
  Time modified_ = 0;
  uint64_t container_bytes_ = 0;
  std::vector<Node> nodes_;
  std::vector<uint32_t> tensor_nodes_;
  std::vector<Later<SourcePtr>> files_;
  std::vector<DynamicFile> dynamic_files_;
  std::vector<std::string> links_;
  struct Grafted {
    Later<TreePtr> tree;
    Time modified;
  };
  std::vector<Grafted> trees_;
  StringArena texts_;
};

/// Collects the nodes of a tree, then freezes it. Paths must be unique, and no file may be a parent of another path.
class TreeBuilder {
 public:
  /// `model` has the tensors of the tree; null if there are none.
  explicit TreeBuilder(ModelPtr model);

  void set_modified(Time modified);
  void set_container_bytes(uint64_t bytes);
  void add_directory(std::string_view path);  ///< a directory that may be empty
  void add_file(std::string_view path, Later<SourcePtr> source);
  void add_dynamic_file(std::string_view path, DynamicFile file);
  void add_link(std::string_view path, std::string target);
  void add_tree(std::string_view path, Time modified, Later<TreePtr> tree);

  /// Adds the tensors of the model that `view` has, at their paths. Call it at most once. Charges the nodes to the
  /// model's budget. Fails as Budget::charge does.
  Result<void> add_tensors(const views::View& view);

  /// Charges the added nodes and names to `budget`, if not null. Call it before freeze().
  Result<void> charge(const BudgetPtr& budget);

  TreePtr freeze() &&;

 private:
  struct Leaf {
    std::string_view path;
    NodeKind kind;
    uint32_t first;
  };

  void add(std::string_view path, NodeKind kind, size_t first);
  void sort_leaves();
  uint64_t count_nodes() const;
  void build_nodes();

  std::shared_ptr<Tree> tree_;
  std::vector<Leaf> leaves_;
  uint64_t kept_ = 0;  // bytes of added paths that have not been charged yet
  bool sorted_ = false;
};

}  // namespace weightfs
