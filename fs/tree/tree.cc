#include "fs/tree/tree.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weightfs {

Node Tree::node(uint32_t index) const {
  const PackedNode& packed = nodes()[index];
  const std::string_view text(packed.name, packed.name_size);
  if (packed.kind == NodeKind::directory) {
    const auto first_child = [&](uint32_t directory) {
      return directory == 0 ? kRoot + 1 : directories()[directory - 1].first;
    };
    const uint32_t first = first_child(packed.first);
    const uint32_t end = packed.first == directories().size() ? size() : first_child(packed.first + 1);
    return {text, {}, packed.kind, first, end - first};
  }
  return {text, shared_ == nullptr ? "" : view_->suffix, packed.kind, packed.first, 0};
}

uint32_t Tree::parent(uint32_t index) const {
  const auto begins_after = [](uint32_t node, const Directory& d) { return node < d.first; };
  const auto after = std::upper_bound(directories().begin(), directories().end(), index, begins_after);
  return after == directories().begin() ? kRoot : std::prev(after)->node;
}

std::optional<uint32_t> Tree::find_text(uint32_t directory, std::string_view text) const {
  const Node d = node(directory);
  const auto begin = nodes().begin() + d.first;
  const auto end = begin + d.count;
  const auto text_of = [](const PackedNode& n) { return std::string_view(n.name, n.name_size); };
  const auto found =
      std::lower_bound(begin, end, text, [&](const PackedNode& n, std::string_view t) { return text_of(n) < t; });
  if (found == end || text_of(*found) != text) return std::nullopt;
  return static_cast<uint32_t>(found - nodes().begin());
}

std::optional<uint32_t> Tree::find(uint32_t directory, std::string_view name) const {
  auto found = find_text(directory, name);
  if (shared_ == nullptr || (found && node(*found).kind == NodeKind::directory)) return found;
  if (!name.ends_with(view_->suffix)) return std::nullopt;
  found = find_text(directory, name.substr(0, name.size() - view_->suffix.size()));
  return found && node(*found).kind == NodeKind::tensor ? found : std::nullopt;
}

std::string Tree::path(uint32_t index) const {
  if (index == kRoot) return "";
  const uint32_t above = parent(index);
  if (above == kRoot) return node(index).name();
  return path(above).append("/").append(node(index).name());
}

uint32_t Tree::directories_in(uint32_t directory) const {
  const Node d = node(directory);
  const auto begin = nodes().begin() + d.first;
  return static_cast<uint32_t>(std::count_if(begin, begin + d.count, [](const PackedNode& n) {
    return n.kind == NodeKind::directory || n.kind == NodeKind::tree;
  }));
}

Result<SourcePtr> Tree::file(const Node& node) const {
  const auto& files = contents_->files;
  if (node.first < files.size()) return files[node.first].get();
  const LaterFiles list = TRY(contents_->list->get());
  return list->at(node.first - files.size()).get();
}

std::optional<SourcePtr> Tree::known_file(const Node& node) const {
  const auto& files = contents_->files;
  if (node.first < files.size()) return files[node.first].peek();
  const auto list = contents_->list->peek();
  return list ? (*list)->at(node.first - files.size()).peek() : std::nullopt;
}

TreeBuilder::TreeBuilder(ModelPtr model) : tree_(std::make_shared<Tree>(Tree::Key())) {
  tree_->model_ = std::move(model);
}

std::string_view TreeBuilder::keep(std::string_view path) {
  kept_ += path.size();
  return texts_.add(path);
}

void TreeBuilder::set_modified(Time modified) { tree_->modified_ = modified; }

void TreeBuilder::set_container_bytes(uint64_t bytes) { contents().container_bytes = bytes; }

void TreeBuilder::set_source(std::shared_ptr<const std::string> source) { contents().source = std::move(source); }

void TreeBuilder::set_origin(std::shared_ptr<const Origin> origin) {
  if (origin != nullptr) contents().origin = std::move(origin);
}

void TreeBuilder::add(std::string_view path, NodeKind kind, size_t first) {
  is_sorted_ = is_sorted_ && (leaves_.empty() || path_less(leaves_.back().path, path));
  nodes_.reset();
  leaves_.push_back({path, kind, static_cast<uint32_t>(first)});
}

