#include "sources/disk/model_walk.h"

#include <dirent.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "base/digest.h"
#include "base/os/mounts.h"
#include "base/text.h"
#include "formats/one_model.h"
#include "sources/disk/hub_cache.h"

namespace weightfs {
namespace {

constexpr size_t kMaxWalkedFiles = 100'000;
constexpr size_t kMaxWalkedDirectories = 2'000;  // all are watched
constexpr size_t kMaxWarnings = 100;
constexpr int kMaxWalkedDepth = 64;

constexpr int kSearchedDepth = 3;
constexpr size_t kSearchedNames = 1'000;

// Visits directories below one, each once however many links lead to it.
class Visited {
 public:
  explicit Visited(const std::string& excluded_path) : excluded_path_(excluded_path) {}

  bool is_new(const Location& location, const struct stat& found) {
    if (location.path() == excluded_path_ || mounts_.is_weightfs(found.st_dev)) return false;
    return seen_.emplace(found.st_dev, found.st_ino).second;
  }

 private:
  const std::string& excluded_path_;
  Mounts mounts_ = Mounts::now();
  std::set<std::pair<dev_t, ino_t>> seen_;
};

class FileWalk {
 public:
  FileWalk(const Location& top, const std::string& excluded_path)
      : top_(top), excluded_path_(excluded_path), visited_(excluded_path) {
    if (const auto found = top.examine()) visited_.is_new(top, *found);
  }

  WalkedFiles run() && {
    pending_.push_back({"", 0});
    while (!pending_.empty() && !is_full_) {
      const Pending next = std::move(pending_.back());
      pending_.pop_back();
      list(next);
    }
    std::ranges::sort(walked_.parts, {}, &Part::path);
    walked_.version = version_.finish().hex();
    if (omitted_ > 0) walked_.warnings.push_back(fmt::format("{}: ... and {} more", top_.path(), omitted_));
    if (is_full_)
      walked_.warnings.push_back(fmt::format("{}: more than {} files or {} directories; the others are not shown",
                                             top_.path(), kMaxWalkedFiles, kMaxWalkedDirectories));
    return std::move(walked_);
  }

 private:
  struct Pending {
    std::string path;  // below the top; "" for the top
    int depth;
  };

  // A directory that cannot be listed is left out.
  void list(const Pending& directory) {
    const Location location = directory.path.empty() ? top_ : top_ / directory.path;
    is_full_ = walked_.directories.size() == kMaxWalkedDirectories;
    if (is_full_) return;
    if (auto examined = watched(location)) walked_.directories.push_back(std::move(*examined));
    const auto entries = location.root->list(location.name);
    if (!entries) return;
    for (const DirectoryEntry& entry : *entries) {
      if (is_full_) return;
      add(directory, entry.name);
    }
  }

  void add(const Pending& directory, const std::string& name) {
    const std::string path = directory.path.empty() ? name : fmt::format("{}/{}", directory.path, name);
    const Location location = top_ / path;
    if (location.path() == excluded_path_) return;
    const auto found = location.examine();
    if (!found) {
      if (is_forbidden(found.error())) warn(found.error().message);
      if (found.error().code == Code::not_found && blob_of_link(location)) walked_.missing.push_back(path);
      return;
    }
    if (S_ISDIR(found->st_mode)) {
      if (directory.depth < kMaxWalkedDepth && visited_.is_new(location, *found))
        pending_.push_back({path, directory.depth + 1});
    } else if (S_ISREG(found->st_mode)) {
      is_full_ = walked_.parts.size() == kMaxWalkedFiles;
      if (is_full_) return;
      walked_.parts.push_back({path, Later<SourcePtr>::of(listed_file(location, *found))});
      const std::string line = fmt::format("{}/{}\n", path, version_of(*found));
      version_.update(std::as_bytes(std::span(line)));
    }
  }

  void warn(const std::string& line) {
    if (walked_.warnings.size() < kMaxWarnings)
      walked_.warnings.push_back(line);
    else
      ++omitted_;
  }

  const Location& top_;
  const std::string& excluded_path_;
  Visited visited_;
  std::vector<Pending> pending_;
  WalkedFiles walked_;
  Sha256 version_;
  size_t omitted_ = 0;
  bool is_full_ = false;
};

class WalkedFolder final : public Folder {
 public:
  explicit WalkedFolder(std::vector<Part> parts) : parts_(std::move(parts)) {}

  Result<std::vector<std::string>> names() const override {
    std::vector<std::string> names;
    for (const Part& part : parts_)
      if (part.path.find('/') == part.path.npos) names.push_back(part.path);
    return names;
  }
  Result<SourcePtr> open(std::string_view name) const override {
    if (name.find('/') == name.npos) return open_below(name, {});
    return failure(Code::corrupt, fmt::format("{} is not the name of a file", quoted(name)));
  }
  Result<SourcePtr> open_below(std::string_view path, std::string_view /*referrer*/) const override {
    const auto part =
        std::ranges::lower_bound(parts_, path, {}, [](const Part& each) -> std::string_view { return each.path; });
    if (part != parts_.end() && part->path == path) return part->source.get();
    return failure(Code::not_found, fmt::format("{}: no such file", quoted(path)));
  }
  Result<std::vector<Part>> parts() const override { return parts_; }

 private:
  std::vector<Part> parts_;  // sorted by path
};

// Looks for names of weights, without examining files.
class NameSearch {
 public:
  explicit NameSearch(const std::string& excluded_path) : visited_(excluded_path) {}

  // Whether one is found, or the search is cut off.
  bool finds_in(const Location& directory, int depth) {
    const auto entries = directory.root->list(directory.name);
    if (!entries) return false;
    for (const DirectoryEntry& entry : *entries) {
      const bool is_below = depth > 0;
      if (is_below && ++names_ > kSearchedNames) return true;
      if (is_below && entry.type != DT_DIR && is_named_as_weights(entry.name)) return true;
      if (entry.type == DT_REG || depth == kSearchedDepth) continue;
      const Location location = directory / entry.name;
      const auto found = location.examine();
      if (found && S_ISDIR(found->st_mode) && visited_.is_new(location, *found) && finds_in(location, depth + 1))
        return true;
    }
    return false;
  }

 private:
  Visited visited_;
  size_t names_ = 0;
};

}  // namespace

WalkedFiles walk_files(const Location& top, const std::string& excluded_path) {
  return FileWalk(top, excluded_path).run();
}

std::shared_ptr<const Folder> folder_of(const WalkedFiles& walked) {
  return std::make_shared<WalkedFolder>(walked.parts);
}

bool has_models_below(const Location& top, const std::string& excluded_path) {
  return NameSearch(excluded_path).finds_in(top, 0);
}

}  // namespace weightfs
