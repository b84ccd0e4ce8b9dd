#include "formats/archive/repository.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/archive/nested.h"
#include "formats/one_model.h"

namespace weightfs::archive {
namespace {

std::string directory_at(std::string_view path) { return std::string(path.substr(0, path.rfind('/') + 1)); }

// The names of the files in a directory, sorted; `prefix` is empty or ends with `/`.
std::vector<std::string> names_in(const std::vector<Part>& parts, const std::string& prefix) {
  std::vector<std::string> names;
  for (const Part& part : parts)
    if (part.path.starts_with(prefix) && part.path.find('/', prefix.size()) == part.path.npos)
      names.push_back(part.path.substr(prefix.size()));
  std::ranges::sort(names);
  return names;
}

// The directory that all files are in.
std::string common_directory(const std::vector<Part>& parts) {
  if (parts.empty()) return {};
  std::string common = directory_at(parts.front().path);
  for (const Part& part : parts)
    while (!part.path.starts_with(common)) common = directory_at(std::string_view(common).substr(0, common.size() - 1));
  return common;
}

// The directory that has all files that are named as models; nothing if several have.
std::optional<std::string> directory_of_models(const std::vector<Part>& parts) {
  std::optional<std::string> found;
  for (const Part& part : parts) {
    if (!part.link_target.empty() || !is_named_as_weights(part.path.substr(part.path.rfind('/') + 1))) continue;
    const std::string directory = directory_at(part.path);
    if (found && found != directory) return std::nullopt;
    found = directory;
  }
  return found;
}

std::optional<std::string> find_directory(const std::vector<Part>& parts, Repository repository, bool is_file_named) {
  if (may_be_one_model(names_in(parts, ""))) return "";
  const std::string common = common_directory(parts);
  if (!common.empty() && may_be_one_model(names_in(parts, common))) return common;
  if (is_file_named) return common;
  return repository == Repository::published ? directory_of_models(parts) : std::nullopt;
}

// A directory of an archive as the rule sees it, and as the model of it is read.
class ArchivedDirectory {
 public:
  ArchivedDirectory(const Archive& files, std::string prefix, const Container& container)
      : prefix_(std::move(prefix)),
        container_(container),
        whole_(files.charge),
        charge_(std::make_shared<codec::DecodeCharge>(container.budget)) {
    Model model;
    model.parts = files.parts;
    all_ = std::make_shared<const Model>(std::move(model));
    folders_ = folders_of(all_, charge_);
  }

  Result<std::optional<OneModel>> find(Repository repository) const {
    const codec::DecodeCharge::Active of_archive(whole_), of_members(charge_);
    const auto folder = folder_below("");
    DirectoryView view{.files = listed(), .folder = *folder, .budget = *container_.budget};
    view.is_published = repository == Repository::published;
    if (view.is_published) view.is_model = [](const std::string& name) { return is_named_as_weights(name); };
    if (container_.file.empty()) return find_one_model(view);
    return TRY(find_model_file(view, container_.file));
  }

  Result<Model> read(const OneModel& found, const ReadFile& read) const {
    const auto read_file = [self = *this, read](const std::string& path, const BudgetPtr&) {
      return self.read_file(path, read);
    };
    std::vector<Part> parts;
    for (const Part& part : all_->parts)
      if (part.path.starts_with(prefix_)) parts.push_back(part), parts.back().path.erase(0, prefix_.size());
    return read_one_model(found, {read_file, folder_below(""), std::move(parts), prefix_, container_.budget});
  }

 private:
  Result<Model> read_file(const std::string& path, const ReadFile& read) const {
    const codec::DecodeCharge::Active of_archive(whole_), of_members(charge_);
    const size_t name = path.rfind('/') + 1;
    const auto folder = folder_below(path.substr(0, name));
    const SourcePtr bytes = TRY(folder->open(path.substr(name)));
    return read({.name = path.substr(name),
                 .bytes = bytes,
                 .folder = folder,
                 .blobs = container_.blobs,
                 .depth = container_.depth + 1,
                 .budget = container_.budget},
                prefix_ + path);
  }

  std::shared_ptr<const Folder> folder_below(std::string_view directory) const {
    std::string path = prefix_ + std::string(directory);
    if (path.ends_with('/')) path.pop_back();
    return folders_(path);
  }

  std::vector<ChosenFiles::File> listed() const {
    std::vector<ChosenFiles::File> listed;
    for (const Part& part : all_->parts) {
      if (!part.path.starts_with(prefix_) || !part.link_target.empty()) continue;
      const auto bytes = part.source.peek();
      listed.push_back({part.path.substr(prefix_.size()), bytes ? (*bytes)->size() : 0});
    }
    std::ranges::sort(listed, {}, &ChosenFiles::File::path);
    return listed;
  }

  std::string prefix_;  // of its paths: empty, or ends with `/`
  Container container_;
  codec::DecodeChargePtr whole_, charge_;  // of the archive, which may be null, and of its members
  ModelPtr all_;                           // has the files
  FoldersOf folders_;
};

}  // namespace

Result<std::optional<Model>> find_model_in(const Archive& files, Repository repository, const Container& container,
                                           const ReadFile& read) {
  const auto prefix = find_directory(files.parts, repository, !container.file.empty());
  if (!prefix || container.depth >= kMaxNestingDepth) return std::nullopt;
  const ArchivedDirectory directory(files, *prefix, container);
  const auto found = TRY(directory.find(repository));
  if (!found) return std::nullopt;
  Model model = TRY(directory.read(*found, read));
  for (const Part& part : files.parts)
    if (!part.path.starts_with(*prefix)) model.parts.push_back(part);
  return model;
}

}  // namespace weightfs::archive
