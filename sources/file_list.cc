#include "sources/file_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "base/parallel.h"
#include "base/text.h"
#include "formats/one_model.h"
#include "formats/signature.h"
#include "sources/remote_model.h"

namespace weightfs {
namespace {

constexpr size_t kMaxListWarnings = 100;
constexpr int kMaxDirectoryDepth = 64;

// Null, or what is wrong.
const char* problem_of(std::string_view path) {
  if (path.find('\0') != path.npos) return "contains a NUL byte";
  if (!is_plain_path(path)) return "is not a path below the source";
  return std::ranges::count(path, '/') < kMaxDirectoryDepth ? nullptr : "is in too many directories";
}

// The files below `prefix`, which is empty or ends with `/`.
struct Below {
  FileListPtr files;
  std::string prefix;

  FileList::const_iterator begin() const { return files->lower_bound(prefix); }
  bool has(FileList::const_iterator at) const { return at != files->end() && at->first.starts_with(prefix); }
};

class ListedFolder final : public Folder {
 public:
  ListedFolder(Below below, std::string source, std::function<void(uint64_t, uint64_t)> on_opened)
      : below_(std::move(below)), source_(std::move(source)), on_opened_(std::move(on_opened)) {}

  Result<std::vector<std::string>> names() const override {
    std::vector<std::string> names;
    for (auto file = below_.begin(); below_.has(file); ++file) {
      const std::string_view rest = std::string_view(file->first).substr(below_.prefix.size());
      if (rest.find('/') == rest.npos) names.emplace_back(rest);
    }
    return names;
  }

  Result<SourcePtr> open(std::string_view name) const override {
    if (name.find('/') != name.npos)
      return failure(Code::unsupported, fmt::format("{}: not a file name", quoted(name)));
    return open_below(name, {});
  }

  Result<SourcePtr> open_below(std::string_view path, std::string_view /*referrer*/) const override {
    const auto file = below_.files->find(below_.prefix + std::string(path));
    if (file != below_.files->end()) return file->second.bytes;
    return failure(Code::not_found, fmt::format("{}: has no file {}", source_, quoted(path)));
  }

  Result<std::vector<Part>> parts() const override {
    std::vector<Part> parts;
    for (auto file = below_.begin(); below_.has(file); ++file)
      parts.push_back({file->first.substr(below_.prefix.size()), Later<SourcePtr>::of(file->second.bytes)});
    return parts;
  }

  bool is_storage() const override { return true; }
  bool needs_every_file() const override { return true; }

  void prepare(const std::vector<std::string>& names, uint64_t (*header_size)(std::string_view head)) const override {
    request_headers(
        names, [&](const std::string& name) { return open(name); }, header_size, on_opened_);
  }

 private:
  Below below_;
  std::string source_;
  std::function<void(uint64_t opened, uint64_t total)> on_opened_;
};

// A directory of a source.
class ListedDirectory {
 public:
  ListedDirectory(std::shared_ptr<const ListedSource> listed, std::string prefix, OpenOptions options)
      : listed_(std::move(listed)),
        below_{listed_->list.files, std::move(prefix)},
        options_(std::move(options)),
        folder_(std::make_shared<ListedFolder>(below_, shown(below_.prefix), options_.on_opened)) {}

  Result<Opened> open() const {
    if (below_.prefix.empty() && !listed_->file.empty()) return open_file(listed_->file);
    Budget budget(0);
    const DirectoryView view{.files = files(),
                             .folder = *folder_,
                             .budget = budget,
                             .is_published = true,
                             .is_model = [](const std::string& name) { return is_named_as_weights(name); }};
    if (!options_.file.empty()) return open_one_model(TRY(find_model_file(view, options_.file)));
    if (const auto found = TRY(find_one_model(view))) return open_one_model(*found);
    return list();
  }

 private:
  std::string shown(std::string_view below) const {
    while (below.ends_with('/')) below.remove_suffix(1);
    return below.empty() ? listed_->source : fmt::format("{}/{}", listed_->source, below);
  }

  bool is_model_name(std::string_view name) const { return options_.forced != nullptr || is_named_as_model(name); }

  std::vector<ChosenFiles::File> files() const {
    std::vector<ChosenFiles::File> files;
    for (auto file = below_.begin(); below_.has(file); ++file)
      files.push_back({file->first.substr(below_.prefix.size()), file->second.bytes->size()});
    return files;
  }

