// A directory: one model, a store, or a directory of models.
#include <dirent.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/os/mounts.h"
#include "base/text.h"
#include "formats/common/warnings.h"
#include "formats/one_model.h"
#include "formats/other_files.h"
#include "formats/signature.h"
#include "sources/disk/hub_cache.h"
#include "sources/disk/model_runner.h"
#include "sources/disk/model_walk.h"
#include "sources/disk/stated_digests.h"
#include "sources/kinds.h"

namespace weightfs {
namespace {

// Links to directories can offer exponentially many paths: at most this many are followed on one path.
constexpr int kMaxDirectoryLinks = 3;

// What was found out about the files of a directory, so that listing it again reads only those that have changed.
class KnownFiles {
 public:
  struct Facts {
    bool is_model;
    std::optional<std::string> split;  // the name of the split model that it is a part of
  };

  // Nothing if the file has changed. Called between begin() and end(), for each file of the directory.
  std::optional<Facts> find(const std::string& name, size_t version) {
    const std::scoped_lock lock(mutex_);
    const auto found = before_.find(name);
    if (found == before_.end() || found->second.first != version) return std::nullopt;
    now_.insert_or_assign(name, found->second);
    return found->second.second;
  }
  void add(const std::string& name, size_t version, Facts facts) {
    const std::scoped_lock lock(mutex_);
    now_.insert_or_assign(name, std::pair(version, std::move(facts)));
  }
  void begin() {
    const std::scoped_lock lock(mutex_);
    before_ = std::exchange(now_, {});
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    before_.clear();
  }

 private:
  using ByName = std::unordered_map<std::string, std::pair<size_t, Facts>>;  // with hashes of their versions
  std::mutex mutex_;                                                         // guards the rest
  ByName before_, now_;
};
using KnownFilesPtr = std::shared_ptr<KnownFiles>;

// The path by which a directory was reached.
struct Traversal {
  using Entered = std::set<std::pair<dev_t, ino_t>>;
  std::shared_ptr<const Entered> entered = std::make_shared<Entered>();  // a link back to one of them is not followed
  int links = 0;                                                         // to directories
};

Result<Opened> open_at(const Location& directory, Traversal traversal, const OpenOptions& options,
                       Directories mode = Directories::by_rule, KnownFilesPtr known = std::make_shared<KnownFiles>());

// Options for what is below a directory: they do not choose the file of its model.
std::shared_ptr<const OpenOptions> options_below(OpenOptions options) {
  options.file.clear();
  return std::make_shared<const OpenOptions>(std::move(options));
}

// Lists one directory.
class Lister {
 public:
  Lister(const OpenOptions& options, Traversal traversal, Time modified, KnownFilesPtr known)
      : shared_options_(options_below(options)),
        options_(*shared_options_),
        traversal_(std::move(traversal)),
        known_(std::move(known)),
        listing_{{}, modified, 0} {}

  /// Adds the entries of a directory.
  void add_all(const Location& directory, const std::vector<DirectoryEntry>& entries) {
    std::vector<std::string> names;
    for (const DirectoryEntry& entry : entries) names.push_back(entry.name);
    has_trainer_ = has_weights_or_trainer(names);
    stated_ = std::make_shared<const StatedDigests>(directory, names);
    known_->begin();
    for (const DirectoryEntry& entry : entries) add(directory / entry.name, entry.type);
    known_->end();
  }

  bool is_model_file(const std::string& name) const { return models_.contains(name); }
  bool has_forbidden() const { return has_forbidden_; }
  bool has_models() const { return !models_.empty(); }
  const std::optional<Error>& missing() const { return missing_; }

  Listing take() {
    for (auto& [split, entry] : bad_splits_)
      if (!split_models_.contains(split)) listing_.entries.push_back(std::move(entry));
    return std::move(listing_);
  }

 private:
  void add(const Location& location, unsigned char type) {
    if (location.path() == options_.excluded_path) return;
    const auto found = location.examine();
    if (!found && is_forbidden(found.error())) {
      options_.log(found.error().message);
      add_forbidden(location.file_name(), found.error());
    }
    if (!found && found.error().code == Code::not_found && blob_of_link(location)) add_missing(location);
    if (!found) return;
    if (S_ISREG(found->st_mode)) return add_file(location, *found);
    if (S_ISDIR(found->st_mode)) add_directory(location, *found, type != DT_DIR);
  }

