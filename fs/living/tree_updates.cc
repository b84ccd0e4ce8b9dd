// The part of GraftedTrees that replaces trees by newer ones.
#include <algorithm>
#include <set>
#include <utility>

#include "fs/tree/grafted_trees.h"
#include "fs/tree/origin.h"

namespace weightfs {
namespace {

// Compares a tree of a directory of models with the one that it replaces.
class TreeComparison {
 public:
  TreeComparison(const Tree& before, const Tree& after, const std::vector<Ino>& numbers)
      : before_(before), after_(after), numbers_(numbers), is_kept_(before.size()) {
    find_kept();
    find_changes();
  }

  /// The node of the older tree that this node of the newer one is; nothing if it is new.
  std::optional<uint32_t> same_as(uint32_t node) const { return same_as_[node]; }
  bool is_kept(uint32_t node_before) const { return is_kept_[node_before]; }
  Changes take_changes() { return std::move(changes_); }

 private:
  void find_kept() {
    same_as_.resize(after_.size());
    same_as_[Tree::kRoot] = Tree::kRoot;
    is_kept_[Tree::kRoot] = true;
    // Directories precede what is in them.
    for (uint32_t i = 1; i < after_.size(); ++i) {
      const auto directory = same_as_[after_.parent(i)];
      if (!directory) continue;
      const auto before = before_.find(*directory, after_.node(i).name());
      if (!before || !is_same(*before, i)) continue;
      same_as_[i] = before;
      is_kept_[*before] = true;
    }
  }

  bool is_same(uint32_t before, uint32_t after) const {
    const NodeKind kind = after_.node(after).kind;
    if (before_.node(before).kind != kind) return false;
    if (kind == NodeKind::directory) return true;
    return before_.origin()->version_of(before_.node(before)) == after_.origin()->version_of(after_.node(after));
  }

  // Names in directories that are kept. The kernel drops everything below a name with it.
  void find_changes() {
    std::set<Ino> directories;
    const auto add = [&](Ino directory, std::string name) {
      directories.insert(directory);
      changes_.names.push_back({directory, std::move(name)});
    };
    for (uint32_t i = 1; i < before_.size(); ++i)
      if (const uint32_t in = before_.parent(i); !is_kept_[i] && is_kept_[in])
        add(numbers_[in], before_.node(i).name());
    for (uint32_t i = 1; i < after_.size(); ++i) {
      const auto in = same_as_[after_.parent(i)];
      if (same_as_[i] || !in) continue;
      const std::string name = after_.node(i).name();
      if (!before_.find(*in, name)) add(numbers_[*in], name);
    }
    if (before_.modified() != after_.modified()) directories.insert(numbers_[Tree::kRoot]);
    changes_.directories.assign(directories.begin(), directories.end());
  }

