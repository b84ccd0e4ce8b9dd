// A frozen directory tree: what one model, one list of tensors, or one directory of models looks like.
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
  file,    ///< a source of its own
  live,    ///< a file whose content is made anew each time that it is opened: the one thing in a mount that changes
  tensor,  ///< a tensor, as the tree's view shows it
  link,    ///< a symbolic link
  tree,    ///< a directory that is another tree, made when it is entered
};

/// What a live file holds at the moment.
using Live = std::function<Result<SourcePtr>()>;

/// One node. What `first` and `count` say depends on `kind`: a directory's children are the nodes [first, first +
/// count); for every other kind `first` is an index into what the tree shows (tensors of the model, files, links,
/// trees).
struct Node {
  const char* name_begin;
  uint32_t name_size;
  NodeKind kind;
  uint32_t parent;
  uint32_t first;
  uint32_t count;

  std::string_view name() const { return {name_begin, name_size}; }
};

/// Sorted and immutable: found by binary search, listed as a range, read from any thread without a lock.
class Tree {
 public:
  static constexpr uint32_t kRoot = 0;

  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }
  const Node& node(uint32_t index) const { return nodes_[index]; }

  /// The child of directory `directory` with this name.
  std::optional<uint32_t> find(uint32_t directory, std::string_view name) const;

  /// Components from the root, joined by `/`; "" for the root.
  std::string path(uint32_t index) const;

  /// How many of a directory's children are directories.
  uint32_t directories_in(uint32_t directory) const;

  /// What a node of these kinds shows.
  const Tensor& tensor(const Node& node) const { return model_->tensors[node.first]; }
  const Later<SourcePtr>& file(const Node& node) const { return files_[node.first]; }
  const Live& live(const Node& node) const { return lives_[node.first]; }
  const std::string& link(const Node& node) const { return links_[node.first]; }
  const Later<TreePtr>& tree(const Node& node) const { return trees_[node.first].tree; }
  Time modified_of_tree(const Node& node) const { return trees_[node.first].modified; }

  /// The node that shows the tensor with this index; the root if none does.
  uint32_t node_of_tensor(size_t tensor) const { return tensor_nodes_[tensor]; }

  const views::View& view() const { return *view_; }  ///< of the nodes of kind tensor; there must be some

  const ModelPtr& model() const { return model_; }  ///< null in a directory of models
  Time modified() const { return modified_; }
  uint64_t container_bytes() const { return container_bytes_; }  ///< how many bytes the containers in it have

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
  std::vector<Live> lives_;
  std::vector<std::string> links_;
  struct Grafted {
    Later<TreePtr> tree;
    Time modified;
  };
  std::vector<Grafted> trees_;
  Texts texts_;
};

/// Collects what a tree holds, then freezes it. Paths are unique and none runs through another's file.
class TreeBuilder {
 public:
  /// `model` has the tensors that nodes show; null where there are none.
  explicit TreeBuilder(ModelPtr model);

  void set_modified(Time modified);
  void set_container_bytes(uint64_t bytes);
  void add_directory(std::string_view path);  ///< one that is there even when nothing lies in it
  void add_file(std::string_view path, Later<SourcePtr> source);
  void add_live(std::string_view path, Live live);
  void add_link(std::string_view path, std::string target);
  void add_tree(std::string_view path, Time modified, Later<TreePtr> tree);

  /// Adds the tensors of the model that `view` has, at their paths; at most one view in a tree. Charges their nodes to
  /// the model's budget, and fails as that does.
  Result<void> add_tensors(const views::View& view);

  /// Charges the nodes of what was added, and their names, to `budget`; does nothing when it is null. Before freeze().
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
  void lay_nodes();

  std::shared_ptr<Tree> tree_;
  std::vector<Leaf> leaves_;
  uint64_t kept_ = 0;  // bytes of paths that the tree keeps and that have not been charged
  bool sorted_ = false;
};

}  // namespace weightfs