Tree::Contents& TreeBuilder::contents() {
  if (tree_->contents_ == nullptr) tree_->contents_ = std::make_unique<Tree::Contents>();
  return *tree_->contents_;
}

void TreeBuilder::reserve_files(size_t count) {
  leaves_.reserve(leaves_.size() + count);
  contents().files.reserve(contents().files.size() + count);
}

void TreeBuilder::add_directory(std::string_view path) { add(path, NodeKind::directory, 0); }

void TreeBuilder::add_file(std::string_view path, Later<SourcePtr> source) {
  add(path, NodeKind::file, contents().files.size());
  contents().files.push_back(std::move(source));
}

void TreeBuilder::add_files(std::span<const std::string_view> paths, Later<LaterFiles> files) {
  for (size_t i = 0; i < paths.size(); ++i) add(paths[i], NodeKind::file, contents().files.size() + i);
  contents().list = std::make_unique<Later<LaterFiles>>(std::move(files));
}

void TreeBuilder::add_other(std::string_view path, NodeKind kind, std::variant<DynamicFile, std::string> other) {
  auto& others = contents().others;
  if (others == nullptr) others = std::make_unique<std::vector<std::variant<DynamicFile, std::string>>>();
  add(path, kind, others->size());
  others->push_back(std::move(other));
}

void TreeBuilder::add_dynamic_file(std::string_view path, DynamicFile file) {
  add_other(path, NodeKind::dynamic, std::move(file));
}

void TreeBuilder::add_link(std::string_view path, std::string target) {
  add_other(path, NodeKind::link, std::move(target));
}

void TreeBuilder::add_tree(std::string_view path, Time modified, Later<TreePtr> tree) {
  add(path, NodeKind::tree, contents().trees.size());
  if (tree_->model_ == nullptr) tree.keep_make();  // a model in a directory can be dropped and read again
  contents().trees.push_back({std::move(tree), modified});
}

Result<void> TreeBuilder::add_tensors(const views::View& view) {
  tree_->view_ = &view;
  const auto& tensors = tree_->model_->tensors;
  const BudgetPtr& budget = tree_->model_->budget;
  // Steps are not released after a failure: a directory refused for its memory can be entered repeatedly.
  if (budget != nullptr) TRY_VOID(budget->charge(Cost::step, tensors.size()));
  // Tensors that the view lacks get a path, too: clashes are resolved the same way in all views.
  const uint64_t kept_before = texts_.size();
  tensors_ = TRY(tensor_paths(budget.get(), tensors, view.suffix, texts_));
  std::erase_if(tensors_, [&](const NamedPath& tensor) { return !view.has(*tree_->model_, tensor.name()); });
  auto charged = charge(budget);
  if (!charged) budget->release(Cost::kept, texts_.size() - kept_before);
  return charged;
}

