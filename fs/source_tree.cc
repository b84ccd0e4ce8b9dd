#include "fs/source_tree.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/text.h"
#include "fs/layout.h"

namespace weightfs {
namespace {

// Escapes each component.
std::string shown_path(std::string_view path) {
  std::string out;
  while (true) {
    const size_t slash = path.find('/');
    out += component(path.substr(0, slash));
    if (slash == path.npos) return out;
    out += '/';
    path.remove_prefix(slash + 1);
  }
}

TreePtr tree_of(const Opened& opened, const ModelFileOptions& files);

void add(TreeBuilder& builder, const std::string& path, const SourceEntry& entry, const ModelFileOptions& files) {
  if (const auto* const file = std::get_if<SourcePtr>(&entry.content))
    return builder.add_file(builder.keep(path), Later<SourcePtr>::of(*file));
  const auto& open = std::get<std::function<Result<Opened>()>>(entry.content);
  builder.add_tree(builder.keep(path), entry.modified,
                   Later<TreePtr>([open, files]() -> Result<TreePtr> { return tree_of(TRY(open()), files); }));
}

TreePtr tree_of(const Opened& opened, const ModelFileOptions& files) {
  if (const auto* const model = std::get_if<OpenedModel>(&opened))
    return lay_out(model->model, model->source, model->modified, files);
  const auto& listing = std::get<Listing>(opened);
  TreeBuilder builder(nullptr);
  builder.set_modified(listing.modified);
  builder.set_container_bytes(listing.bytes);
  for (const SourceEntry& entry : listing.entries) add(builder, shown_path(entry.path), entry, files);
  return std::move(builder).freeze();
}

Result<TreePtr> open_one(const SourceEntry& entry, const std::string& source, const ModelFileOptions& files) {
  const Opened opened = TRY(std::get<std::function<Result<Opened>()>>(entry.content)());
  const auto* const listing = std::get_if<Listing>(&opened);
  if (listing != nullptr && listing->entries.empty())
    return failure(Code::unsupported, fmt::format("{}: no supported model in this directory", source));
  return tree_of(opened, files);
}

}  // namespace

Result<TreePtr> open_sources(const std::vector<std::string>& sources, const OpenOptions& options,
                             const ModelFileOptions& files) {
  // All sources are located first: the server process may have another working directory when it opens them.
  std::vector<SourceEntry> entries;
  const Check check = sources.size() == 1 ? Check::existence : Check::model;
  for (const std::string& source : sources) entries.push_back(TRY(find_source(source, options, check)));
  if (entries.size() == 1) return open_one(entries.front(), sources.front(), files);

  TreeBuilder builder(nullptr);
  uint64_t bytes = 0;
  Time newest = 0;
  std::set<std::string> used;
  for (const SourceEntry& entry : entries) {
    const std::string name = component(entry.path);
    std::string shown = name;
    for (int copy = 2; !used.insert(shown).second; ++copy) shown = fmt::format("{}~{}", name, copy);
    add(builder, shown, entry, files);
    bytes += entry.bytes;
    newest = std::max(newest, entry.modified);
  }
  builder.set_container_bytes(bytes);
  builder.set_modified(newest);
  return std::move(builder).freeze();
}

}  // namespace weightfs
