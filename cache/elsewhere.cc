#include "cache/elsewhere.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/mounts.h"
#include "base/text.h"

namespace weightfs {
namespace {

// More repositories than this are not looked at.
constexpr size_t kMostRepositories = 100'000;

// A directory that changed so lately may change again without its time telling: file systems' clocks tick slowly, the
// slowest (FAT) every two seconds.
constexpr time_t kSettling = 3;

// Where $name/below is; nothing when the variable names no absolute path.
std::vector<std::string> below_variable(const char* name, const std::string& below) {
  const char* value = std::getenv(name);
  if (value == nullptr || value[0] != '/') return {};
  return {str(value, below)};
}

// The Hugging Face hub's cache: a directory for each repository, "models--" and its name.
bool is_repository(std::string_view name) {
  return name.starts_with("models--") || name.starts_with("datasets--") || name.starts_with("spaces--");
}

std::vector<std::string> list_repositories(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(directory, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::string name = entry->path().filename();
    if (is_repository(name)) names.push_back(std::move(name));
    if (names.size() == kMostRepositories) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_unchanged(const struct stat& before, const struct stat& now) {
  return before.st_dev == now.st_dev && before.st_ino == now.st_ino && before.st_mtim.tv_sec == now.st_mtim.tv_sec &&
         before.st_mtim.tv_nsec == now.st_mtim.tv_nsec;
}

bool is_directory(const std::string& path, struct stat& status) {
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// One search: what it was asked for, and what it has met.
class Search {
 public:
  Search(const Mounts& mounts, std::optional<uint64_t> size, std::vector<std::string>& wrong)
      : mounts_(mounts), size_(size), wrong_(wrong) {}

  // Opens nothing but regular files: to open a device may be to do something.
  void look_at(const std::string& path) {
    struct stat file {};
    if (::stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) return;
    if (mounts_.is_weightfs(file.st_dev) || !seen_.insert({file.st_dev, file.st_ino}).second) return;
    if (!has_the_size(path, static_cast<uint64_t>(file.st_size))) return;
    auto bytes = open_file(path);
    if (!bytes) {
      wrong_.push_back(printable(bytes.error().message));
    } else if (has_the_size(path, (*bytes)->size())) {
      found_.push_back({path, std::move(*bytes)});
    }
  }

  std::vector<Candidate> found() { return std::move(found_); }

 private:
  bool has_the_size(const std::string& path, uint64_t size) {
    if (!size_ || size == *size_) return true;
    wrong_.push_back(str(printable(path), ": has ", size, " bytes, not ", *size_));
    return false;
  }

  const Mounts& mounts_;
  const std::optional<uint64_t> size_;
  std::vector<std::string>& wrong_;
  std::set<std::pair<dev_t, ino_t>> seen_;
  std::vector<Candidate> found_;
};

}  // namespace

std::vector<std::string> external_stores() {
  std::vector<std::string> places;
  const auto add = [&](const std::vector<std::string>& more) { places.insert(places.end(), more.begin(), more.end()); };
  add(below_variable("OLLAMA_MODELS", "/blobs"));
  add(below_variable("HOME", "/.ollama/models/blobs"));
  add({"/usr/share/ollama/.ollama/models/blobs"});
  add(below_variable("CARTON_CACHE_DIR", "/files"));
  add(below_variable("HOME", "/.carton/cache/files"));
  add(below_variable("HF_HUB_CACHE", ""));
  add(below_variable("HF_HOME", "/hub"));
  add(below_variable("XDG_CACHE_HOME", "/huggingface/hub"));
  add(below_variable("HOME", "/.cache/huggingface/hub"));
  return places;
}

// Made absolute: a mount leaves the directory that it was started in.
Elsewhere::Elsewhere(std::vector<std::string> directories) : directories_(std::move(directories)) {
  for (std::string& directory : directories_) {
    std::error_code failed;
    const std::string path = std::filesystem::absolute(directory, failed);
    if (!failed) directory = path;
  }
  for (std::string& place : external_stores())
    if (std::find(directories_.begin(), directories_.end(), place) == directories_.end())
      directories_.push_back(std::move(place));
}

// What weightfs shows of these places is not looked at, by the names of directories: to look there would be to ask a
// process that may be waiting for this search. A link from elsewhere into a mount is found out by the file's device.
std::vector<Candidate> Elsewhere::find(const Digest& digest, std::optional<uint64_t> size,
                                       std::vector<std::string>& wrong) const {
  const std::string hex = digest.hex();
  const Mounts mounts = Mounts::now();
  Search search(mounts, size, wrong);
  const auto look_in = [&](const std::string& directory) {
    for (const std::string& name : {"sha256-" + hex, "sha256:" + hex, hex, "sha256/" + hex, hex + "/file"})
      search.look_at(str(directory, "/", name));
  };
  for (const std::string& directory : directories_) {
    struct stat status {};
    struct stat blobs {};
    if (mounts.is_on_weightfs(directory) || !is_directory(directory, status)) continue;
    look_in(directory);
    if (is_directory(directory + "/blobs", blobs)) look_in(directory + "/blobs");
    const Names repositories = repositories_in(directory, status);
    for (const std::string& repository : *repositories) search.look_at(str(directory, "/", repository, "/blobs/", hex));
  }
  return search.found();
}

Elsewhere::Names Elsewhere::repositories_in(const std::string& directory, const struct stat& status) const {
  const std::scoped_lock lock(mutex_);
  const auto known = listings_.find(directory);
  if (known != listings_.end() && known->second.settled && is_unchanged(known->second.directory, status))
    return known->second.repositories;
  const bool settled = ::time(nullptr) - status.st_mtim.tv_sec >= kSettling;
  const Names names = std::make_shared<const std::vector<std::string>>(list_repositories(directory));
  listings_.insert_or_assign(directory, Listing{status, settled, names});
  return names;
}

Result<void> check_blob_directory(const std::string& path) {
  struct stat status {};
  const auto refused = [&](Code code) {
    return failure(code, str(path, ": ", std::generic_category().message(errno)));
  };
  if (::stat(path.c_str(), &status) != 0) return refused(errno == ENOENT ? Code::not_found : Code::io);
  if (!S_ISDIR(status.st_mode))
    return failure(Code::io, str(path, ": not a directory, but blobs are looked for in it"));
  if (::access(path.c_str(), X_OK) != 0) return refused(Code::io);
  return {};
}

}  // namespace weightfs