  void add_file(const Location& location, const struct stat& found) {
    const std::string name = location.file_name();
    const KnownFiles::Facts facts = facts_of(location, found, name);
    const auto size = static_cast<uint64_t>(found.st_size);
    const Time time = modified(found);
    const auto open = [=, options = shared_options_, stated = stated_] {
      return open_container(location, time, *options, stated);
    };
    if (!is_state_of_trainer(name) && facts.is_model) {
      listing_.bytes += size;
      // Any readable file of a split model opens all of it; each is a part of its version.
      if (facts.split) {
        const auto [first, is_first] = split_models_.emplace(*facts.split, listing_.entries.size());
        if (!is_first) {
          listing_.entries[first->second].version += " " + version_of(found);
          return;
        }
      }
      models_.insert(name);
      listing_.entries.push_back({name, time, size, open, version_of(found)});
    } else if (options_.all_files) {
      listing_.bytes += size;
      listing_.entries.push_back({name, time, size, listed_file(location, found), version_of(found)});
    } else if (const auto split = split_model_named(name)) {
      bad_splits_.try_emplace(*split, SourceEntry{name, time, size, open, version_of(found)});
    }
  }

  KnownFiles::Facts facts_of(const Location& location, const struct stat& found, const std::string& name) const {
    const size_t version = std::hash<std::string>()(
        fmt::format("{} {:x}.{:x}", version_of(found), found.st_ctim.tv_sec, found.st_ctim.tv_nsec));
    if (auto facts = known_->find(name, version)) return *std::move(facts);
    const auto container = container_at(location, options_);
    if (!container && is_forbidden(container.error())) options_.log(container.error().message);
    KnownFiles::Facts facts{is_shown_as_model(container, name), std::nullopt};
    if (facts.is_model && container) facts.split = split_model_of(*container);
    if (container) known_->add(name, version, facts);
    return facts;
  }

  bool is_state_of_trainer(const std::string& name) const { return has_trainer_ && is_named_as_training_state(name); }

  // An unreadable or bad file is shown as a model if it is named as one: entering it reports the error. A file of a
  // split model is only shown if no other file of it is readable.
  bool is_shown_as_model(const Result<Container>& container, const std::string& name) const {
    if (options_.forced != nullptr) return true;
    const Result<bool> is = container ? is_model(*container) : tl::unexpected(container.error());
    return is.value_or(false) || (is_named_as_bad_file(name) && !split_model_named(name));
  }

  // A file that the rules forbid to open, or a link that is not followed.
  void add_forbidden(const std::string& name, const Error& error) {
    if (!is_named_as_model(name) || split_model_named(name)) return;
    has_forbidden_ = true;
    add_failed(name, error);
  }

  // A link to a blob that a cache of huggingface_hub lacks. If the directory has no model, that is its error.
  void add_missing(const Location& location) {
    const std::string name = location.file_name();
    if (!is_named_as_model(name) || split_model_named(name)) return;
    Error error{Code::not_found, fmt::format("{}: a link to a blob that is missing", location.path())};
    if (!missing_) missing_ = error;
    add_failed(name, std::move(error));
  }

  void add_failed(const std::string& name, Error error) {
    listing_.entries.push_back(
        {name, 0, 0, [error = std::move(error)]() -> Result<Opened> { return tl::unexpected(error); }});
  }

  void add_directory(const Location& location, const struct stat& found, bool by_link) {
    Traversal traversal = traversal_;
    if (traversal.entered->contains({found.st_dev, found.st_ino})) return;
    if (by_link && ++traversal.links > kMaxDirectoryLinks) return;
    listing_.entries.push_back({location.file_name(), modified(found), 0,
                                [=, options = shared_options_] { return open_at(location, traversal, *options); },
                                version_of(found)});
  }

  const std::shared_ptr<const OpenOptions> shared_options_;  // those of all entries
  const OpenOptions& options_;
  Traversal traversal_;
  const KnownFilesPtr known_;
  std::shared_ptr<const StatedDigests> stated_;    // of its files
  bool has_trainer_ = false;                       // files of a trainer are no models
  std::optional<Error> missing_;                   // of the first link to a missing blob
  bool has_forbidden_ = false;                     // a file that may be a model
  std::map<std::string, size_t> split_models_;     // of which a file is listed: the number of the entry
  std::map<std::string, SourceEntry> bad_splits_;  // the first unreadable file of each
  std::set<std::string> models_;                   // the files that are listed
  Listing listing_;
};

// A directory that is one model, or a directory of models.
class OpenedDirectory {
 public:
  OpenedDirectory(Location directory, std::vector<DirectoryEntry> entries, Time modified, const OpenOptions& options,
                  const Traversal& traversal, KnownFilesPtr known)
      : directory_(std::move(directory)),
        entries_(std::move(entries)),
        modified_(modified),
        options_(options),
        traversal_(traversal),
        known_(known),
        lister_(options, traversal, modified, std::move(known)) {}

