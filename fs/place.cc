#include "fs/place.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "base/os/mounts.h"
#include "base/text.h"
#include "fs/layout.h"

namespace weightfs {
namespace {

// Links to directories can offer exponentially many paths: so many of them are followed on one path.
constexpr int kMostDirectoryLinks = 3;

// How a directory was reached.
struct Way {
  std::set<std::pair<dev_t, ino_t>> entered;  // a link back to one of these directories is not followed
  int links = 0;                              // to directories
};

// What lies beside a container; beside a manifest in a store its blobs do.
std::shared_ptr<const Folder> folder_of(const Location& container) {
  Location top = container;
  for (int up = 0; up < 4 && !top.name.empty(); ++up) top = top.parent();
  const bool is_below_manifests = !top.name.empty() && top.file_name() == "manifests";
  if (is_below_manifests && is_store(top.parent()) && is_shelf_path(container.name.substr(top.name.size() + 1)))
    return std::make_shared<DiskFolder>(top.parent() / "blobs");
  return std::make_shared<DiskFolder>(container.parent());
}

// A container on disk.
Result<Container> container_at(const Location& location, const Opening& opening) {
  SourcePtr bytes = TRY(location.open());
  return Container{location.file_name(), std::move(bytes), folder_of(location), opening.blobs};
}

Result<TreePtr> open_container(const Location& location, Time time, const Opening& opening) {
  const Container container = TRY(container_at(location, opening));
  Model model = TRY(read_model(container, opening.forced));
  return lay_out(std::make_shared<Model>(std::move(model)), location.path(), time);
}

// A directory that is one model, by the file `key` in it: what lies beside (config.json, a tokenizer) is shown in
// files/ as well.
Result<TreePtr> open_keyed(const Location& directory, const std::string& key, Time time, const Opening& opening) {
  const Container container = TRY(container_at(directory / key, opening));
  Model model = TRY(read_model(container, opening.forced));
  std::set<std::string> shown;
  for (const Part& part : model.parts) shown.insert(part.path);
  for (const std::string& name : TRY(container.folder->names())) {
    if (shown.contains(name)) continue;
    model.parts.push_back({name, Later<SourcePtr>([folder = container.folder, name] { return folder->open(name); })});
  }
  for (std::string& line : TRY(DiskFolder(directory).forbidden())) {
    opening.log(line);
    model.warnings.push_back(std::move(line));
  }
  return lay_out(std::make_shared<Model>(std::move(model)), directory.path(), time);
}

// The models of a store, by the identities of their manifests: tags that are hard links of one file share a model as long
// as one of them has it in memory.
class SharedModels {
 public:
  Result<ModelPtr> get(const std::string& identity, const std::function<Result<Model>()>& read) {
    if (identity.empty()) return std::make_shared<Model>(TRY(read()));
    {
      const std::scoped_lock lock(mutex_);
      if (auto model = models_[identity].lock()) return model;
    }
    const auto model = std::make_shared<const Model>(TRY(read()));
    const std::scoped_lock lock(mutex_);
    models_[identity] = model;
    return model;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const Model>> models_;
};

// A store of manifests: its models by their places.
Result<TreePtr> open_store(const Location& store, Time time, const Opening& opening) {
  const Location manifests = store / "manifests";
  const auto blobs = std::make_shared<DiskFolder>(store / "blobs");
  Shelves shelves = TRY(read_shelves(DiskFolder(manifests), blobs, opening.blobs));
  TreeBuilder builder(nullptr);
  builder.set_modified(time);
  const auto models = std::make_shared<SharedModels>();
  for (const Shelved& shelved : shelves.models) {
    const Location file = manifests / shelved.path;
    const auto found = file.examine();
    const Time modified_then = found ? modified(*found) : time;
    const auto read = [=, shelved = shelved, forced = opening.forced]() -> Result<TreePtr> {
      const Format* const format = forced == nullptr ? format_named("ollama") : forced;
      const auto read_manifest = [&] { return read_model(shelved.container, format); };
      return lay_out(TRY(models->get(shelved.identity, read_manifest)), file.path(), modified_then);
    };
    builder.add_tree(shelved.path, modified_then, Later<TreePtr>(read));
  }
  if (!shelves.warnings.empty()) {
    std::string text;
    for (const std::string& line : shelves.warnings) text += printable(line) + "\n";
    builder.add_file("warnings.txt", Later<SourcePtr>::of(in_memory(std::move(text))));
  }
  return std::move(builder).freeze();
}

Result<TreePtr> open_directory(const Location& directory, Way way, const Opening& opening);

// A file that cannot be read is one when its name says so: entering it tells why. Not one of several.
bool is_shown_as_model(const Result<Container>& container, const std::string& name, const Opening& opening) {
  if (opening.forced != nullptr) return true;
  const Result<bool> is = container ? is_model(*container) : tl::unexpected(container.error());
  return is ? *is : is_named_as_model(name) && !split_model_named(name);
}

// The first readable file of a split model stands for all: the names of those that have one.
using SplitModels = std::set<std::string>;

// Adds a regular file, if it is something to show, and returns how many bytes it has.
uint64_t add_file(TreeBuilder& builder, const Location& location, const struct stat& found, SplitModels& split_models,
                  const Opening& opening) {
  const std::string name = location.file_name();
  const auto container = container_at(location, opening);
  if (!container && is_forbidden(container.error())) opening.log(container.error().message);
  const auto size = static_cast<uint64_t>(found.st_size);
  if (is_shown_as_model(container, name, opening)) {
    const auto split = container ? split_model_of(*container) : std::nullopt;
    if (split && !split_models.insert(*split).second) return size;
    const Time time = modified(found);
    builder.add_tree(component(name), time, Later<TreePtr>([=] { return open_container(location, time, opening); }));
  } else if (opening.all_files) {
    builder.add_file(component(name), Later<SourcePtr>::of(listed_file(location, found)));
  } else {
    return 0;
  }
  return size;
}

// A file that may not be opened, or whose link is not followed: a model when its name says so. Entering it tells why.
void add_forbidden(TreeBuilder& builder, const Location& location, const Error& error) {
  const std::string name = location.file_name();
  if (!is_named_as_model(name) || split_model_named(name)) return;
  builder.add_tree(component(name), 0, Later<TreePtr>([error]() -> Result<TreePtr> { return tl::unexpected(error); }));
}

// Adds an entry of a directory, if it is something to show, and returns how many bytes it has.
uint64_t add_entry(TreeBuilder& builder, const Location& location, unsigned char type, Way way, SplitModels& split_models,
                   const Opening& opening) {
  if (location.path() == opening.hidden) return 0;
  const auto found = location.examine();
  if (!found && is_forbidden(found.error())) {
    opening.log(found.error().message);
    add_forbidden(builder, location, found.error());
  }
  if (!found) return 0;
  if (S_ISREG(found->st_mode)) return add_file(builder, location, *found, split_models, opening);
  if (!S_ISDIR(found->st_mode) || way.entered.contains({found->st_dev, found->st_ino})) return 0;
  if (type != DT_DIR && ++way.links > kMostDirectoryLinks) return 0;
  builder.add_tree(component(location.file_name()), modified(*found),
                   Later<TreePtr>([=] { return open_directory(location, way, opening); }));
  return 0;
}

// The models and directories in a directory.
Result<TreePtr> open_directory(const Location& directory, Way way, const Opening& opening) {
  const struct stat found = TRY(directory.examine());
  // A mount that showed itself, or another that shows this one, would never end.
  if (Mounts::now().is_weightfs(found.st_dev))
    return failure(Code::unsupported, str(directory.path(), ": a weightfs mount is not shown in another"));
  if (is_store(directory)) return open_store(directory, modified(found), opening);
  const auto entries = TRY(directory.root->list(directory.name));
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : entries) names.push_back(entry.name);
  if (const auto key = TRY(key_file(names, DiskFolder(directory))))
    return open_keyed(directory, *key, modified(found), opening);
  way.entered.emplace(found.st_dev, found.st_ino);
  TreeBuilder builder(nullptr);
  builder.set_modified(modified(found));
  SplitModels split_models;
  uint64_t bytes = 0;
  for (const DirectoryEntry& entry : entries)
    bytes += add_entry(builder, directory / entry.name, entry.type, way, split_models, opening);
  builder.set_container_bytes(bytes);
  return std::move(builder).freeze();
}

// A file that was named must be a model; one that just lies in a directory need not.
Result<void> check_is_model(const Location& location, const Opening& opening) {
  const Container container = TRY(container_at(location, opening));
  if (opening.forced == nullptr && !TRY(is_model(container))) TRY(read_model(container));
  return {};
}

Time now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Result<TreePtr> open_remote(const Remote& remote, Time time, const Opening& opening) {
  Model model = TRY(read_model(remote.container, opening.forced));
  return lay_out(std::make_shared<Model>(std::move(model)), remote.source, time);
}

Result<TreePtr> open_source(const Location& source, const Opening& opening) {
  const struct stat found = TRY(source.examine());
  if (S_ISDIR(found.st_mode)) return open_directory(source, {}, opening);
  return open_container(source, modified(found), opening);
}

// One of several sources, as an entry of the tree that shows them all.
struct Entry {
  std::string name;
  Time modified;
  uint64_t bytes;
  Later<TreePtr> tree;
};

Result<Entry> entry_of(const Location& source, const Opening& opening) {
  const struct stat found = TRY(source.examine());
  if (S_ISREG(found.st_mode)) TRY_VOID(check_is_model(source, opening));
  return Entry{source.file_name(), modified(found), S_ISREG(found.st_mode) ? static_cast<uint64_t>(found.st_size) : 0,
               Later<TreePtr>([=] { return open_source(source, opening); })};
}

Entry entry_of(const Remote& remote, Time time, const Opening& opening) {
  return Entry{remote.name, time, 0, Later<TreePtr>([=] { return open_remote(remote, time, opening); })};
}

// What a user named: a model elsewhere, or a file or directory on disk.
struct Named {
  std::optional<Remote> remote;
  Location location;
};

Result<Named> find(std::string source, const Opening& opening) {
  if (opening.find)
    if (auto remote = TRY(opening.find(source))) return Named{std::move(remote), {}};
  return Named{{}, TRY(locate_source(source, opening.access))};
}

}  // namespace

Result<TreePtr> open_sources(const std::vector<std::string>& sources, const Opening& opening) {
  // The process that serves the mount may have another working directory by the time it reads.
  std::vector<Named> named;
  for (const std::string& source : sources) named.push_back(TRY(find(source, opening)));
  if (named.size() == 1) {
    if (named[0].remote) return open_remote(*named[0].remote, now(), opening);
    TreePtr tree = TRY(open_source(named[0].location, opening));
    if (tree->size() == 1)
      return failure(Code::unsupported, str(sources.front(), ": no model that I know is in this directory"));
    return tree;
  }

  TreeBuilder builder(nullptr);
  uint64_t bytes = 0;
  Time newest = 0;
  std::set<std::string> used;
  for (const auto& [remote, location] : named) {
    const Entry entry = remote ? entry_of(*remote, now(), opening) : TRY(entry_of(location, opening));
    const std::string name = component(entry.name);
    std::string shown = name;
    for (int copy = 2; !used.insert(shown).second; ++copy) shown = str(name, "~", copy);
    builder.add_tree(shown, entry.modified, entry.tree);
    bytes += entry.bytes;
    newest = std::max(newest, entry.modified);
  }
  builder.set_container_bytes(bytes);
  builder.set_modified(newest);
  return std::move(builder).freeze();
}

}  // namespace weightfs
