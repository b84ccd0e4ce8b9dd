#include "serve/hub/repository.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "fs/tree/listing.h"
#include "report/inspect/single_model.h"
#include "serve/hub/names.h"

namespace weightfs::hub {
namespace {

constexpr size_t kCommitDigits = 40;

// The digests that are stated for the files of a model outside of them, unless the file was modified since.
std::map<std::string_view, const FileChecksums*> stated_for(const Model& model) {
  std::map<std::string_view, const FileChecksums*> out;
  for (const FileCheck& check : *model.checks)
    if (check.is_stated_outside() && !check.is_modified)
      out.emplace(check.subject, &std::get<FileChecksums>(check.expected));
  return out;
}

// Collects the files of a repository, and what names their state.
class FileReader {
 public:
  FileReader(Forest& forest, Shows shows) : forest_(forest), shows_(shows) {}

  // `place` is the path in the tree. A link that leads to no file is left out.
  Result<void> add(RepositoryFile file) {
    const auto ino = forest_.resolve(file.place, Forest::FinalLink::followed);
    if (!ino) return ino.error().code == Code::not_found ? Result<void>() : tl::unexpected(ino.error());
    if (TRY(forest_.unsized_attributes(*ino)).is_directory()) return {};
    const SourcePtr source = TRY(forest_.open(*ino));
    file.size = source->size();
    if (shows_ != Shows::views) TRY_VOID(add_digest(file, *source));
    state_ += fmt::format("{} {} {} {} ", file.path.size(), file.path, file.size, digest_text(file));
    state_ += source->identity() + "\n";
    files_.push_back(std::move(file));
    return {};
  }

  std::vector<RepositoryFile> take() && {
    std::ranges::sort(files_, {}, &RepositoryFile::path);
    return std::move(files_);
  }
  std::string commit() const { return sha256(state_).hex().substr(0, kCommitDigits); }

 private:
  // A file whose SHA-256 is known counts as one in LFS. A small local file without a digest is read.
  Result<void> add_digest(RepositoryFile& file, const Source& source) {
    if (file.sha256) file.git_id.reset();
    const bool is_read = !file.sha256 && !file.git_id && file.size <= std::min(kMaxSmallFile, left_);
    if (!is_read || !is_local(source)) return {};
    left_ -= file.size;
    file.git_id = TRY(git_blob_id(source));
    return {};
  }

  static std::string digest_text(const RepositoryFile& file) {
    return file.sha256 ? file.sha256->hex() : file.git_id ? file.git_id->hex() : "-";
  }

  Forest& forest_;
  const Shows shows_;
  uint64_t left_ = kMaxHashed;
  std::string state_;
  std::vector<RepositoryFile> files_;
};

Result<void> add_own_files(FileReader& reader, const Model& model, const std::string& place) {
  if (model.parts.size() > kMaxFiles) return failure(Code::unsupported, fmt::format("more than {} files", kMaxFiles));
  StringArena texts;
  const auto paths = in_order_of_parts(part_paths(model, texts));
  const auto stated = stated_for(model);
  for (size_t i = 0; i < paths.size(); ++i) {
    const Part& part = model.parts[i];
    RepositoryFile file{std::string(paths[i]), fmt::format("{}files/{}", place, paths[i])};
    const auto outside = stated.find(part.path);
    for (const FileChecksums* const sums : {&part.checksums, outside == stated.end() ? nullptr : outside->second}) {
      if (sums == nullptr) continue;
      if (const auto* const digest = sums->get<Digest>(); digest != nullptr && !file.sha256) file.sha256 = *digest;
      if (const auto* const id = sums->get<GitId>(); id != nullptr && !file.git_id) file.git_id = id->id;
    }
    TRY_VOID(reader.add(std::move(file)));
  }
  return {};
}

Result<void> add_views(FileReader& reader, Forest& forest, const std::string& place) {
  const auto directory = forest.resolve(fmt::format("{}{}", place, kViews));
  if (!directory) return directory.error().code == Code::not_found ? Result<void>() : tl::unexpected(directory.error());
  const Forest::Listing all = TRY(forest.list(*directory));
  for (uint32_t i = 0; i < all.count; ++i) {
    const std::string name = all.tree->node(all.first + i).name();
    if (name.ends_with(".gguf") || name.ends_with(".safetensors"))
      TRY_VOID(reader.add({name, fmt::format("{}{}/{}", place, kViews, name)}));
  }
  return {};
}

}  // namespace

bool is_local(const Source& source) {
  const auto place = source.place(0, Opens::files);
  return source.size() == 0 || (place && place->is_ready);
}

const RepositoryFile* Repository::find(std::string_view path) const {
  const auto found = std::ranges::lower_bound(files, path, {}, &RepositoryFile::path);
  return found != files.end() && found->path == path ? &*found : nullptr;
}

// "hf://[SERVER/]ORG/REPO@COMMIT". A path behind it names a part of the repository.
std::optional<HubName> hub_name_of(const std::string& source) {
  constexpr std::string_view kScheme = "hf://";
  const size_t at = source.rfind('@');
  if (!source.starts_with(kScheme) || at == source.npos) return std::nullopt;
  HubName name{source.substr(kScheme.size(), at - kScheme.size()), source.substr(at + 1)};
  // Without the server.
  const size_t last = name.id.rfind('/');
  const size_t before = last == name.id.npos || last == 0 ? name.id.npos : name.id.rfind('/', last - 1);
  if (before != name.id.npos) name.id.erase(0, before + 1);
  const bool is_of_models = source.find("/datasets/") == source.npos && source.find("/spaces/") == source.npos;
  if (!is_of_models || !is_commit(name.commit) || !is_repository_id(name.id)) return std::nullopt;
  return name;
}

Result<RepositoryPtr> read_repository(Forest& forest, const FoundModel& found, const std::string& id, Shows shows) {
  const ModelPtr model = TRY(with_lazy_parts(found.tree->model()));
  auto repository = std::make_shared<Repository>();
  repository->id = id;
  repository->license = text_in(model->common, "license");
  repository->modified = found.tree->modified();
  repository->place = found.place;
  repository->shows = shows;
  repository->model = found.tree->model();
  FileReader reader(forest, shows);
  if (shows == Shows::views)
    TRY_VOID(add_views(reader, forest, found.place));
  else
    TRY_VOID(add_own_files(reader, *model, found.place));
  const auto hub = shows == Shows::hub ? hub_name_of(found.tree->source()) : std::nullopt;
  repository->commit = hub ? hub->commit : reader.commit();
  repository->files = std::move(reader).take();
  return repository;
}

std::string lfs_pointer(const RepositoryFile& file) {
  return fmt::format("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n",
                     file.sha256.value_or(Digest{}).hex(), file.size);
}

}  // namespace weightfs::hub