  /// `snapshots`: the other ones, if the directory is a snapshot that was chosen among them.
  Result<Opened> open(const std::vector<std::string>& snapshots, Directories mode) {
    if (mode == Directories::listed) return listed();
    const DiskFolder folder(directory_);
    Budget budget(0);
    DirectoryView view{.files = {}, .folder = folder, .budget = budget, .is_model = {}, .has_models_below = [this] {
                         return has_models_below();
                       }};
    // The only tag of a model of Ollama may get a second one.
    if (!directory_.name.starts_with("manifests/"))
      view.is_model = [this](const std::string& name) { return is_model(name); };
    list_names(view);
    if (auto found = TRY(find(view))) {
      for (const std::string& name : snapshots) found->chosen.alternatives.push_back({"snapshots/" + name, 0});
      return open_model(std::move(*found));
    }
    std::vector<std::string> names;
    for (const DirectoryEntry& entry : entries_) names.push_back(entry.name);
    if (auto other = identify_other_directory(names))
      return failure(other->code, fmt::format("{}: {}", directory_.path(), other->message));
    Listing listing = listed();
    if (lister_.missing() && !lister_.has_models() && !has_models_below()) return tl::unexpected(*lister_.missing());
    return listing;
  }

 private:
  Listing listed() {
    list();
    Listing listing = lister_.take();
    listing.directories = {{directory_, modified_}};
    listing.again = [directory = directory_, traversal = traversal_, options = options_below(options_),
                     known = known_](Directories mode) { return open_at(directory, traversal, *options, mode, known); };
    return listing;
  }

  // A directory is walked only if its own files say that what is below may be a part of the model.
  void list_names(DirectoryView& view) {
    std::vector<std::string> names;
    for (const DirectoryEntry& entry : entries_) {
      const Location location = directory_ / entry.name;
      const auto found = location.examine();
      if (location.path() == options_.excluded_path) continue;
      // A link that is not followed may be the model: opening it reports why.
      if (!found && is_forbidden(found.error())) forbidden_.push_back({entry.name, 0});
      if (!found) continue;
      if (S_ISDIR(found->st_mode)) view.directories.push_back(entry.name);
      if (!S_ISREG(found->st_mode)) continue;
      view.files.push_back({entry.name, static_cast<uint64_t>(found->st_size)});
      names.push_back(entry.name);
    }
    for (const ChosenFiles::File& file : forbidden_) names.push_back(file.path);
    if (!may_be_one_model(names) && options_.file.empty()) return;
    view.files = forbidden_;
    for (const Part& part : walked().parts) view.files.push_back({part.path, (*part.source.peek())->size()});
    std::ranges::sort(view.files, {}, &ChosenFiles::File::path);
  }

  Result<std::optional<OneModel>> find(const DirectoryView& view) {
    if (options_.file.empty()) return find_one_model(view);
    return TRY(find_model_file(view, options_.file));
  }

  Result<Opened> open_model(OneModel found) {
    if (const auto cached = cached_commit_at(directory_.path())) {
      found.chosen.repository = cached->repository;
      found.chosen.commit = cached->commit;
    }
    const auto read = [directory = directory_, options = options_below(options_)](
                          const std::string& path, const BudgetPtr& budget) -> Result<Model> {
      Container container = TRY(container_at(directory / path, *options));
      if (budget != nullptr) {
        budget->add_file(*container.bytes);
        container.budget = budget;
      }
      return read_model(container, options->forced);
    };
    Model model = TRY(read_one_model(found, {read, folder_of(walked()), walked().parts}));
    for (const std::string& line : walked().warnings) {
      if (!is_listed_) options_.log(line);  // the list logs them, too
      model.warnings.push_back(line);
    }
    warn_of_missing_blobs(model);
    add_stated_checks(model, stated_digests());
    describe_signature(model, *model.budget);
    const auto version_now = [directory = directory_, options = options_below(options_)]() -> Result<std::string> {
      return walk_files(directory, options->excluded_path).version;
    };
    return OpenedModel{.model = std::make_shared<Model>(std::move(model)),
                       .source = directory_.path(),
                       .modified = modified_,
                       .directories = walked().directories,
                       .version = walked().version,
                       .version_now = version_now};
  }

