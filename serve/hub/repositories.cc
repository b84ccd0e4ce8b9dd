#include "serve/hub/repositories.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "serve/hub/names.h"

namespace weightfs::hub {
namespace {

constexpr int kMaxDepth = 16;  // of directories of models

bool is_entered(const Node& node) { return node.kind == NodeKind::directory || node.kind == NodeKind::tree; }

}  // namespace

// Nothing if another tree has taken its place meanwhile, which is no model.
Result<std::optional<FoundModel>> Repositories::held(Ino directory, const std::string& place) {
  Forest::Held held = TRY(forest_.hold(directory));
  if (held.tree->model() == nullptr) return std::nullopt;
  return FoundModel{place, std::move(held.tree), std::move(held.in_use)};
}

// The model below a directory of models. A directory of another name is entered if the name begins with its own.
Result<std::optional<FoundModel>> Repositories::find_model(Ino directory, const std::string& place,
                                                           std::string_view name, int depth) {
  const Forest::Listing all = TRY(forest_.list(directory));
  for (uint32_t i = 0; i < all.count; ++i) {
    const Node node = all.tree->node(all.first + i);
    if (!is_entered(node)) continue;
    const std::string shown = repository_name(node.name());
    const bool is_it = shown == name;
    const bool leads = !shown.empty() && name.starts_with(shown) && name.substr(shown.size()).starts_with('-');
    if (!is_it && !leads) continue;
    const std::string below = fmt::format("{}{}/", place, node.name());
    const auto entered = forest_.list(all.ino_of(i));
    // What cannot be entered is an error only where it is asked for.
    if (!entered && is_it) return tl::unexpected(entered.error());
    if (!entered) continue;
    const bool is_model = node.kind == NodeKind::tree && entered->tree->model() != nullptr;
    if (is_model && is_it) return held(all.ino_of(i), below);
    if (is_model || !leads || depth == 0) continue;
    if (auto found = TRY(find_model(all.ino_of(i), below, name.substr(shown.size() + 1), depth - 1))) return found;
  }
  return std::nullopt;
}

Result<std::optional<FoundModel>> Repositories::find_by_name(const std::string& name) {
  const Forest::Listing root = TRY(forest_.list(Forest::kRoot));
  if (root.tree->model() == nullptr) return find_model(Forest::kRoot, "", name, kMaxDepth);
  if (name_of_source(root.tree->source()) != name) return std::nullopt;
  return held(Forest::kRoot, "");
}

// One of several sources has the name of the repository, and perhaps a number.
Result<std::optional<FoundModel>> Repositories::find_of_hub(const std::string& id, const std::string& name) {
  const auto is_it = [&](const Tree& tree) {
    const auto hub = hub_name_of(tree.source());
    return tree.model() != nullptr && hub && hub->id == id;
  };
  const Forest::Listing root = TRY(forest_.list(Forest::kRoot));
  if (root.tree->model() != nullptr) return is_it(*root.tree) ? held(Forest::kRoot, "") : std::nullopt;
  for (uint32_t i = 0; i < root.count; ++i) {
    const Node node = root.tree->node(root.first + i);
    const std::string shown = node.name();
    if (node.kind != NodeKind::tree || (shown != name && !shown.starts_with(name + "~"))) continue;
    const auto entered = forest_.list(root.ino_of(i));
    if (!entered) return tl::unexpected(entered.error());
    if (is_it(*entered->tree)) return held(root.ino_of(i), shown + "/");
  }
  return std::nullopt;
}

Result<RepositoryPtr> Repositories::read(const FoundModel& found, const std::string& id, Shows shows) {
  std::optional<Later<RepositoryPtr>> repository;
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(known_, [](const Known& each) { return each.tree.expired(); });
    const auto known = std::ranges::find_if(known_, [&](const Known& each) {
      return each.id == id && each.place == found.place && each.tree.lock() == found.tree;
    });
    if (known != known_.end()) {
      repository = known->repository;
      std::rotate(known_.begin(), known, known + 1);
    } else {
      // The tree is not kept by what is known of it.
      repository.emplace([&forest = forest_, place = found.place, tree = std::weak_ptr<const Tree>(found.tree), id,
                          shows]() -> Result<RepositoryPtr> {
        const TreePtr now = tree.lock();
        if (now == nullptr) return failure(Code::stale, fmt::format("{}: was replaced", id));
        return read_repository(forest, {place, now}, id, shows);
      });
      known_.insert(known_.begin(), {found.tree, id, found.place, *repository});
      if (known_.size() > kMaxKnown) known_.pop_back();
    }
  }
  return repository->get();
}

Result<FoundRepository> Repositories::find(const std::string& organization, const std::string& name) {
  const std::string id = fmt::format("{}/{}", organization, name);
  const bool is_views = organization == kViews;
  auto found = organization == kLocal || is_views ? TRY(find_by_name(name)) : std::nullopt;
  const Shows shows = !found ? Shows::hub : is_views ? Shows::views : Shows::files;
  if (!found) found = TRY(find_of_hub(id, name));
  if (!found) return FoundRepository{};
  return FoundRepository{TRY(read(*found, id, shows)), found->in_use};
}

}  // namespace weightfs::hub
