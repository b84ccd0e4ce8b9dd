#include "fs/reading/file_walk.h"

#include <fmt/core.h>

#include <string_view>

namespace weightfs {
namespace {

std::string join(const std::string& path, std::string_view name) {
  return fmt::format("{}{}{}", path, path.empty() ? "" : "/", name);
}

bool is_top_of_model(const Forest::Listing& listing) {
  return listing.count > 0 && listing.tree->model() != nullptr && listing.tree->parent(listing.first) == Tree::kRoot &&
         listing.tree->find(Tree::kRoot, "tensors.json").has_value();
}

}  // namespace

bool walk_files(Forest& forest, Ino directory, const std::string& path, const FileVisitor& visitor) {
  const auto listing = forest.list(directory);
  if (!listing) {
    visitor.on_error(path, listing.error());
    return true;
  }
  if (is_top_of_model(*listing)) {
    visitor.on_model(path, listing->tree->model());
    if (const auto files = forest.lookup(directory, "files"))
      return walk_files(forest, *files, join(path, "files"), visitor);
  }
  for (uint32_t i = 0; i < listing->count; ++i) {
    const Node node = listing->tree->node(listing->first + i);
    const bool is_directory = node.kind == NodeKind::directory || node.kind == NodeKind::tree;
    const bool is_file = !is_directory && node.kind != NodeKind::link && node.kind != NodeKind::dynamic;
    const std::string name = join(path, node.name());
    if (is_directory && !walk_files(forest, listing->ino_of(i), name, visitor)) return false;
    if (is_file && !visitor.on_file(listing->ino_of(i), name)) return false;
  }
  return true;
}

}  // namespace weightfs
