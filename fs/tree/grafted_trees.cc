#include "fs/tree/grafted_trees.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/os/descriptor.h"
#include "base/text.h"
#include "fs/tree/origin.h"

namespace weightfs {
namespace {

constexpr size_t kMaxTrees = size_t{1} << 24;  // 2^24 trees of at most 2^32 nodes: no inode number overflows

// Models are dropped when use exceeds the high watermark, until it does not exceed the low one; in eighths of the
// memory limit.
constexpr unsigned kHighWatermark = 4;
constexpr unsigned kLowWatermark = 3;

// Whether fewer descriptors are left than opening a file may need: a directory, the data and the map of cached ranges.
bool has_too_few_descriptors() {
  constexpr size_t kNeeded = 4;
  std::array<Descriptor, kNeeded> opened;
  for (Descriptor& each : opened) {
    each = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!each) return errno == EMFILE || errno == ENFILE;
  }
  return false;
}

// A listed directory exists, even if its container has been deleted since. The error must not be not_found, because the
// kernel would cache that the name does not exist.
Result<TreePtr> listed_is_absent(Result<TreePtr> made) {
  if (!made && made.error().code == Code::not_found) made.error().code = Code::absent;
  return made;
}

template <class Key, class T>
std::optional<T> find(const std::unordered_map<Key, T>& values, Key key) {
  const auto found = values.find(key);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

constexpr const char* kStale = "was removed or replaced since it was looked up";

}  // namespace

Ino GraftedTrees::NodeHandle::ino_of(uint32_t node) const {
  if (node == Tree::kRoot) return root;
  return numbers == nullptr ? first + node : (*numbers)[node];
}

Ino GraftedTrees::add(TreePtr tree) {
  const TreeId id = insert(std::move(tree), std::nullopt, nullptr);
  if (root_ == 0) root_ = id;
  return id;
}

// Call with the lock. Numbers the nodes of a tree that is grafted at `root`, in the tree `above`, or added.
TreeId GraftedTrees::insert(TreePtr tree, std::optional<Ino> root, const Grafted* above) {
  const bool is_updated = tree->origin() != nullptr && tree->model() == nullptr;
  const uint32_t nodes = tree->size();
  const TreeId id = is_updated ? numbering_.add_updated(nodes, root) : numbering_.take(nodes);
  OutermostModel* model = above == nullptr ? nullptr : above->model;
  if (above != nullptr && !above->is_in_model && tree->model() != nullptr) {
    auto outermost = std::make_shared<OutermostModel>();
    model = outermost.get();
    model->origin = tree->origin();
    model->number = models_.size();
    models_.push_back(std::move(outermost));
    ++models_in_memory_;
  }
  if (model != nullptr) model->trees.push_back(id);
  const bool is_in_model = tree->model() != nullptr || (above != nullptr && above->is_in_model);
  trees_.push_back({.id = id,
                    .tree = std::move(tree),
                    .root = root.value_or(id),
                    .model = model,
                    .grafts = nullptr,
                    .node_count = nodes,
                    .is_in_model = is_in_model,
                    .is_updated = is_updated,
                    .has_ended = false});
  return id;
}

std::unique_ptr<TreeId[]> GraftedTrees::make_grafts(size_t count) {
  auto grafts = std::make_unique<TreeId[]>(count + 1);
  grafts[0] = count;
  return grafts;
}

// Call with the lock. Null if it was removed.
GraftedTrees::Grafted* GraftedTrees::find_tree(TreeId id) const {
  const auto found = std::ranges::lower_bound(trees_, id, {}, &Grafted::id);
  return found == trees_.end() || found->id != id || found->has_ended ? nullptr : &*found;
}

// Call with the lock.
std::optional<Position> GraftedTrees::position_of(Ino ino) const {
  if (ino == kRoot) return Position{root_, Tree::kRoot};
  const auto after = std::ranges::upper_bound(trees_, ino, {}, &Grafted::id);
  if (after == trees_.begin()) return std::nullopt;
  const Grafted& before = *std::prev(after);
  const bool has_it = !before.is_updated && !before.has_ended && ino - before.id < before.node_count;
  return has_it ? Position{before.id, static_cast<uint32_t>(ino - before.id)} : numbering_.find(ino);
}

// Call with the lock.
GraftedTrees::NodeHandle GraftedTrees::handle_of(Position position) const {
  const Grafted& grafted = tree_of(position.tree);
  NodeHandle handle{.tree_ptr = grafted.tree,
                    .id = position.tree,
                    .index = position.index,
                    .root = grafted.root,
                    .first = position.tree,
                    .numbers = grafted.is_updated ? numbering_.numbers(position.tree) : nullptr,
                    .in_use = nullptr};
  if (grafted.model == nullptr) return handle;
  const auto& model = models_[grafted.model->number];
  model->last_use = ++uses_;
  handle.in_use = model;
  return handle;
}

std::optional<GraftedTrees::NodeHandle> GraftedTrees::find_loaded(Ino ino) const {
  const std::scoped_lock lock(mutex_);
  const auto position = position_of(ino);
  if (!position || tree_of(position->tree).tree == nullptr) return std::nullopt;
  return handle_of(*position);
}

// Call with the lock. The tree that was grafted at this node of a tree in memory; 0 for none.
TreeId GraftedTrees::grafted_at(Position position) const {
  const Grafted& grafted = tree_of(position.tree);
  if (grafted.grafts == nullptr) return 0;
  const Node node = grafted.tree->node(position.index);
  return node.kind == NodeKind::tree ? grafted.grafts[node.first + 1] : 0;
}

// The node at which the tree of `ino` was grafted; nothing for an added tree.
std::optional<Ino> GraftedTrees::graft_point(Ino ino) const {
  const std::scoped_lock lock(mutex_);
  const auto position = position_of(ino);
  if (!position) return std::nullopt;
  const Ino root = tree_of(position->tree).root;
  if (position->tree == root_ || root == position->tree) return std::nullopt;
  return root;
}

Ino GraftedTrees::in_added(Ino ino) const {
  while (const auto above = graft_point(ino)) ino = *above;
  return ino;
}

Result<GraftedTrees::NodeHandle> GraftedTrees::load(Ino ino) {
  std::vector<Position> below;  // of `ino`, and of the graft points above it that are in dropped trees
  std::optional<NodeHandle> at;
  {
    const std::scoped_lock lock(mutex_);
    auto position = position_of(ino);
    while (position && tree_of(position->tree).tree == nullptr) {
      below.push_back(*position);
      position = position_of(tree_of(position->tree).root);
    }
    if (!position) return failure(Code::stale, kStale);
    at = handle_of(*position);
  }
  for (; !below.empty(); below.pop_back()) {
    at = TRY(reload(*at, below.back().tree));
    at->index = below.back().index;
  }
  return *at;
}

// Loads the dropped tree `id`, grafted at `parent`, and returns its root.
Result<GraftedTrees::NodeHandle> GraftedTrees::reload(const NodeHandle& parent, TreeId id) {
  TreePtr tree = TRY(load_tree(parent));
  if (auto same = check_unchanged(parent, id, tree); !same) {
    parent.tree().tree(parent.node()).forget();
    return tl::unexpected(same.error());
  }
  const std::scoped_lock lock(mutex_);
  if (find_tree(id) == nullptr) return failure(Code::stale, kStale);
  restore(id, std::move(tree));
  return handle_of({id, Tree::kRoot});
}

// Call with the lock. Another thread may have loaded the tree meanwhile.
void GraftedTrees::restore(TreeId id, TreePtr tree) {
  Grafted& grafted = tree_of(id);
  if (grafted.tree != nullptr) return;
  grafted.tree = std::move(tree);
  if (is_outermost(id)) ++models_in_memory_;
}

// Call with the lock. Trees that were removed are forgotten together.
void GraftedTrees::forget_ended() {
  if (ended_ < trees_.size() / 2) return;
  std::erase_if(trees_, [](const Grafted& grafted) { return grafted.has_ended; });
  ended_ = 0;
}

// Call with the lock. Null if it has none.
std::shared_ptr<const Origin> GraftedTrees::origin_of(TreeId id) const {
  const Grafted& grafted = tree_of(id);
  if (grafted.tree != nullptr) return grafted.tree->origin();
  return is_outermost(id) ? grafted.model->origin : nullptr;
}

// Call with the lock.
bool GraftedTrees::is_outermost(TreeId id) const {
  const OutermostModel* const model = tree_of(id).model;
  return model != nullptr && model->trees.front() == id;
}

Result<void> GraftedTrees::check_unchanged(const NodeHandle& parent, TreeId id, const TreePtr& tree) {
  std::optional<uint64_t> fingerprint;
  std::optional<FileIdentities> files;
  {
    const std::scoped_lock lock(mutex_);
    const Grafted* const grafted = find_tree(id);
    if (grafted == nullptr) return failure(Code::stale, kStale);
    if (grafted->model != nullptr && grafted->model->dropped != nullptr) {
      fingerprint = find(grafted->model->dropped->fingerprints, id);
      if (is_outermost(id)) files = grafted->model->dropped->files;
    }
  }
  const bool same_names = !fingerprint || *fingerprint == fingerprint_of(*tree);
  const bool same_files = !files || tree->model() == nullptr || may_be_same(*files, file_identities(*tree->model()));
  if (same_names && same_files) return {};
  return changed_file(fmt::format("{}: changed while it was not in memory", path(parent.ino())));
}

Result<GraftedTrees::NodeHandle> GraftedTrees::enter(Ino directory) {
  std::optional<NodeHandle> here;
  {
    const std::scoped_lock lock(mutex_);
    const auto position = position_of(directory);
    if (!position) return failure(Code::stale, kStale);
    if (tree_of(position->tree).tree != nullptr) here = handle_of(*position);
    const TreeId entered = here ? grafted_at(*position) : 0;
    if (entered != 0 && tree_of(entered).tree != nullptr) return handle_of({entered, Tree::kRoot});
  }
  if (!here) here = TRY(load(directory));
  if (here->node().kind == NodeKind::directory) return *here;
  if (here->node().kind != NodeKind::tree)
    return failure(Code::not_found, fmt::format("{}: not a directory", path(directory)));
  TreeId known = 0;
  {
    const std::scoped_lock lock(mutex_);
    const auto position = position_of(directory);
    if (position && tree_of(position->tree).tree != nullptr) known = grafted_at(*position);
  }
  if (known != 0) return reload(*here, known);
  TreePtr tree = TRY(load_tree(*here));
  const bool is_followed = tree->origin() != nullptr;
  NodeHandle entered = TRY(graft(directory, std::move(tree)));
  if (is_followed && on_entered_) on_entered_(directory);
  return entered;
}

// Another thread may have loaded the tree meanwhile, or the node may have become stale.
Result<GraftedTrees::NodeHandle> GraftedTrees::graft(Ino at, TreePtr tree) {
  const std::scoped_lock lock(mutex_);
  if (trees_.size() >= kMaxTrees) return failure(Code::resource, "too many directories entered; remount");
  const auto position = position_of(at);
  if (!position || tree_of(position->tree).tree == nullptr) return failure(Code::stale, kStale);
  Grafted& above = tree_of(position->tree);
  if (above.grafts == nullptr) above.grafts = make_grafts(above.tree->tree_count());
  const uint32_t number = above.tree->node(position->index).first + 1;
  TreeId id = above.grafts[number];
  if (id != 0) {
    restore(id, std::move(tree));
  } else {
    id = insert(std::move(tree), at, &above);  // references into the map stay valid
    above.grafts[number] = id;
  }
  return handle_of({id, Tree::kRoot});
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
  return listed_is_absent(std::move(tree));
}

bool GraftedTrees::is_above(unsigned eighths) const {
  return limits_.memory_used() > limits_.memory_limit() / 8 * eighths;
}

void GraftedTrees::drop_above_limit() {
  if (is_above(kHighWatermark)) drop_until([&](size_t) { return !is_above(kLowWatermark); });
}

bool GraftedTrees::free_descriptors() {
  if (!has_too_few_descriptors()) return false;
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
std::vector<std::weak_ptr<GraftedTrees::OutermostModel>> GraftedTrees::unused_models() const {
  std::vector<std::pair<uint64_t, std::weak_ptr<OutermostModel>>> found;
  const std::scoped_lock lock(mutex_);
  for (const auto& model : models_)
    if (model.use_count() == 1 && tree_of(model->trees.front()).tree != nullptr)
      found.emplace_back(model->last_use, model);
  std::ranges::sort(found, {}, [](const auto& each) { return each.first; });
  std::vector<std::weak_ptr<OutermostModel>> models;
  for (auto& [last_use, model] : found) models.push_back(std::move(model));
  return models;
}

// Returns false if the model is in use by now, or removed.
bool GraftedTrees::drop(const std::weak_ptr<OutermostModel>& unused) {
  std::vector<std::pair<TreeId, TreePtr>> dropped;  // destroyed without the lock
  std::vector<std::optional<uint64_t>> fingerprints;
  std::optional<FileIdentities> files;
  {
    const std::scoped_lock lock(mutex_);
    const auto model = unused.lock();
    if (model == nullptr) return false;
    for (const TreeId id : model->trees) {
      dropped.emplace_back(id, tree_of(id).tree);
      fingerprints.push_back(model->dropped == nullptr ? std::nullopt : find(model->dropped->fingerprints, id));
    }
    if (model->dropped != nullptr) files = model->dropped->files;
  }
  for (size_t i = 0; i < dropped.size(); ++i)
    if (!fingerprints[i] && dropped[i].second != nullptr) fingerprints[i] = fingerprint_of(*dropped[i].second);
  if (!files && dropped.front().second != nullptr) files = file_identities(*dropped.front().second->model());

  const std::scoped_lock lock(mutex_);
  const auto model = unused.lock();
  constexpr long kUnused = 2;  // this one, and that of models_
  if (model == nullptr || model.use_count() > kUnused || model->trees.size() != dropped.size()) return false;
  for (const auto& [id, tree] : dropped)
    if (tree_of(id).tree != tree) return false;
  if (model->dropped == nullptr) model->dropped = std::make_unique<OutermostModel::Dropped>();
  for (size_t i = 0; i < dropped.size(); ++i) {
    if (fingerprints[i]) model->dropped->fingerprints.insert_or_assign(dropped[i].first, *fingerprints[i]);
    tree_of(dropped[i].first).tree = nullptr;
  }
  if (files) model->dropped->files = *std::move(files);
  --models_in_memory_;
  const auto parent = position_of(tree_of(model->trees.front()).root);
  const Tree& above = *tree_of(parent->tree).tree;
  above.tree(above.node(parent->index)).forget();
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
  for (const Grafted& grafted : trees_) sum += grafted.has_ended ? 0 : grafted.node_count;
  return sum;
}

size_t GraftedTrees::models_in_memory() const {
  const std::scoped_lock lock(mutex_);
  return models_in_memory_;
}

}  // namespace weightfs
