#include "fs/layout/source_tree.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "fs/layout/layout.h"
#include "fs/tree/origin.h"

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

TreePtr tree_of(const Opened& opened, const ModelFileOptions& files,
                const std::optional<std::string>& source_version = std::nullopt);

// Adds the entries of a listing to a tree. Unchanged entries are shared with the older tree `before`, if there is one.
class ListingTree {
 public:
  ListingTree(TreeBuilder& builder, Origin& origin, const Tree* before, const ModelFileOptions& files)
      : builder_(builder), origin_(origin), before_(before), files_(files) {}

  void add(const std::string& path, const SourceEntry& entry) {
    EntryVersion version{std::hash<std::string>()(entry.version), 0};
    const auto known = find(path);
    const EntryVersion* const older = known ? &before_->origin()->version_of(*known) : nullptr;
    const bool is_same = older != nullptr && older->source == version.source;
    if (is_same) version.reopened = older->reopened;
    if (const auto* const file = std::get_if<SourcePtr>(&entry.content)) {
      origin_.files.push_back(version);
      return builder_.add_file(builder_.keep(path), Later<SourcePtr>::of(*file));
    }
    origin_.trees.push_back(version);
    if (entry.bytes > 0) ++origin_.model_files;
    const auto& open = std::get<std::function<Result<Opened>()>>(entry.content);
    builder_.add_tree(
        builder_.keep(path), entry.modified,
        is_same && known->kind == NodeKind::tree
            ? before_->tree(*known)
            : Later<TreePtr>([open, files = files_]() -> Result<TreePtr> { return tree_of(TRY(open()), files); }));
  }

 private:
  // An older entry: a tree or a file.
  std::optional<Node> find(std::string_view path) const {
    uint32_t at = Tree::kRoot;
    while (before_ != nullptr && !path.empty()) {
      const size_t end = std::min(path.find('/'), path.size());
      const auto child = before_->find(at, path.substr(0, end));
      if (!child) return std::nullopt;
      at = *child;
      path.remove_prefix(std::min(end + 1, path.size()));
    }
    if (before_ == nullptr || before_->node(at).kind == NodeKind::directory) return std::nullopt;
    return before_->node(at);
  }

  TreeBuilder& builder_;
  Origin& origin_;
  const Tree* const before_;
  const ModelFileOptions& files_;
};

// The name of an entry in the tree: its path, or in one component the name of one of several sources.
using ShownName = std::string (*)(std::string_view path);

TreePtr tree_of_listing(const Listing& listing, const ModelFileOptions& files, const Tree* before,
                        const std::optional<std::string>& source_version, ShownName shown = shown_path) {
  auto origin = std::make_shared<Origin>();
  TreeBuilder builder(nullptr);
  builder.set_modified(listing.modified);
  builder.set_container_bytes(listing.bytes);
  ListingTree tree(builder, *origin, before, files);
  for (const SourceEntry& entry : listing.entries) tree.add(shown(entry.path), entry);
  if (listing.again) {
    origin->again = [again = listing.again, files, source_version, shown](const Tree& older,
                                                                          Directories mode) -> Result<TreePtr> {
      const Opened opened = TRY(again(mode));
      const auto* const newer = std::get_if<Listing>(&opened);
      return newer == nullptr ? tree_of(opened, files, source_version)
                              : tree_of_listing(*newer, files, &older, source_version, shown);
    };
  }
  origin->directories = listing.directories;
  origin->source_version = source_version.value_or("");
  builder.set_origin(std::move(origin));
  return std::move(builder).freeze();
}

TreePtr tree_of(const Opened& opened, const ModelFileOptions& files, const std::optional<std::string>& source_version) {
  const auto* const model = std::get_if<OpenedModel>(&opened);
  if (model == nullptr) return tree_of_listing(std::get<Listing>(opened), files, nullptr, source_version);
  OriginPtr origin;  // of the root, and of a model that is followed
  if (source_version || model->version_now)
    origin = std::make_shared<const Origin>(Origin{.source_version = source_version.value_or(""),
                                                   .version = model->version,
                                                   .version_now = model->version_now,
                                                   .directories = model->directories});
  return lay_out(model->model, model->source, model->modified, files, std::move(origin));
}

