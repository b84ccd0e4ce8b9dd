#include "fs/tree.h"

#include <algorithm>
#include <utility>

namespace weightfs {

std::optional<uint32_t> Tree::find(uint32_t directory, std::string_view name) const {
  const Node& d = nodes_[directory];
  const auto begin = nodes_.begin() + d.first;
  const auto end = begin + d.count;
  const auto found =
      std::lower_bound(begin, end, name, [](const Node& n, std::string_view text) { return n.name() < text; });
  if (found == end || found->name() != name) return std::nullopt;
  return static_cast<uint32_t>(found - nodes_.begin());
}

std::string Tree::path(uint32_t index) const {
  if (index == kRoot) return "";
  const Node& n = nodes_[index];
  if (n.parent == kRoot) return std::string(n.name());
  return path(n.parent).append("/").append(n.name());
}

uint32_t Tree::directories_in(uint32_t directory) const {
  const Node& d = nodes_[directory];
  const auto begin = nodes_.begin() + d.first;
  return static_cast<uint32_t>(std::count_if(
      begin, begin + d.count, [](const Node& n) { return n.kind == NodeKind::directory || n.kind == NodeKind::tree; }));
}

TreeBuilder::TreeBuilder(ModelPtr model) : tree_(new Tree) { tree_->model_ = std::move(model); }

void TreeBuilder::set_modified(Time modified) { tree_->modified_ = modified; }

void TreeBuilder::set_container_bytes(uint64_t bytes) { tree_->container_bytes_ = bytes; }

void TreeBuilder::add(std::string_view path, NodeKind kind, size_t first) {
  sorted_ = false;
  leaves_.push_back({tree_->texts_.add(path), kind, static_cast<uint32_t>(first)});
  kept_ += path.size();
}

void TreeBuilder::add_directory(std::string_view path) { add(path, NodeKind::directory, 0); }

void TreeBuilder::add_file(std::string_view path, Later<SourcePtr> source) {
  add(path, NodeKind::file, tree_->files_.size());
  tree_->files_.push_back(std::move(source));
}

void TreeBuilder::add_dynamic_file(std::string_view path, DynamicFile file) {
  add(path, NodeKind::dynamic, tree_->dynamic_files_.size());
  tree_->dynamic_files_.push_back(std::move(file));
}

void TreeBuilder::add_link(std::string_view path, std::string target) {
  add(path, NodeKind::link, tree_->links_.size());
  tree_->links_.push_back(std::move(target));
}

void TreeBuilder::add_tree(std::string_view path, Time modified, Later<TreePtr> tree) {
  add(path, NodeKind::tree, tree_->trees_.size());
  if (tree_->model_ == nullptr) tree.keep_make();  // a model in a directory can be dropped and read again
  tree_->trees_.push_back({std::move(tree), modified});
}

Result<void> TreeBuilder::add_tensors(const views::View& view) {
  tree_->view_ = &view;
  const auto& tensors = tree_->model_->tensors;
  const BudgetPtr& budget = tree_->model_->budget;
  // Steps are not released after a failure: a directory refused for its memory can be entered repeatedly.
  if (budget != nullptr) TRY_VOID(budget->charge(Cost::step, tensors.size()));
  // Tensors that the view lacks get a path, too: clashes are resolved the same way in all views.
  std::vector<TensorName> names;
  names.reserve(tensors.size());
  for (const Tensor& tensor : tensors) names.push_back({tensor.scope, tensor.name});
  sorted_ = leaves_.empty();
  const uint64_t kept_before = tree_->texts_.size();
  const auto paths = TRY(paths_within(budget.get(), names, view.suffix, tree_->texts_));
  leaves_.reserve(leaves_.size() + paths.size());
  for (const auto& [path, name] : paths)
    if (view.has(*tree_->model_, name)) leaves_.push_back({path, NodeKind::tensor, name});
  tree_->tensor_nodes_.resize(tensors.size(), Tree::kRoot);
  auto charged = charge(budget);
  if (!charged) budget->release(Cost::kept, tree_->texts_.size() - kept_before);
  return charged;
}

Result<void> TreeBuilder::charge(const BudgetPtr& budget) {
  if (budget == nullptr) return {};
  sort_leaves();
  const uint64_t nodes = count_nodes();
  TRY_VOID(budget->charge(Cost::node, nodes));
  auto charged = budget->charge(Cost::kept, std::exchange(kept_, 0));
  if (!charged) budget->release(Cost::node, nodes);
  return charged;
}

void TreeBuilder::sort_leaves() {
  const auto less = [](const Leaf& a, const Leaf& b) { return path_less(a.path, b.path); };
  if (!sorted_) std::stable_sort(leaves_.begin(), leaves_.end(), less);
  sorted_ = true;
}

// The number of nodes of the sorted leaves, without the root: for each leaf, the components that the previous leaf
// lacks. A directory that was added explicitly and is not empty counts twice.
uint64_t TreeBuilder::count_nodes() const {
  uint64_t nodes = 0;
  std::string_view before;
  for (const Leaf& leaf : leaves_) {
    const size_t shortest = std::min(before.size(), leaf.path.size());
    const auto differs = std::mismatch(before.begin(), before.begin() + shortest, leaf.path.begin()).second;
    const auto common = static_cast<size_t>(differs - leaf.path.begin());
    const size_t slash = common == 0 ? leaf.path.npos : leaf.path.rfind('/', common - 1);
    const auto begin = leaf.path.begin() + (slash == leaf.path.npos ? 0 : static_cast<ptrdiff_t>(slash) + 1);
    nodes += 1 + static_cast<uint64_t>(std::count(begin, leaf.path.end(), '/'));
    before = leaf.path;
  }
  return nodes;
}

// Breadth first, so that the children of a directory are adjacent. They are sorted by name, due to path_less.
void TreeBuilder::build_nodes() {
  struct Pending {  // a directory whose leaves are [begin, end), their paths from `at` on
    uint32_t node;
    size_t begin, end, at;
  };
  auto& nodes = tree_->nodes_;
  nodes.reserve(count_nodes() + 1);
  nodes.push_back({"", 0, NodeKind::directory, Tree::kRoot, 0, 0});
  std::vector<Pending> pending{{Tree::kRoot, 0, leaves_.size(), 0}};
  for (size_t next = 0; next < pending.size(); ++next) {
    const Pending d = pending[next];
    const auto first = static_cast<uint32_t>(nodes.size());
    for (size_t i = d.begin; i < d.end;) {
      const std::string_view path = leaves_[i].path;
      const size_t slash = std::min(path.find('/', d.at), path.size());
      const std::string_view name = path.substr(d.at, slash - d.at);
      size_t end = i + 1;
      const auto same_directory = [&](std::string_view other) {
        return other.size() > slash && other[slash] == '/' && other.substr(d.at, slash - d.at) == name;
      };
      while (end < d.end && same_directory(leaves_[end].path)) ++end;
      const auto node = static_cast<uint32_t>(nodes.size());
      const bool leaf = slash == path.size() && leaves_[i].kind != NodeKind::directory;
      nodes.push_back({name.data(), static_cast<uint32_t>(name.size()), leaf ? leaves_[i].kind : NodeKind::directory,
                       d.node, leaf ? leaves_[i].first : 0, 0});
      if (leaf) {
        if (leaves_[i].kind == NodeKind::tensor) tree_->tensor_nodes_[leaves_[i].first] = node;
      } else {
        const size_t inside = slash == path.size() ? i + 1 : i;  // skips the leaf of the directory itself
        pending.push_back({node, inside, end, slash + 1});
      }
      i = end;
    }
    nodes[d.node].first = first;
    nodes[d.node].count = static_cast<uint32_t>(nodes.size()) - first;
  }
}

TreePtr TreeBuilder::freeze() && {
  sort_leaves();
  build_nodes();
  tree_->files_.shrink_to_fit();
  tree_->trees_.shrink_to_fit();
  return std::move(tree_);
}

}  // namespace weightfs