  // The model of a file of the list; its path is below the directory.
  Result<Model> read(const std::string& path, const BudgetPtr& budget, const NeededTensors& needed = {}) const {
    const auto file = below_.files->find(below_.prefix + path);
    if (file == below_.files->end()) return failure(Code::not_found, fmt::format("{}: no such file", shown(path)));
    const size_t name = path.rfind('/') + 1;
    const std::string prefix = below_.prefix + path.substr(0, name);
    Container container{.name = path.substr(name),
                        .bytes = file->second.bytes,
                        .folder = name == 0 ? folder_ : folder_of(prefix),
                        .blobs = options_.blobs,
                        .lists_tried = options_.lists_tried,
                        .needed_tensors = needed};
    if (budget != nullptr) {
      budget->add_file(*container.bytes);
      container.budget = budget;
    }
    return read_remote_model(container, options_.forced);
  }

  std::shared_ptr<const ListedFolder> folder_of(const std::string& prefix) const {
    return std::make_shared<ListedFolder>(Below{below_.files, prefix}, shown(prefix), options_.on_opened);
  }

  Result<Opened> open_file(const std::string& name) const {
    if (!options_.file.empty())
      return failure(Code::unsupported, fmt::format("{}: is a file; --file names a file of a directory", shown(name)));
    return opened(described(TRY(read(name, nullptr))), name, time_of(below_.files->find(below_.prefix + name)->second));
  }

  Result<Opened> open_one_model(const OneModel& found) const {
    const NeededTensors needed = needed_of(found);
    Model model = TRY(read_all_of(found, needed));
    // Other paths than those of files may be asked for after all.
    if (needed != nullptr && needed->empty())
      model.complete_model = std::make_unique<const Later<ModelPtr>>([self = *this, found]() -> Result<ModelPtr> {
        return std::make_shared<const Model>(TRY(self.read_all_of(found, nullptr)));
      });
    const auto file = below_.files->find(below_.prefix + found.weights.front().path);
    return opened(std::move(model), "", time_of(file->second));
  }

  // What a command needs of the model at the top, if one file opens it.
  NeededTensors needed_of(const OneModel& found) const {
    const OneModel::Weights& first = found.weights.front();
    const bool is_one_file = found.weights.size() == 1 && first.shards.empty() && first.prefix.empty();
    return is_one_file && below_.prefix.empty() ? options_.needed_tensors : nullptr;
  }

  // The model of the directory. Its alternatives are read whole.
  Result<Model> read_all_of(const OneModel& found, const NeededTensors& needed) const {
    const auto read_file = [self = *this, needed, first = found.weights.front().path](const std::string& path,
                                                                                      const BudgetPtr& budget) {
      return self.read(path, budget, path == first ? needed : nullptr);
    };
    std::vector<Part> parts = TRY(folder_->parts());
    return described(TRY(read_one_model(found, {read_file, folder_, std::move(parts)})));
  }

  Opened opened(Model model, const std::string& name, Time time) const {
    return OpenedModel{std::make_shared<Model>(std::move(model)), shown(below_.prefix + name), time};
  }

  // Adds what the source states about the model.
  Model described(Model model) const {
    add_digests(model);
    describe_signature(model, *model.budget);
    for (const auto& [key, value] : listed_->facts)
      if (model.common.find(key) == nullptr) model.common.set(key, value);
    model.warnings.insert(model.warnings.end(), listed_->list.warnings.begin(), listed_->list.warnings.end());
    return model;
  }

  // Adds the digests of the parts that are files of the list, for `weightfs verify`.
  void add_digests(Model& model) const {
    for (Part& part : model.parts) {
      const auto file = below_.files->find(below_.prefix + part.path);
      if (file == below_.files->end() || part.checksums.get<Digest>() != nullptr) continue;
      const auto& [bytes, modified, checksum] = file->second;
      if (!checksum || part.source.peek() != bytes) continue;
      if (std::holds_alternative<Digest>(*checksum))
        part.checksums.set(*checksum);
      else
        model.checks.edit().push_back({part.path, part.source, FileChecksums(*checksum)});
    }
  }

  Time time_of(const ListedEntry& entry) const { return entry.modified != 0 ? entry.modified : listed_->modified; }

  Result<Opened> list() const {
    Listing listing{{}, listed_->modified, 0};
    const bool has_trainer = has_weights_or_trainer(TRY(folder_->names()));
    std::set<std::string> split_models;  // of which a file is listed
    for (auto file = below_.begin(); below_.has(file);) {
      const std::string_view rest = std::string_view(file->first).substr(below_.prefix.size());
      if (const size_t slash = rest.find('/'); slash != rest.npos) {
        const std::string directory = below_.prefix + std::string(rest.substr(0, slash));
        add_directory(listing, directory);
        file = below_.files->lower_bound(directory + static_cast<char>('/' + 1));
        continue;
      }
      const std::string name(rest);
      if (is_model_name(name) && !(has_trainer && is_named_as_training_state(name)))
        add_model(listing, split_models, name, file->second);
      else if (options_.all_files)
        add_file(listing, name, file->second);
      ++file;
    }
    return listing;
  }