// The paths of the two views differ if one of them lacks a tensor, truncates a name, or numbers a clash (semantics 3.5
// and 3.6).
Result<TreePtr> TreeBuilder::share(TreePtr tensors, const views::View& view) {
  const Model& model = *tensors->model();
  if (model.budget != nullptr) TRY_VOID(model.budget->charge(Cost::step, tensors->size()));
  for (size_t i = 0; i < model.tensors.size(); ++i)
    if (!view.has(model, i)) return nullptr;
  for (uint32_t i = 0; i < tensors->size(); ++i) {
    const Node node = tensors->node(i);
    const bool is_directory = node.kind == NodeKind::directory;
    if (is_directory && !node.text.ends_with(view.suffix)) continue;
    if (is_directory || node.text.size() + view.suffix.size() > kMaxComponentLength ||
        node.text.find("%~") != node.text.npos)
      return nullptr;
  }
  const auto tree = std::make_shared<Tree>(Tree::Key());
  tree->model_ = tensors->model_;
  tree->modified_ = tensors->modified_;
  tree->view_ = &view;
  tree->shared_ = std::move(tensors);
  return tree;
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

TreeBuilder::Leaf TreeBuilder::leaf(size_t i) const {
  return tensors_.empty() ? leaves_[i] : Leaf{tensors_[i].path(), NodeKind::tensor, tensors_[i].name()};
}

void TreeBuilder::sort_leaves() {
  if (is_sorted_) return;
  std::stable_sort(leaves_.begin(), leaves_.end(),
                   [](const Leaf& a, const Leaf& b) { return path_less(a.path, b.path); });
  is_sorted_ = true;
}

// The number of nodes of the sorted leaves, without the root: for each leaf, the components that the previous leaf
// lacks. A directory that was added explicitly and is not empty counts twice.
uint64_t TreeBuilder::count_nodes() {
  if (nodes_) return *nodes_;
  uint64_t nodes = 0;
  std::string_view before, directory;  // of the leaf before, with its `/`
  for (size_t i = 0; i < leaf_count(); ++i) {
    const Leaf leaf = this->leaf(i);
    const std::string_view own = leaf.path.substr(0, leaf.path.rfind('/') + 1);
    if (i > 0 && own == directory) {  // most leaves are beside the one before
      ++nodes;
      before = leaf.path;
      continue;
    }
    directory = own;
    const size_t shortest = std::min(before.size(), leaf.path.size());
    const auto differs = std::mismatch(before.begin(), before.begin() + shortest, leaf.path.begin()).second;
    const auto common = static_cast<size_t>(differs - leaf.path.begin());
    const size_t slash = common == 0 ? leaf.path.npos : leaf.path.rfind('/', common - 1);
    const auto begin = leaf.path.begin() + (slash == leaf.path.npos ? 0 : static_cast<ptrdiff_t>(slash) + 1);
    nodes += 1 + static_cast<uint64_t>(std::count(begin, leaf.path.end(), '/'));
    before = leaf.path;
  }
  nodes_ = nodes;
  return nodes;
}

// Breadth first, so that the children of a directory are adjacent. They are sorted by name, due to path_less.
void TreeBuilder::build_nodes() {
  struct Pending {  // a directory whose leaves are [begin, end), their paths from `at` on
    uint32_t node;
    size_t begin, end, at;
  };
  tree_->nodes_ = std::make_unique_for_overwrite<Tree::PackedNode[]>(count_nodes() + 1);
  uint32_t& size = tree_->size_;
  const auto add_node = [&](const Tree::PackedNode& node) { tree_->nodes_[size++] = node; };
  add_node({"", 0, 0, NodeKind::directory});
  std::vector<Pending> pending{{Tree::kRoot, 0, leaf_count(), 0}};
  for (size_t next = 0; next < pending.size(); ++next) {
    const Pending d = pending[next];
    const uint32_t first = size;
    for (size_t i = d.begin; i < d.end;) {
      const Leaf added = leaf(i);
      const std::string_view path = added.path;
      const size_t slash = std::min(path.find('/', d.at), path.size());
      const std::string_view name = path.substr(d.at, slash - d.at);
      size_t end = i + 1;
      const auto same_directory = [&](std::string_view other) {
        return other.size() > slash && other[slash] == '/' && other.substr(d.at, slash - d.at) == name;
      };
      while (end < d.end && same_directory(leaf(end).path)) ++end;
      const uint32_t node = size;
      const bool is_leaf = slash == path.size() && added.kind != NodeKind::directory;
      add_node({name.data(), is_leaf ? added.first : static_cast<uint32_t>(pending.size()),
                static_cast<uint16_t>(name.size()), is_leaf ? added.kind : NodeKind::directory});
      if (!is_leaf) {
        const size_t inside = slash == path.size() ? i + 1 : i;  // skips the leaf of the directory itself
        pending.push_back({node, inside, end, slash + 1});
      }
      i = end;
    }
    if (d.node != Tree::kRoot) contents().directories.push_back({d.node, first});
  }
}

TreePtr TreeBuilder::freeze() && {
  sort_leaves();
  build_nodes();
  if (tree_->contents_ != nullptr) {
    tree_->contents_->directories.shrink_to_fit();
    tree_->contents_->files.shrink_to_fit();
    tree_->contents_->trees.shrink_to_fit();
  }
  if (texts_.size() > 0) contents().texts = std::make_unique<const StringArena>(std::move(texts_));
  return std::move(tree_);
}

}  // namespace weightfs