// `source` is its name in messages.
Result<Opened> open_models(const SourceEntry& entry, const std::string& source) {
  Opened opened = TRY(std::get<std::function<Result<Opened>()>>(entry.content)());
  const auto* const listing = std::get_if<Listing>(&opened);
  if (listing != nullptr && listing->entries.empty())
    return failure(Code::unsupported, fmt::format("{}: no supported model in this directory", source));
  return opened;
}

Result<TreePtr> open_one(const SourceEntry& entry, const std::string& source, const ModelFileOptions& files) {
  return tree_of(TRY(open_models(entry, source)), files, entry.version);
}

}  // namespace

// The names of several sources, each of which keeps its own.
class SourceTrees::Names {
 public:
  Names(const std::vector<std::string>& sources, std::vector<std::string> absolute, const OpenOptions& options,
        MayOpen proof)
      : sources_(sources), absolute_(std::move(absolute)), options_(options), proof_(proof), names_(sources.size()) {}

  /// All sources must exist.
  Result<Listing> find() {
    Listing listing{{}, 0, 0};
    std::set<std::string> used;
    for (size_t i = 0; i < sources_.size(); ++i) {
      SourceEntry entry = TRY(find_source(sources_[i], options_, proof_, Check::model));
      names_[i] = entry.path;
      for (int copy = 2; !used.insert(component(names_[i])).second; ++copy)
        names_[i] = fmt::format("{}~{}", entry.path, copy);
      add(listing, i, std::move(entry));
    }
    return listing;
  }

  enum class Which { all, on_disk };

  /// Those on disk that are removed are left out. Others that cannot be found stay as in `before`; `errors` says why.
  Listing find_again(const std::vector<SourceEntry>& before, Which which, std::vector<Error>& errors) const {
    Listing listing{{}, 0, 0};
    for (size_t i = 0; i < sources_.size(); ++i) {
      const bool is_on_disk = is_path(sources_[i]);
      auto old = std::ranges::find(before, names_[i], &SourceEntry::path);
      if (which == Which::all || is_on_disk) {
        auto found = find_source(absolute_[i], options_, proof_, Check::existence);
        if (found) {
          add(listing, i, std::move(*found));
          continue;
        }
        if (is_on_disk && found.error().code == Code::not_found) old = before.end();
        errors.push_back(found.error());
      }
      if (old != before.end()) add(listing, i, *old);
    }
    return listing;
  }

  /// The directories of the sources on disk that are files.
  std::vector<WatchedDirectory> directories() const {
    std::vector<WatchedDirectory> found;
    for (const std::string& source : absolute_) {
      if (!is_path(source)) continue;
      const auto location = locate_source(source, options_.access);
      if (!location || location->name.empty()) continue;
      if (auto directory = watched(location->parent())) found.push_back(std::move(*directory));
    }
    return found;
  }

 private:
  void add(Listing& listing, size_t i, SourceEntry entry) const {
    entry.path = names_[i];
    listing.bytes += entry.bytes;
    listing.modified = std::max(listing.modified, entry.modified);
    listing.entries.push_back(std::move(entry));
  }

  const std::vector<std::string> sources_;
  const std::vector<std::string> absolute_;
  const OpenOptions options_;
  const MayOpen proof_;
  std::vector<std::string> names_;
};

// Adds what is needed to list the sources again.
Listing SourceTrees::followed(const std::shared_ptr<const Names>& names,
                              const std::shared_ptr<std::vector<SourceEntry>>& entries, Listing listing) {
  listing.directories = names->directories();
  listing.again = [names, entries](Directories) -> Result<Opened> {
    std::vector<Error> errors;
    Listing newer = names->find_again(*entries, Names::Which::on_disk, errors);
    *entries = newer.entries;
    return followed(names, entries, std::move(newer));
  };
  return listing;
}

