#include "fs/grafted_trees.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/text.h"

namespace weightfs {
namespace {

constexpr size_t kMaxTrees = size_t{1} << 24;  // 2^24 trees of at most 2^32 nodes: no inode number overflows

// Models are dropped when use exceeds the high watermark, until it does not exceed the low one; in eighths of the
// memory limit.
constexpr unsigned kHighWatermark = 4;
constexpr unsigned kLowWatermark = 3;

bool has_no_descriptor_left() {
  const int descriptor = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return errno == EMFILE || errno == ENFILE;
  ::close(descriptor);
  return false;
}

// A listed directory exists, even if its container has been deleted since. The error must not be not_found, because the
// kernel would cache that the name does not exist.
Result<TreePtr> absent_is_io(Result<TreePtr> made) {
  if (!made && made.error().code == Code::not_found) made.error().code = Code::io;
  return made;
}

template <class T>
std::optional<T> find(const std::unordered_map<uint32_t, T>& values, uint32_t key) {
  const auto found = values.find(key);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

struct GraftedTrees::OutermostModel {
  std::vector<uint32_t> trees;  // the model's own tree first
  uint64_t last_use = 0;
};

Ino GraftedTrees::NodeHandle::ino_of(uint32_t node) const { return node == Tree::kRoot ? root : first + node; }

Ino GraftedTrees::add(TreePtr tree) {
  const uint32_t model = tree->model() == nullptr ? kNoModel : kAddedModel;
  const uint32_t nodes = tree->size();
  const Ino root = std::exchange(next_, next_ + nodes);
  trees_.push_back({std::move(tree), root, root, nodes, model, {}});
  return root;
}

// Call with the lock.
GraftedTrees::Position GraftedTrees::position_of(Ino ino) const {
  const auto after = std::ranges::upper_bound(trees_, ino, {}, &Grafted::first);
  const auto number = static_cast<uint32_t>(after - trees_.begin() - 1);
  return {number, static_cast<uint32_t>(ino - trees_[number].first)};
}

// Call with the lock.
GraftedTrees::NodeHandle GraftedTrees::handle_of(Position position) const {
  const auto [number, index] = position;
  const Grafted& grafted = trees_[number];
  NodeHandle place{.tree_ptr = grafted.tree,
                   .number = number,
                   .index = index,
                   .root = grafted.root,
                   .first = grafted.first,
                   .in_use = nullptr};
  if (grafted.model >= kAddedModel) return place;
  const auto& model = models_[grafted.model];
  model->last_use = ++uses_;
  place.in_use = model;
  return place;
}

std::optional<GraftedTrees::NodeHandle> GraftedTrees::find_loaded(Ino ino) const {
  const std::scoped_lock lock(mutex_);
  const Position position = position_of(ino);
  if (trees_[position.number].tree == nullptr) return std::nullopt;
  return handle_of(position);
}

// Call with the lock. The number of the tree that was grafted at this node; 0 for none.
uint32_t GraftedTrees::grafted_at(const NodeHandle& node) const {
  const auto& grafts = trees_[node.number].grafts;
  return node.node().kind == NodeKind::tree && grafts != nullptr ? grafts[node.node().first] : 0;
}

// The node at which the tree of `ino` was grafted; nothing for an added tree.
std::optional<Ino> GraftedTrees::graft_point(Ino ino) const {
  const std::scoped_lock lock(mutex_);
  const Grafted& tree = trees_[position_of(ino).number];
  if (tree.root == tree.first) return std::nullopt;
  return tree.root;
}

Result<GraftedTrees::NodeHandle> GraftedTrees::load(Ino ino) {
  std::vector<Position> below;  // of `ino`, and of the graft points above it that are in dropped trees
  std::optional<NodeHandle> at;
  {
    const std::scoped_lock lock(mutex_);
    Position position = position_of(ino);
    while (trees_[position.number].tree == nullptr) {
      below.push_back(position);
      position = position_of(trees_[position.number].root);
    }
    at = handle_of(position);
  }
  for (; !below.empty(); below.pop_back()) {
    at = TRY(reload(*at, below.back().number));
    at->index = below.back().index;
  }
  return *at;
}

// Loads the dropped tree `number`, grafted at `parent`, and returns its root.
Result<GraftedTrees::NodeHandle> GraftedTrees::reload(const NodeHandle& parent, uint32_t number) {
  TreePtr tree = TRY(load_tree(parent));
  if (auto same = check_unchanged(parent, number, tree); !same) {
    parent.tree().tree(parent.node()).forget();
    return tl::unexpected(same.error());
  }
  const std::scoped_lock lock(mutex_);
  restore(number, std::move(tree));
  return handle_of({number, Tree::kRoot});
}

// Call with the lock. Another thread may have loaded the tree meanwhile.
void GraftedTrees::restore(uint32_t number, TreePtr tree) {
  if (trees_[number].tree != nullptr) return;
  trees_[number].tree = std::move(tree);
  if (is_outermost(number)) ++models_in_memory_;
}

// Call with the lock.
bool GraftedTrees::is_outermost(uint32_t number) const {
  const uint32_t model = trees_[number].model;
  return model < kAddedModel && models_[model]->trees.front() == number;
}

Result<void> GraftedTrees::check_unchanged(const NodeHandle& parent, uint32_t number, const TreePtr& tree) {
  std::optional<uint64_t> fingerprint;
  std::optional<FileIdentities> files;
  {
    const std::scoped_lock lock(mutex_);
    fingerprint = find(fingerprints_, number);
    if (is_outermost(number)) files = find(files_, trees_[number].model);
  }
  const bool same_names = !fingerprint || *fingerprint == fingerprint_of(*tree);
  const bool same_files = !files || tree->model() == nullptr || may_be_same(*files, file_identities(*tree->model()));
  if (same_names && same_files) return {};
  return failure(Code::io, fmt::format("{}: changed while it was not in memory; remount", path(parent.ino())));
}

Result<GraftedTrees::NodeHandle> GraftedTrees::enter(Ino directory) {
  std::optional<NodeHandle> here;
  {
    const std::scoped_lock lock(mutex_);
    const Position position = position_of(directory);
    if (trees_[position.number].tree != nullptr) here = handle_of(position);
    const uint32_t entered = here ? grafted_at(*here) : 0;
    if (entered != 0 && trees_[entered].tree != nullptr) return handle_of({entered, Tree::kRoot});
  }
  if (!here) here = TRY(load(directory));
  if (here->node().kind == NodeKind::directory) return *here;
  if (here->node().kind != NodeKind::tree)
    return failure(Code::not_found, fmt::format("{}: not a directory", path(directory)));
  uint32_t known = 0;
  {
    const std::scoped_lock lock(mutex_);
    known = grafted_at(*here);
  }
  if (known != 0) return reload(*here, known);
  TreePtr tree = TRY(load_tree(*here));
  const std::scoped_lock lock(mutex_);
  if (trees_.size() >= kMaxTrees) return failure(Code::resource, "too many directories entered; remount");
  return graft(*here, std::move(tree));
}

// Call with the lock. Another thread may have loaded the tree meanwhile.
GraftedTrees::NodeHandle GraftedTrees::graft(const NodeHandle& parent, TreePtr tree) {
  Grafted& above = trees_[parent.number];
  if (above.grafts == nullptr) above.grafts = std::make_unique<uint32_t[]>(parent.tree().tree_count());
  uint32_t& number = above.grafts[parent.node().first];
  if (number == 0) {
    number = static_cast<uint32_t>(trees_.size());
    const uint32_t node_count = tree->size();
    Grafted grafted{.tree = std::move(tree),
                    .root = parent.ino(),
                    .first = std::exchange(next_, next_ + node_count),
                    .node_count = node_count,
                    .model = above.model,
                    .grafts = nullptr};
    if (above.model == kNoModel && grafted.tree->model() != nullptr) {
      grafted.model = static_cast<uint32_t>(models_.size());
      models_.push_back(std::make_shared<OutermostModel>());
      ++models_in_memory_;
    }
    if (grafted.model < kAddedModel) models_[grafted.model]->trees.push_back(number);
    trees_.push_back(std::move(grafted));
  } else {
    restore(number, std::move(tree));
  }
  return handle_of({number, Tree::kRoot});
}

// Loads the tree of a node of kind tree.
Result<TreePtr> GraftedTrees::load_tree(const NodeHandle& node) {
  const Later<TreePtr>& later = node.tree().tree(node.node());
  if (auto made = later.peek()) return *std::move(made);
  drop_above_limit();
  if (limits_.memory_used() > limits_.memory_limit())
    return failure(Code::resource, fmt::format("{}: memory limit of this process ({}) exceeded", path(node.ino()),
                                               human_size(limits_.memory_limit())));
  auto tree = later.get();
  if (!tree && free_descriptors()) tree = later.get();
  return absent_is_io(std::move(tree));
}

bool GraftedTrees::is_above(unsigned eighths) const {
  return limits_.memory_used() > limits_.memory_limit() / 8 * eighths;
}

void GraftedTrees::drop_above_limit() {
  if (is_above(kHighWatermark)) drop_until([&](size_t) { return !is_above(kLowWatermark); });
}

bool GraftedTrees::free_descriptors() {
  if (!has_no_descriptor_left()) return false;
  const size_t half = (models_in_memory() + 1) / 2;
  return drop_until([&](size_t dropped) { return dropped >= half; }) > 0;
}

// Drops the least recently used models until `enough(dropped)` is true. Returns the number of dropped models.
size_t GraftedTrees::drop_until(const std::function<bool(size_t)>& enough) {
  constexpr size_t kSteps = 32;  // reading the memory use takes time
  const std::scoped_lock one_at_a_time(dropping_);
  const auto models = unused_models();
  size_t dropped = 0;
  for (size_t i = 0; i < models.size(); ++i) {
    if (i % (models.size() / kSteps + 1) == 0 && enough(dropped)) break;
    if (drop(models[i])) ++dropped;
  }
  if (dropped > 0) ::malloc_trim(0);
  return dropped;
}

// The models that are in memory and not in use, the least recently used first.
std::vector<uint32_t> GraftedTrees::unused_models() const {
  std::vector<std::pair<uint64_t, uint32_t>> found;
  const std::scoped_lock lock(mutex_);
  for (uint32_t i = 0; i < models_.size(); ++i)
    if (models_[i].use_count() == 1 && trees_[models_[i]->trees.front()].tree != nullptr)
      found.emplace_back(models_[i]->last_use, i);
  std::sort(found.begin(), found.end());
  std::vector<uint32_t> models;
  for (const auto& [last_use, model] : found) models.push_back(model);
  return models;
}

// Returns false if the model is in use by now.
bool GraftedTrees::drop(uint32_t number) {
  std::vector<std::pair<uint32_t, TreePtr>> dropped;  // destroyed without the lock
  std::vector<std::optional<uint64_t>> fingerprints;
  std::optional<FileIdentities> files;
  {
    const std::scoped_lock lock(mutex_);
    for (const uint32_t tree : models_[number]->trees) {
      dropped.emplace_back(tree, trees_[tree].tree);
      fingerprints.push_back(find(fingerprints_, tree));
    }
    files = find(files_, number);
  }
  for (size_t i = 0; i < dropped.size(); ++i)
    if (!fingerprints[i] && dropped[i].second != nullptr) fingerprints[i] = fingerprint_of(*dropped[i].second);
  if (!files && dropped.front().second != nullptr) files = file_identities(*dropped.front().second->model());

  const std::scoped_lock lock(mutex_);
  OutermostModel& model = *models_[number];
  if (models_[number].use_count() > 1 || model.trees.size() != dropped.size()) return false;
  for (size_t i = 0; i < dropped.size(); ++i)
    if (trees_[dropped[i].first].tree != dropped[i].second) return false;
  for (size_t i = 0; i < dropped.size(); ++i) {
    const uint32_t tree = dropped[i].first;
    if (fingerprints[i]) fingerprints_.insert_or_assign(tree, *fingerprints[i]);
    trees_[tree].tree = nullptr;
  }
  if (files) files_.insert_or_assign(number, *std::move(files));
  --models_in_memory_;
  const Position parent = position_of(trees_[model.trees.front()].root);
  const Tree& above = *trees_[parent.number].tree;
  above.tree(above.node(parent.index)).forget();
  return true;
}

std::string GraftedTrees::path(Ino ino) {
  std::string path;
  for (std::optional<Ino> next = ino; next; next = graft_point(*next)) {
    const auto at = load(*next);
    const std::string names = at ? at->tree().path(at->index) : "";
    if (!names.empty()) path = fmt::format("{}{}{}", names, path.empty() ? "" : "/", path);
  }
  return path;
}

uint64_t GraftedTrees::node_count() const {
  const std::scoped_lock lock(mutex_);
  uint64_t sum = 0;
  for (const Grafted& grafted : trees_) sum += grafted.node_count;
  return sum;
}

size_t GraftedTrees::models_in_memory() const {
  const std::scoped_lock lock(mutex_);
  return models_in_memory_;
}

}  // namespace weightfs