  const Tree& before_;
  const Tree& after_;
  const std::vector<Ino>& numbers_;  // of the older tree
  std::vector<std::optional<uint32_t>> same_as_;
  std::vector<bool> is_kept_;
  Changes changes_;
};

}  // namespace

Changes GraftedTrees::update(Ino directory, const TreePtr& before, const TreePtr& tree) {
  std::vector<TreePtr> removed;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  const auto at = position_of(directory);
  if (!at) return {};
  const TreeId id = directory == kRoot ? root_ : grafted_at(*at);
  if (id == 0 || tree_of(id).tree != before || !tree_of(id).is_updated) return {};
  Grafted& grafted = tree_of(id);
  const NodeNumbers numbers = numbering_.numbers(id);
  TreeComparison compared(*before, *tree, *numbers);
  std::vector<Ino> next(tree->size());
  auto grafts = make_grafts(tree->tree_count());
  for (uint32_t i = 0; i < tree->size(); ++i) {
    const auto same = compared.same_as(i);
    if (!same) continue;
    next[i] = (*numbers)[*same];
    if (tree->node(i).kind == NodeKind::tree) grafts[tree->node(i).first + 1] = grafted_at({id, *same});
  }
  for (uint32_t i = 0; i < before->size(); ++i)
    if (const TreeId below = compared.is_kept(i) ? 0 : grafted_at({id, i}); below != 0) remove(below, removed);
  numbering_.update(id, std::move(next));
  removed.push_back(std::exchange(grafted.tree, tree));
  grafted.grafts = std::move(grafts);
  grafted.node_count = tree->size();
  forget_ended();
  return compared.take_changes();
}

Changes GraftedTrees::replace_root(TreePtr tree) {
  std::vector<TreePtr> removed;
  Changes changes{{}, {kRoot}};
  const std::scoped_lock lock(mutex_);
  for (const TreePtr& each : {tree_of(root_).tree, tree}) {
    const Node root = each->node(Tree::kRoot);
    for (uint32_t i = 0; i < root.count; ++i) changes.names.push_back({kRoot, each->node(root.first + i).name()});
  }
  remove(root_, removed);
  root_ = insert(std::move(tree), kRoot, nullptr);
  forget_ended();
  return changes;
}

// Call with the lock. Removes a tree, and those that were grafted in it.
void GraftedTrees::remove(TreeId id, std::vector<TreePtr>& removed) {
  Grafted& grafted = tree_of(id);
  for (TreeId i = 1; grafted.grafts != nullptr && i <= grafted.grafts[0]; ++i)
    if (grafted.grafts[i] != 0) remove(grafted.grafts[i], removed);
  if (is_outermost(id)) {
    if (grafted.tree != nullptr) --models_in_memory_;
    const size_t number = grafted.model->number;
    std::swap(models_[number], models_.back());
    models_[number]->number = number;
    models_.pop_back();
  }
  if (grafted.is_updated) numbering_.remove(id);
  removed.push_back(std::move(grafted.tree));
  grafted = {.id = id,
             .tree = nullptr,
             .root = 0,
             .model = nullptr,
             .grafts = nullptr,
             .node_count = 0,
             .is_in_model = false,
             .is_updated = false,
             .has_ended = true};
  ++ended_;
}

TreePtr GraftedTrees::tree_at(Ino directory) const {
  const std::scoped_lock lock(mutex_);
  const auto at = position_of(directory);
  if (!at) return nullptr;
  if (directory == kRoot) return tree_of(root_).tree;
  const bool is_loaded = tree_of(at->tree).tree != nullptr;
  const TreeId id = is_loaded ? grafted_at(*at) : 0;
  return id == 0 ? nullptr : tree_of(id).tree;
}

std::optional<GraftedTrees::Followed> GraftedTrees::followed(Ino directory) const {
  const std::scoped_lock lock(mutex_);
  const auto at = position_of(directory);
  if (!at) return std::nullopt;
  const bool is_loaded = tree_of(at->tree).tree != nullptr;
  const TreeId id = directory == kRoot ? root_ : is_loaded ? grafted_at(*at) : 0;
  auto origin = id == 0 ? nullptr : origin_of(id);
  if (origin == nullptr) return std::nullopt;
  return Followed{std::move(origin), tree_of(id).tree};
}

std::optional<GraftedTrees::Entry> GraftedTrees::followed_entry(Ino directory) const {
  const std::scoped_lock lock(mutex_);
  const auto at = position_of(directory);
  if (!at || directory == kRoot || !tree_of(at->tree).is_updated) return std::nullopt;
  const Grafted& grafted = tree_of(at->tree);
  return Entry{grafted.root, grafted.tree, at->index};
}

std::optional<Ino> GraftedTrees::entry_above(Ino ino) const {
  const std::scoped_lock lock(mutex_);
  for (auto at = position_of(ino); at && ino != kRoot; at = position_of(ino)) {
    const Grafted& grafted = tree_of(at->tree);
    if (grafted.is_updated) return ino;
    if (grafted.root == at->tree || grafted.root == ino) break;  // an added tree
    ino = grafted.root;
  }
  return std::nullopt;
}

std::vector<Ino> GraftedTrees::followed_above(Ino ino) const {
  std::vector<Ino> found;
  const std::scoped_lock lock(mutex_);
  for (auto at = position_of(ino); at; at = position_of(tree_of(at->tree).root)) {
    const Grafted& grafted = tree_of(at->tree);
    if (origin_of(at->tree) != nullptr) found.push_back(grafted.root);
    if (at->tree == root_ || grafted.root == at->tree) break;
  }
  return found;
}

}  // namespace weightfs
