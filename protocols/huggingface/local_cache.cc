#include "protocols/huggingface/local_cache.h"

#include <dirent.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>

#include "base/files/confined_directory.h"
#include "base/files/file_source.h"
#include "base/files/hub_layout.h"
#include "base/os/mounts.h"
#include "base/text.h"
#include "protocols/huggingface/name.h"

namespace weightfs::huggingface {
namespace {

constexpr int kMaxSnapshotDepth = 64;
constexpr size_t kMaxSnapshotWarnings = 100;

// The directory of a repository. No link leads out of it. Null if there is none. A server other than the Hub has none:
// the cache does not tell the servers apart.
ConfinedDirectoryPtr cached_repository(const Name& name) {
  if (!name.server.empty() && name.server != "hf.co" && name.server != "huggingface.co") return nullptr;
  const std::string path = fmt::format("{}/{}", cache_path(), hub_layout::folder_of(name.kind, name.id));
  if (!path.starts_with('/') || Mounts::now().is_on_weightfs(path)) return nullptr;
  auto found = find_named_file(path);
  if (!found || !S_ISDIR(found->status.st_mode)) return nullptr;
  Confinement rules;
  rules.trust_owner = false;
  return std::make_shared<const ConfinedDirectory>(std::move(found->descriptor), path, std::move(rules));
}

std::string snapshot_of(const std::string& commit) { return fmt::format("{}/{}", hub_layout::kSnapshots, commit); }

// The blob of this repository that the link at `path` leads to: "../../blobs/HEX", with one `..` more for each
// directory in the snapshot. Returns HEX.
std::optional<std::string> blob_of(int directory, const std::string& path) {
  std::array<char, PATH_MAX> target{};
  const std::string entry = path.substr(path.rfind('/') + 1);
  const ssize_t length = ::readlinkat(directory, entry.c_str(), target.data(), target.size());
  const std::string_view text(target.data(), static_cast<size_t>(std::max<ssize_t>(length, 0)));
  std::string expected = "../../";
  for (const char c : path)
    if (c == '/') expected += "../";
  auto blob = hub_layout::blob_of_link(text);
  return blob && text == expected + "blobs/" + *blob ? blob : std::nullopt;
}

// Lists the files of a snapshot.
class SnapshotLister {
 public:
  SnapshotLister(ConfinedDirectoryPtr repository, const std::string& commit)
      : repository_(std::move(repository)), top_(snapshot_of(commit)) {}

  Result<CommitFiles> list() {
    for (pending_.emplace_back(); !pending_.empty();) {
      const std::string directory = std::move(pending_.back());
      pending_.pop_back();
      TRY_VOID(list_directory(directory));
    }
    if (!found_.files.empty())
      found_.warnings.push_back(fmt::format("{}: files that this cache of huggingface_hub lacks are not listed",
                                            printable(repository_->path_of(top_))));
    if (left_out_ > kMaxSnapshotWarnings)
      found_.warnings.push_back(fmt::format("... and {} more", left_out_ - kMaxSnapshotWarnings));
    return std::move(found_);
  }

 private:
  // `below` is empty, or the path of a directory in the snapshot.
  Result<void> list_directory(const std::string& below) {
    if (std::count(below.begin(), below.end(), '/') >= kMaxSnapshotDepth) {
      warn(below, "is in too many directories");
      return {};
    }
    const std::string directory = below.empty() ? top_ : fmt::format("{}/{}", top_, below);
    const auto opened = TRY(repository_->open(directory, OpenFor::list));
    for (const DirectoryEntry& entry : TRY(entries_of(opened.descriptor))) {
      if (found_.files.size() + left_out_ + pending_.size() == kMaxListedFiles)
        return failure(Code::unsupported,
                       fmt::format("{}: more than {} files", repository_->path_of(top_), kMaxListedFiles));
      const std::string path = below.empty() ? entry.name : fmt::format("{}/{}", below, entry.name);
      if (entry.type == DT_DIR)
        pending_.push_back(path);
      else if (entry.type == DT_LNK)
        add_link(opened.descriptor.number(), path);
      else
        warn(path, "is not a link to a blob, so its hash is unknown");
    }
    return {};
  }

  void add_link(int directory, const std::string& path) {
    const auto blob = blob_of(directory, path);
    ListedFile file{path};
    if (blob) {
      file.sha256 = digest_of_hex(*blob);
      file.git_id = sha1_of_hex(*blob);
    }
    if (!file.sha256 && !file.git_id) return warn(path, "is not a link to a blob of the repository");
    const auto status = repository_->examine("blobs/" + *blob);
    if (!status || !S_ISREG(status->st_mode)) return warn(path, "is a link to a blob that is missing");
    file.size = static_cast<uint64_t>(status->st_size);
    found_.files.push_back(std::move(file));
  }

  void warn(const std::string& path, std::string_view problem) {
    if (++left_out_ <= kMaxSnapshotWarnings) found_.warnings.push_back(fmt::format("{}: {}", quoted(path), problem));
  }

  ConfinedDirectoryPtr repository_;
  std::string top_;
  std::vector<std::string> pending_;  // directories to list
  CommitFiles found_;
  size_t left_out_ = 0;
};

}  // namespace

std::optional<Revision> find_cached_revision(const Name& name) {
  const ConfinedDirectoryPtr repository = cached_repository(name);
  if (repository == nullptr) return std::nullopt;
  std::string commit = name.revision;
  if (!is_commit(commit)) {
    const auto ref = open_file(repository, "refs/" + name.revision);
    const auto text = ref && (*ref)->size() <= hub_layout::kMaxReference ? read_text(**ref, 0, (*ref)->size()) : "";
    commit = text ? text->substr(0, text->find_first_of(" \r\n")) : "";
  }
  if (!is_commit(commit)) return std::nullopt;
  const auto snapshot = repository->examine(snapshot_of(commit));
  if (!snapshot || !S_ISDIR(snapshot->st_mode)) return std::nullopt;
  Revision revision{name.id, commit, static_cast<Time>(snapshot->st_mtim.tv_sec) * 1'000'000'000};
  revision.facts.set("repository", revision.id);
  revision.facts.set("commit", revision.commit);
  return revision;
}

Result<CommitFiles> list_cached_files(const Name& name, const std::string& commit) {
  ConfinedDirectoryPtr repository = cached_repository(name);
  if (repository == nullptr || !repository->examine(snapshot_of(commit))) return CommitFiles{};
  return SnapshotLister(std::move(repository), commit).list();
}

std::optional<std::string> read_cached_git_file(const Name& name, const Sha1& id, uint64_t size) {
  const ConfinedDirectoryPtr repository = cached_repository(name);
  if (repository == nullptr) return std::nullopt;
  const auto file = open_file(repository, "blobs/" + id.hex());
  if (!file || (*file)->size() != size) return std::nullopt;
  auto content = read_text(**file, 0, size);
  return content ? std::optional(std::move(*content)) : std::nullopt;
}

}  // namespace weightfs::huggingface
