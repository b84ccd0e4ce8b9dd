// A directory: one model, a store, or a directory of models.
#include <dirent.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/os/mounts.h"
#include "base/text.h"
#include "formats/other_files.h"
#include "formats/signature.h"
#include "sources/kinds.h"

namespace weightfs {
namespace {

// Links to directories can offer exponentially many paths: at most this many are followed on one path.
constexpr int kMaxDirectoryLinks = 3;

// The path by which a directory was reached.
struct Traversal {
  using Entered = std::set<std::pair<dev_t, ino_t>>;
  std::shared_ptr<const Entered> entered = std::make_shared<Entered>();  // a link back to one of them is not followed
  int links = 0;                                                         // to directories
};

// A directory that is one model, by the file `key` in it. The other files in it (config.json, a tokenizer) are parts of
// the model, too.
Result<Opened> open_entry_file_model(const Location& directory, const std::string& key, Time time,
                                     const OpenOptions& options) {
  const Container container = TRY(container_at(directory / key, options));
  Model model = TRY(read_model(container, options.forced));
  std::set<std::string> shown;
  for (const Part& part : model.parts) shown.insert(part.path);
  for (const std::string& name : TRY(container.folder->names())) {
    if (shown.contains(name)) continue;
    model.parts.push_back({name, Later<SourcePtr>([folder = container.folder, name] { return folder->open(name); })});
  }
  for (std::string& line : TRY(DiskFolder(directory).forbidden())) {
    options.log(line);
    model.warnings.push_back(std::move(line));
  }
  describe_signature(model, *model.budget);
  return OpenedModel{std::make_shared<Model>(std::move(model)), directory.path(), time};
}

Result<Opened> open_at(const Location& directory, Traversal traversal, const OpenOptions& options);

// Lists one directory.
class Lister {
 public:
  Lister(const OpenOptions& options, Traversal traversal, Time modified)
      : shared_options_(std::make_shared<const OpenOptions>(options)),
        options_(*shared_options_),
        traversal_(std::move(traversal)),
        listing_{{}, modified, 0} {}

  void add(const Location& location, unsigned char type) {
    if (location.path() == options_.excluded_path) return;
    const auto found = location.examine();
    if (!found && is_forbidden(found.error())) {
      options_.log(found.error().message);
      add_forbidden(location.file_name(), found.error());
    }
    if (!found) return;
    if (S_ISREG(found->st_mode)) return add_file(location, *found);
    if (S_ISDIR(found->st_mode)) add_directory(location, *found, type != DT_DIR);
  }

  Listing take() {
    for (auto& [split, entry] : bad_splits_)
      if (!split_models_.contains(split)) listing_.entries.push_back(std::move(entry));
    return std::move(listing_);
  }

 private:
  void add_file(const Location& location, const struct stat& found) {
    const std::string name = location.file_name();
    const auto container = container_at(location, options_);
    if (!container && is_forbidden(container.error())) options_.log(container.error().message);
    const auto size = static_cast<uint64_t>(found.st_size);
    const Time time = modified(found);
    const auto open = [=, options = shared_options_] { return open_container(location, time, *options); };
    if (is_shown_as_model(container, name)) {
      const auto split = container ? split_model_of(*container) : std::nullopt;
      listing_.bytes += size;
      // Any readable file of a split model opens all of it.
      if (split && !split_models_.insert(*split).second) return;
      listing_.entries.push_back({name, time, size, open});
    } else if (options_.all_files) {
      listing_.bytes += size;
      listing_.entries.push_back({name, time, size, listed_file(location, found)});
    } else if (const auto split = split_model_named(name)) {
      bad_splits_.try_emplace(*split, SourceEntry{name, time, size, open});
    }
  }

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
    listing_.entries.push_back({name, 0, 0, [error]() -> Result<Opened> { return tl::unexpected(error); }});
  }

  void add_directory(const Location& location, const struct stat& found, bool by_link) {
    Traversal traversal = traversal_;
    if (traversal.entered->contains({found.st_dev, found.st_ino})) return;
    if (by_link && ++traversal.links > kMaxDirectoryLinks) return;
    listing_.entries.push_back({location.file_name(), modified(found), 0,
                                [=, options = shared_options_] { return open_at(location, traversal, *options); }});
  }

  const std::shared_ptr<const OpenOptions> shared_options_;  // those of all entries
  const OpenOptions& options_;
  Traversal traversal_;
  std::set<std::string> split_models_;             // of which a file is listed
  std::map<std::string, SourceEntry> bad_splits_;  // the first unreadable file of each
  Listing listing_;
};

Result<Opened> open_at(const Location& directory, Traversal traversal, const OpenOptions& options) {
  const struct stat found = TRY(directory.examine());
  // Showing this mount in itself, directly or through another mount, would not terminate.
  if (Mounts::now().is_weightfs(found.st_dev))
    return failure(Code::unsupported,
                   fmt::format("{}: a weightfs mount cannot be the source of another mount", directory.path()));
  if (is_store(directory)) return open_ollama_store(directory, modified(found), options);
  const auto entries = TRY(directory.root->list(directory.name));
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : entries) names.push_back(entry.name);
  if (const auto key = TRY(model_entry_file(names, DiskFolder(directory))))
    return open_entry_file_model(directory, *key, modified(found), options);
  if (auto other = identify_other_directory(names))
    return failure(other->code, fmt::format("{}: {}", directory.path(), other->message));
  auto entered = std::make_shared<Traversal::Entered>(*traversal.entered);
  entered->emplace(found.st_dev, found.st_ino);
  traversal.entered = std::move(entered);
  Lister lister(options, std::move(traversal), modified(found));
  for (const DirectoryEntry& entry : entries) lister.add(directory / entry.name, entry.type);
  return lister.take();
}

}  // namespace

Result<Opened> open_directory(const Location& directory, const OpenOptions& options) {
  return open_at(directory, {}, options);
}

}  // namespace weightfs