  // A model does not need the other weights beside its own. The reader of an index reports missing shards.
  void warn_of_missing_blobs(Model& model) {
    const auto directory_of = [](const std::string& path) { return path.substr(0, path.rfind('/') + 1); };
    std::set<std::string> with_weights;
    for (const Part& part : walked().parts)
      if (is_named_as_weights(part.path)) with_weights.insert(directory_of(part.path));
    Warnings warnings;
    for (const std::string& path : walked().missing) {
      constexpr const char* kMissing = "a link to a blob that is missing";
      if (is_named_as_weights(path) && with_weights.contains(directory_of(path)))
        warnings.add("{}: {}", quoted(path), kMissing);
      else
        warnings.miss_file(Code::not_found, "{}: {}", quoted(path), kMissing);
    }
    std::move(warnings).move_to(model);
  }

  StatedDigests stated_digests() {
    std::vector<std::string> paths;
    for (const Part& part : walked().parts) paths.push_back(part.path);
    return {directory_, std::move(paths)};
  }

  const WalkedFiles& walked() {
    if (!walked_) walked_ = walk_files(directory_, options_.excluded_path);
    return *walked_;
  }

  void list() {
    if (!std::exchange(is_listed_, true)) lister_.add_all(directory_, entries_);
  }

  bool is_model(const std::string& name) {
    list();
    return lister_.is_model_file(name);
  }

  bool has_models_below() {
    list();
    return lister_.has_forbidden() || weightfs::has_models_below(directory_, options_.excluded_path);
  }

  Location directory_;
  std::vector<DirectoryEntry> entries_;
  Time modified_;
  const OpenOptions& options_;
  const Traversal traversal_;
  const KnownFilesPtr known_;
  Lister lister_;
  bool is_listed_ = false;
  std::vector<ChosenFiles::File> forbidden_;  // files of the directory that may not be opened
  std::optional<WalkedFiles> walked_;
};

// The snapshot of a repository in the cache of the Hub, or another one that --file names.
Result<Opened> open_snapshot(const Location& repository, const Snapshot& snapshot, const Traversal& traversal,
                             OpenOptions options) {
  std::string name = snapshot.name;
  std::vector<std::string> others = snapshot.others;
  for (std::string& other : others) {
    const std::string path = "snapshots/" + other;
    if (options.file != path && !options.file.starts_with(path + "/")) continue;
    options.file.erase(0, path.size() + 1);
    std::swap(name, other);
    break;
  }
  const Location directory = repository / ("snapshots/" + name);
  const struct stat found = TRY(directory.examine());
  OpenedDirectory snapshot_directory(directory, TRY(directory.root->list(directory.name)), modified(found), options,
                                     traversal, std::make_shared<KnownFiles>());
  Opened opened = TRY(snapshot_directory.open(others, Directories::by_rule));
  auto* const model = std::get_if<OpenedModel>(&opened);
  if (model == nullptr) return opened;
  // Another snapshot may be chosen later.
  for (const char* path : {"", "refs", "snapshots"})
    if (auto decides = watched(*path == '\0' ? repository : repository / path))
      model->directories.push_back(std::move(*decides));
  const bool is_chosen_by_name = name != snapshot.name;
  model->version = name + " " + model->version;
  model->version_now = [=, below = model->version_now]() -> Result<std::string> {
    std::string chosen = name;
    if (!is_chosen_by_name)
      if (const auto now = find_snapshot(repository, TRY(repository.root->list(repository.name)))) chosen = now->name;
    return chosen + " " + TRY(below());
  };
  return opened;
}

Result<Opened> open_at(const Location& directory, Traversal traversal, const OpenOptions& options, Directories mode,
                       KnownFilesPtr known) {
  const struct stat found = TRY(directory.examine());
  // Showing this mount in itself, directly or through another mount, would not terminate.
  if (Mounts::now().is_weightfs(found.st_dev))
    return failure(Code::unsupported,
                   fmt::format("{}: a weightfs mount cannot be the source of another mount", directory.path()));
  if (mode == Directories::by_rule && is_model_runner_store(directory))
    return open_model_runner_store(directory, modified(found), options);
  if (is_store(directory) && mode == Directories::by_rule)
    return open_ollama_store(directory, modified(found), options);
  auto entries = TRY(directory.root->list(directory.name));
  auto entered = std::make_shared<Traversal::Entered>(*traversal.entered);
  entered->emplace(found.st_dev, found.st_ino);
  traversal.entered = std::move(entered);
  const auto snapshot = mode == Directories::listed ? std::nullopt : find_snapshot(directory, entries);
  if (snapshot) return open_snapshot(directory, *snapshot, traversal, options);
  return OpenedDirectory(directory, std::move(entries), modified(found), options, traversal, std::move(known))
      .open({}, mode);
}

}  // namespace

Result<Opened> open_directory(const Location& directory, const OpenOptions& options) {
  return open_at(directory, {}, options);
}

}  // namespace weightfs
