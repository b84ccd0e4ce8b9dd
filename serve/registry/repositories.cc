#include "serve/registry/repositories.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "report/inspect/single_model.h"

namespace weightfs::distribution {
namespace {

constexpr uint32_t kMaxTags = 1'000;
constexpr uint32_t kMaxHosts = 1'000;  // directories in which a name is looked up

bool is_directory(const Node& node) { return node.kind == NodeKind::directory || node.kind == NodeKind::tree; }

bool is_named(const SourceName& source, const std::string& component) {
  return component == component_of(source.name) || component == component_of(without_ending(source.name));
}

Result<Repository> missing(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : "/") + name;
  return failure(Code::not_found, fmt::format("{}: no such repository", printable(text)));
}

}  // namespace

// The model that a listing of a directory has; null for a listing of models.
Result<ModelPtr> Repositories::model_of(const Forest::Listing& listing) const {
  const ModelPtr found = listing.count == 0 ? nullptr : listing.tree->model();
  return found == nullptr ? Result<ModelPtr>(nullptr) : with_lazy_parts(found);
}

// The entry of that name, or the first whose component it is.
Result<std::optional<Ino>> Repositories::child_of(Ino directory, const std::string& name) {
  const Forest::Listing all = TRY(forest_.list(directory));
  if (all.count == 0 || all.tree->model() != nullptr) return std::nullopt;
  const std::string component = lower_case(name);
  std::optional<Ino> by_component, by_stem;
  for (uint32_t i = 0; i < all.count; ++i) {
    const Node node = all.tree->node(all.first + i);
    if (!is_directory(node)) continue;
    const std::string own = node.name();
    if (own == name) return all.ino_of(i);
    if (!by_component && component_of(own) == component) by_component = all.ino_of(i);
    if (!by_stem && component_of(without_ending(own)) == component) by_stem = all.ino_of(i);
  }
  return by_component ? by_component : by_stem;
}

Result<std::optional<Repository>> Repositories::below(Ino directory, const Names& names) {
  Repository found{.ino = directory};
  for (const std::string& name : names) {
    const auto child = TRY(child_of(found.ino, name));
    if (!child) return std::nullopt;
    found = {.ino = *child, .name = name};
  }
  const Forest::Listing all = TRY(forest_.list(found.ino));
  found.model = TRY(model_of(all));
  return found;
}

// In directories of the root that are no models, which are not entered to find out.
Result<std::optional<Repository>> Repositories::below_hosts(const Names& names) {
  const Forest::Listing all = TRY(forest_.list(Forest::kRoot));
  for (uint32_t i = 0; i < std::min(all.count, kMaxHosts); ++i) {
    if (all.tree->node(all.first + i).kind != NodeKind::directory) continue;
    if (auto found = TRY(below(all.ino_of(i), names))) return found;
  }
  return std::nullopt;
}

Result<Repository> Repositories::find(const Names& names) {
  if (names.empty() || !std::ranges::all_of(names, is_component)) return missing(names);
  const bool has_library = names.size() > 1 && names.front() == "library";
  const Names shorter(names.begin() + (has_library ? 1 : 0), names.end());
  const Forest::Listing root = TRY(forest_.list(Forest::kRoot));
  if (const ModelPtr model = TRY(model_of(root))) {
    if (shorter.size() != 1 || !is_named(source_, lower_case(shorter.front()))) return missing(names);
    return Repository{Forest::kRoot, source_.name, model};
  }
  if (auto found = TRY(below(Forest::kRoot, names))) return std::move(*found);
  if (has_library)
    if (auto found = TRY(below(Forest::kRoot, shorter))) return std::move(*found);
  if (auto found = TRY(below_hosts(names))) return std::move(*found);
  return missing(names);
}

// Null for an entry that is no published model, or cannot be read: the others can be.
ModelPtr Repositories::published_in(const Forest::Listing& directory, uint32_t index) {
  const Node node = directory.tree->node(directory.first + index);
  if (node.kind != NodeKind::tree || !is_tag(node.name())) return nullptr;
  const auto entered = forest_.list(directory.ino_of(index));
  const auto model = entered ? model_of(*entered) : tl::unexpected(entered.error());
  return model && *model != nullptr && (*model)->published != nullptr ? *model : nullptr;
}

Result<std::vector<TaggedModel>> Repositories::tagged(const Repository& directory) {
  std::vector<TaggedModel> found;
  TRY_VOID(find_tagged(directory, [&](const TaggedModel& each) {
    found.push_back(each);
    return false;
  }));
  return found;
}

Result<void> Repositories::find_tagged(const Repository& directory,
                                       const std::function<bool(const TaggedModel&)>& is_last) {
  const Forest::Listing all = TRY(forest_.list(directory.ino));
  for (uint32_t i = 0; i < std::min(all.count, kMaxTags); ++i)
    if (const ModelPtr model = published_in(all, i))
      if (is_last({all.tree->node(all.first + i).name(), model})) break;
  return {};
}

Result<ModelPtr> Repositories::tagged(const Repository& directory, const std::string& tag) {
  const Forest::Listing all = TRY(forest_.list(directory.ino));
  for (uint32_t i = 0; i < all.count; ++i)
    if (all.tree->node(all.first + i).name() == tag) return published_in(all, i);
  return nullptr;
}

std::string Repositories::example() {
  const auto root = forest_.list(Forest::kRoot);
  if (!root || root->count == 0) return "NAME";
  if (root->tree->model() != nullptr) return component_of(without_ending(source_.name));
  return "NAME";
}

}  // namespace weightfs::distribution