  void add_directory(Listing& listing, const std::string& path) const {
    listing.entries.push_back({path.substr(below_.prefix.size()), listed_->modified, 0,
                               [listed = listed_, prefix = path + "/", options = options_] {
                                 return ListedDirectory(listed, prefix, options).open();
                               }});
  }

  void add_model(Listing& listing, std::set<std::string>& split_models, const std::string& name,
                 const ListedEntry& entry) const {
    const uint64_t size = entry.bytes->size();
    listing.bytes += size;
    const auto split = split_model_named(name);
    if (split && !split_models.insert(*split).second) return;
    listing.entries.push_back({name, time_of(entry), size, [self = *this, name] { return self.open_file(name); }});
  }

  void add_file(Listing& listing, const std::string& name, const ListedEntry& entry) const {
    listing.bytes += entry.bytes->size();
    listing.entries.push_back({name, time_of(entry), entry.bytes->size(), entry.bytes});
  }

  std::shared_ptr<const ListedSource> listed_;
  Below below_;
  OpenOptions options_;
  std::shared_ptr<const ListedFolder> folder_;
};

}  // namespace

Result<void> FileListBuilder::add(std::string_view path, ListedEntry entry) {
  if (files_.size() == kMaxMembers) return failure(Code::unsupported, fmt::format("more than {} files", kMaxMembers));
  text_ += path.size();
  if (text_ > kMaxText) return failure(Code::unsupported, "file names of more than 256 MiB");
  if (const char* const problem = problem_of(path)) {
    warn(path, problem);
    return {};
  }
  std::string name(path);
  if (files_.contains(name)) {
    warn(path, "is listed more than once");
    // Continues where the last copy was named, so that many copies do not take quadratic time.
    uint64_t& copy = copies_.try_emplace(name, 1).first->second;
    do name = fmt::format("{}-{}", path, ++copy);
    while (files_.contains(name));
  }
  files_.emplace(std::move(name), std::move(entry));
  return {};
}

void FileListBuilder::warn(std::string_view path, std::string_view problem) {
  if (++left_out_ <= kMaxListWarnings) warnings_.push_back(fmt::format("{}: the path {}", quoted(path), problem));
}

FileListBuilder::Finished FileListBuilder::finish() && {
  // The files below a path are neighbours, after the path itself.
  for (const auto& [path, entry] : files_) {
    const std::string prefix = path + "/";
    for (auto below = files_.lower_bound(prefix); below != files_.end() && below->first.starts_with(prefix);
         below = files_.erase(below))
      warn(below->first, "is below a file");
  }
  if (left_out_ > kMaxListWarnings) warnings_.push_back(fmt::format("... and {} more", left_out_ - kMaxListWarnings));
  return {std::make_shared<FileList>(std::move(files_)), std::move(warnings_)};
}

SourceEntry listed_source(ListedSource listed, const OpenOptions& options) {
  for (const std::string& line : listed.list.warnings) options.log(fmt::format("{}: {}", listed.source, line));
  const auto shared = std::make_shared<const ListedSource>(std::move(listed));
  return SourceEntry{shared->name, shared->modified, 0,
                     [=]() -> Result<Opened> { return ListedDirectory(shared, "", options).open(); }};
}

std::vector<SourcePtr> request_headers(const std::vector<std::string>& names,
                                       const std::function<Result<SourcePtr>(const std::string& name)>& open,
                                       uint64_t (*header_size)(std::string_view head),
                                       const std::function<void(uint64_t opened, uint64_t total)>& on_opened) {
  constexpr size_t kParallel = 8;
  constexpr uint64_t kMaxRequested = 512 << 20;  // bytes: files state the sizes of their headers
  std::atomic<uint64_t> requested = 0;
  const auto with_header = [&](const std::string& name) -> Result<SourcePtr> {
    SourcePtr file = TRY(open(name));
    const SourcePtr early = file->unverified();
    const Source& bytes = early != nullptr ? *early : *file;
    const std::string head = TRY(read_text(bytes, 0, std::min<uint64_t>(bytes.size(), kHeadSize)));
    const uint64_t size = std::min(bytes.size(), header_size(head));
    if ((requested += size) <= kMaxRequested) TRY_VOID(bytes.prefetch({0, size}));
    return file;
  };
  std::mutex mutex;
  std::vector<SourcePtr> files;
  uint64_t opened = 0;
  on_opened(0, names.size());
  std::ignore = in_parallel(names.size(), kParallel, [&](uint64_t i) -> Result<void> {
    auto file = with_header(names[i]);
    // A server that does not respond, or refuses, is not asked for the other files. The parser reports the errors.
    if (!file && !is_about_the_bytes(file.error())) return tl::unexpected(file.error());
    const std::scoped_lock lock(mutex);
    if (file) files.push_back(std::move(*file));
    on_opened(++opened, names.size());
    return {};
  });
  return files;
}

}  // namespace weightfs
