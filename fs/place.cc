#include "fs/place.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/mounts.h"
#include "base/text.h"
#include "fs/layout.h"

namespace weightfs {
namespace {

namespace stdfs = std::filesystem;

// The identities of the directories that were entered to get here: a link back to one of them is not followed.
using Ancestors = std::set<std::pair<dev_t, ino_t>>;

Result<struct stat> examine(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0) return found;
  const Code code = errno == ENOENT || errno == ENOTDIR ? Code::not_found : Code::io;
  return failure(code, str(path, ": ", std::generic_category().message(errno)));
}

// Years that a Time cannot say become the nearest that it can.
Time modified(const struct stat& file) {
  constexpr Time kMostSeconds = 9'000'000'000;
  return std::clamp<Time>(file.st_mtim.tv_sec, -kMostSeconds, kMostSeconds) * 1'000'000'000 + file.st_mtim.tv_nsec;
}

// The names in a directory, sorted by byte.
Result<std::vector<std::string>> names_in(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (stdfs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename());
  if (error) return failure(Code::io, str(path, ": ", error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

class DiskFolder final : public Folder {
 public:
  explicit DiskFolder(std::string path) : path_(std::move(path)) {}

  Result<std::vector<std::string>> names() const override {
    std::vector<std::string> names = TRY(names_in(path_));
    std::error_code unreadable;  // what cannot be examined is no regular file
    std::erase_if(names, [&](const std::string& name) { return !stdfs::is_regular_file(path_of(name), unreadable); });
    return names;
  }

  Result<std::vector<Part>> parts() const override {
    std::vector<Part> parts;
    std::error_code error;
    const Mounts mounts = Mounts::now();
    constexpr auto kPassOver = stdfs::directory_options::skip_permission_denied;
    for (stdfs::recursive_directory_iterator entry(path_, kPassOver, error), end; !error && entry != end;
         entry.increment(error)) {
      // A mount of weightfs in it is no part of it, and might show it.
      struct stat found {};
      std::error_code unreadable;
      if (entry->is_directory(unreadable) && ::lstat(entry->path().c_str(), &found) == 0 &&
          mounts.is_weightfs(found.st_dev))
        entry.disable_recursion_pending();
      if (parts.size() == kMostMembers)
        return failure(Code::unsupported, str(path_, ": more than ", kMostMembers, " files"));
      if (auto part = part_at(*entry)) parts.push_back(std::move(*part));
    }
    if (error) return failure(Code::io, str(path_, ": ", error.message()));
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.path < b.path; });
    return parts;
  }

  Result<SourcePtr> open(std::string_view name) const override {
    if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos || name.find('\0') != name.npos)
      return failure(Code::corrupt, str(quoted(name), " is not the name of a file beside the container"));
    return open_file(path_of(name));
  }

 private:
  std::string path_of(std::string_view name) const { return str(path_, "/", name); }

  // Nothing for a directory and for what cannot be a file.
  std::optional<Part> part_at(const stdfs::directory_entry& entry) const {
    const std::string path = entry.path();
    const std::string shown = path.substr(path_.size() + 1);
    struct stat found {};
    if (::lstat(path.c_str(), &found) != 0) return std::nullopt;
    if (S_ISLNK(found.st_mode)) {
      std::error_code unreadable;
      Part link{shown, Later<SourcePtr>::of(in_memory(""))};
      link.link_target = stdfs::read_symlink(entry.path(), unreadable);
      return unreadable ? std::nullopt : std::optional(std::move(link));
    }
    if (!S_ISREG(found.st_mode)) return std::nullopt;
    const Later<SourcePtr> opened([path] { return open_file(path); });
    return Part{shown, Later<SourcePtr>::of(lazy(static_cast<uint64_t>(found.st_size), opened))};
  }

  std::string path_;
};

bool is_directory(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

// Whether the directory is a store of manifests.
bool is_store(const std::string& path) { return is_directory(path + "/manifests") && is_directory(path + "/blobs"); }

// What lies beside a container; beside a manifest in a store its blobs do.
std::shared_ptr<const Folder> folder_of(const stdfs::path& container) {
  stdfs::path top = container;
  for (int up = 0; up < 4; ++up) top = top.parent_path();
  if (top.filename() == "manifests" && is_store(top.parent_path()) &&
      is_shelf_path(container.lexically_relative(top).string()))
    return std::make_shared<DiskFolder>(top.parent_path() / "blobs");
  return std::make_shared<DiskFolder>(container.parent_path());
}

// A container on disk; `path` is absolute.
Result<Container> container_at(const std::string& path, const Opening& opening) {
  const stdfs::path where(path);
  SourcePtr bytes = TRY(open_file(path));
  return Container{where.filename(), std::move(bytes), folder_of(where), opening.blobs};
}

Result<TreePtr> open_container(const std::string& path, Time time, const Opening& opening) {
  const Container container = TRY(container_at(path, opening));
  Model model = TRY(read_model(container, opening.forced));
  return lay_out(std::make_shared<Model>(std::move(model)), path, time);
}

// A directory that is one model, by the file `key` in it: what lies beside (config.json, a tokenizer) is shown in
// files/ as well.
Result<TreePtr> open_keyed(const std::string& directory, const std::string& key, Time time, const Opening& opening) {
  const Container container = TRY(container_at(str(directory, "/", key), opening));
  Model model = TRY(read_model(container, opening.forced));
  std::set<std::string> shown;
  for (const Part& part : model.parts) shown.insert(part.path);
  for (const std::string& name : TRY(container.folder->names())) {
    if (shown.contains(name)) continue;
    model.parts.push_back({name, Later<SourcePtr>([folder = container.folder, name] { return folder->open(name); })});
  }
  return lay_out(std::make_shared<Model>(std::move(model)), directory, time);
}

// A store of manifests: its models by their places.
Result<TreePtr> open_store(const std::string& path, Time time, const Opening& opening) {
  const std::string manifests = path + "/manifests";
  const auto blobs = std::make_shared<DiskFolder>(path + "/blobs");
  Shelves shelves = TRY(read_shelves(DiskFolder(manifests), blobs, opening.blobs));
  TreeBuilder builder(nullptr);
  builder.set_modified(time);
  for (const Shelved& shelved : shelves.models) {
    const std::string file = str(manifests, "/", shelved.path);
    const auto found = examine(file);
    const Time modified_then = found ? modified(*found) : time;
    const auto read = [=, container = shelved.container, forced = opening.forced]() -> Result<TreePtr> {
      Model model = TRY(read_model(container, forced == nullptr ? format_named("ollama") : forced));
      return lay_out(std::make_shared<Model>(std::move(model)), file, modified_then);
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

Result<TreePtr> open_directory(const std::string& path, Ancestors ancestors, const Opening& opening);

// A file that cannot be read is one when its name says so: entering it tells why. Not one of several.
bool is_shown_as_model(const Result<Container>& container, const std::string& name, const Opening& opening) {
  if (opening.forced != nullptr) return true;
  const Result<bool> is = container ? is_model(*container) : tl::unexpected(container.error());
  return is ? *is : is_named_as_model(name) && !split_model_named(name);
}

// Adds what is called `name` in the directory `path`, if it is something to show, and says how many bytes it has.
uint64_t add_entry(TreeBuilder& builder, const std::string& directory, const std::string& name,
                   const Ancestors& ancestors, std::set<std::string>& split_models, const Opening& opening) {
  const std::string path = str(directory, "/", name);
  if (path == opening.hidden) return 0;
  const std::string shown = component(name);
  const auto found = examine(path);
  if (!found) return 0;
  if (S_ISDIR(found->st_mode)) {
    if (ancestors.contains({found->st_dev, found->st_ino})) return 0;
    builder.add_tree(shown, modified(*found), Later<TreePtr>([=] { return open_directory(path, ancestors, opening); }));
    return 0;
  }
  if (!S_ISREG(found->st_mode)) return 0;
  const auto container = container_at(path, opening);
  const auto size = static_cast<uint64_t>(found->st_size);
  if (is_shown_as_model(container, name, opening)) {
    // The first readable file of a split model stands for all.
    const auto split = container ? split_model_of(*container) : std::nullopt;
    if (split && !split_models.insert(*split).second) return size;
    const Time time = modified(*found);
    builder.add_tree(shown, time, Later<TreePtr>([=] { return open_container(path, time, opening); }));
  } else if (opening.all_files) {
    const Later<SourcePtr> opened([=] { return open_file(path); });
    builder.add_file(shown, Later<SourcePtr>::of(lazy(size, opened)));
  } else {
    return 0;
  }
  return size;
}

// The models and directories in `path`.
Result<TreePtr> open_directory(const std::string& path, Ancestors ancestors, const Opening& opening) {
  const struct stat found = TRY(examine(path));
  // A mount that showed itself, or another that shows this one, would never end.
  if (Mounts::now().is_weightfs(found.st_dev))
    return failure(Code::unsupported, str(path, ": a weightfs mount is not shown in another"));
  if (is_store(path)) return open_store(path, modified(found), opening);
  const auto names = TRY(names_in(path));
  if (const auto key = TRY(key_file(names, DiskFolder(path)))) return open_keyed(path, *key, modified(found), opening);
  ancestors.emplace(found.st_dev, found.st_ino);
  TreeBuilder builder(nullptr);
  builder.set_modified(modified(found));
  std::set<std::string> split_models;
  uint64_t bytes = 0;
  for (const std::string& name : names) bytes += add_entry(builder, path, name, ancestors, split_models, opening);
  builder.set_container_bytes(bytes);
  return std::move(builder).freeze();
}

// A file that was named must be a model; one that just lies in a directory need not.
Result<void> check_is_model(const std::string& path, const Opening& opening) {
  const Container container = TRY(container_at(path, opening));
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

Result<TreePtr> open_source(const std::string& path, const Opening& opening) {
  const struct stat found = TRY(examine(path));
  if (S_ISDIR(found.st_mode)) return open_directory(path, {}, opening);
  return open_container(path, modified(found), opening);
}

// One of several sources, as an entry of the tree that shows them all.
struct Entry {
  std::string name;
  Time modified;
  uint64_t bytes;
  Later<TreePtr> tree;
};

Result<Entry> entry_of(const std::string& path, const Opening& opening) {
  const struct stat found = TRY(examine(path));
  if (S_ISREG(found.st_mode)) TRY_VOID(check_is_model(path, opening));
  return Entry{stdfs::path(path).filename().string(), modified(found),
               S_ISREG(found.st_mode) ? static_cast<uint64_t>(found.st_size) : 0,
               Later<TreePtr>([=] { return open_source(path, opening); })};
}

Entry entry_of(const Remote& remote, Time time, const Opening& opening) {
  return Entry{remote.name, time, 0, Later<TreePtr>([=] { return open_remote(remote, time, opening); })};
}

// What a user named: a model elsewhere, or an absolute path.
struct Named {
  std::optional<Remote> remote;
  std::string path;
};

Result<Named> find(std::string source, const Opening& opening) {
  if (opening.find)
    if (auto remote = TRY(opening.find(source))) return Named{std::move(remote), {}};
  return Named{{}, TRY(absolute_path(source))};
}

}  // namespace

Result<std::string> absolute_path(const std::string& path) {
  stdfs::path given(path);
  while (given.has_relative_path() && !given.has_filename()) given = given.parent_path();
  const stdfs::path name = given.filename();
  const bool is_name = !name.empty() && name != "." && name != "..";
  std::error_code error;
  stdfs::path directory = is_name ? given.parent_path() : given;
  if (directory.empty() && is_name) directory = ".";
  directory = stdfs::canonical(directory, error);
  if (error) return failure(Code::not_found, str(path.empty() ? "\"\"" : path, ": ", error.message()));
  return is_name ? (directory / name).string() : directory.string();
}

Result<TreePtr> open_sources(const std::vector<std::string>& sources, const Opening& opening) {
  // The process that serves the mount may have another working directory by the time it reads.
  std::vector<Named> named;
  for (const std::string& source : sources) named.push_back(TRY(find(source, opening)));
  if (named.size() == 1) {
    if (named[0].remote) return open_remote(*named[0].remote, now(), opening);
    TreePtr tree = TRY(open_source(named[0].path, opening));
    if (tree->size() == 1)
      return failure(Code::unsupported, str(sources.front(), ": no model that I know is in this directory"));
    return tree;
  }

  TreeBuilder builder(nullptr);
  uint64_t bytes = 0;
  Time newest = 0;
  std::set<std::string> used;
  for (const auto& [remote, path] : named) {
    const Entry entry = remote ? entry_of(*remote, now(), opening) : TRY(entry_of(path, opening));
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