SourceTrees::SourceTrees(std::vector<std::string> sources, std::vector<std::string> absolute, OpenOptions options,
                         MayOpen proof, ModelFileOptions files)
    : sources_(std::move(sources)),
      absolute_(std::move(absolute)),
      options_(std::move(options)),
      proof_(proof),
      files_(std::move(files)) {}

Result<TreePtr> SourceTrees::open() {
  if (sources_.size() == 1)
    return open_one(TRY(find_source(sources_.front(), options_, proof_, Check::existence)), sources_.front(), files_);
  // All sources are located first: the server process may have another working directory when it opens them.
  const auto names = std::make_shared<Names>(sources_, absolute_, options_, proof_);
  Listing listing = TRY(names->find());
  names_ = names;
  entries_ = std::make_shared<std::vector<SourceEntry>>(listing.entries);
  return tree_of_listing(followed(names_, entries_, std::move(listing)), files_, nullptr, "",
                         [](std::string_view name) { return component(name); });
}

Result<Refreshed> SourceTrees::refresh(const TreePtr& before) const {
  if (const BlobStorePtr& store = options_.registries.store) store->forget_urls();
  if (names_ == nullptr) return refresh_one(before);
  Refreshed refreshed{nullptr, true, {}};
  Listing listing = names_->find_again(*entries_, Names::Which::all, refreshed.errors);
  *entries_ = listing.entries;
  refreshed.tree = tree_of_listing(followed(names_, entries_, std::move(listing)), files_, before.get(), "",
                                   [](std::string_view name) { return component(name); });
  return refreshed;
}

Result<Refreshed> SourceTrees::refresh_one(const TreePtr& before) const {
  const Origin& origin = *before->origin();
  const SourceEntry entry = TRY(find_source(absolute_.front(), options_, proof_, Check::existence));
  const bool is_same_source = entry.version == origin.source_version;
  Refreshed refreshed{before, false, {}, entry.version};
  if (is_same_source && origin.again) {
    refreshed.tree = TRY(origin.again(*before, Directories::listed));
    refreshed.is_same_directory = true;
    return refreshed;
  }
  if (is_same_source && (!origin.version_now || TRY(origin.version_now()) == origin.version)) return refreshed;
  auto tree = open_one(entry, absolute_.front(), files_);
  if (!tree) refreshed.errors.push_back(tree.error());
  refreshed.tree = tree.value_or(nullptr);
  return refreshed;
}

Result<TreePtr> open_sources(const std::vector<std::string>& sources, const OpenOptions& options, MayOpen proof,
                             const ModelFileOptions& files) {
  return SourceTrees(sources, sources, options, proof, files).open();
}

Result<TreePtr> open_entry(const SourceEntry& entry, const ModelFileOptions& files) {
  return tree_of(TRY(open_models(entry, entry.path)), files);
}

TreePtr with_reopened(const Tree& directory, uint32_t entry) {
  auto origin = std::make_shared<Origin>(*directory.origin());
  TreeBuilder builder(nullptr);
  builder.set_modified(directory.modified());
  builder.set_container_bytes(directory.container_bytes());
  std::vector<EntryVersion> trees, files;
  for (uint32_t i = 1; i < directory.size(); ++i) {
    const Node node = directory.node(i);
    if (node.kind == NodeKind::directory) continue;
    const std::string_view path = builder.keep(directory.path(i));
    EntryVersion version = origin->version_of(node);
    if (node.kind == NodeKind::file) {
      files.push_back(version);
      builder.add_file(path, Later<SourcePtr>::of(*directory.known_file(node)));
      continue;
    }
    if (i == entry) {
      ++version.reopened;
      directory.tree(node).forget();
    }
    trees.push_back(version);
    builder.add_tree(path, directory.modified_of_tree(node), directory.tree(node));
  }
  origin->trees = std::move(trees);
  origin->files = std::move(files);
  builder.set_origin(std::move(origin));
  return std::move(builder).freeze();
}

}  // namespace weightfs
