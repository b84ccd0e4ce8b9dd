#include "cache/external_stores.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/files/file_source.h"
#include "base/files/hub_layout.h"
#include "base/text.h"
#include "cache/paths.h"

namespace weightfs {
namespace {

// Further names in a directory are ignored.
constexpr size_t kMaxNames = 1'000'000;

// External stores are rescanned after this time.
constexpr std::chrono::seconds kRescanInterval{1};

// A directory that changed this recently may change again within the same mtime: the coarsest file system clock (FAT)
// has a resolution of two seconds.
constexpr time_t kMtimeResolution = 3;

// The digest in hex in a name: sha256-HEX, sha256:HEX, HEX; empty for other names.
std::string hex_of_name(std::string_view name) {
  for (const std::string_view prefix : {"sha256-", "sha256:"})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  return digest_of_name(name) ? std::string(name) : "";
}

bool is_unchanged(const struct stat& before, const struct stat& now) {
  return before.st_dev == now.st_dev && before.st_ino == now.st_ino && before.st_mtim.tv_sec == now.st_mtim.tv_sec &&
         before.st_mtim.tv_nsec == now.st_mtim.tv_nsec;
}

bool is_directory(const std::string& path, struct stat& status) {
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

std::vector<std::string> well_known_stores() {
  std::vector<std::string> directories;
  const auto add = [&](const char* variable, const std::string& suffix) {
    const std::string value = environment(variable);
    if (value.starts_with('/')) directories.push_back(value + suffix);
  };
  add("OLLAMA_MODELS", "/blobs");
  add("HOME", "/.ollama/models/blobs");
  directories.push_back("/usr/share/ollama/.ollama/models/blobs");
  add("CARTON_CACHE_DIR", "/files");
  add("HOME", "/.carton/cache/files");
  add("HF_HUB_CACHE", "");
  add("HF_HOME", "/hub");
  add("XDG_CACHE_HOME", "/huggingface/hub");
  add("HOME", "/.cache/huggingface/hub");
  return directories;
}

// Absolute, because a mount changes its working directory.
ExternalStores::ExternalStores(std::vector<std::string> directories, Clock clock)
    : directories_(std::move(directories)), clock_(std::move(clock)) {
  for (std::string& directory : directories_) {
    std::error_code failed;
    const std::string path = std::filesystem::absolute(directory, failed);
    if (!failed) directory = path;
  }
  for (std::string& directory : well_known_stores())
    if (std::find(directories_.begin(), directories_.end(), directory) == directories_.end())
      directories_.push_back(std::move(directory));
}

// Paths on weightfs mounts are skipped by directory name: accessing them could block on a process that waits for this
// search. Links into a mount are detected by the file's device.
std::vector<Candidate> ExternalStores::find(const Digest& digest, std::optional<uint64_t> size,
                                            std::vector<std::string>& rejected) const {
  const std::vector<std::string> paths = paths_of(digest.hex());
  if (paths.empty()) return {};
  const Mounts mounts = Mounts::now();
  std::set<std::pair<dev_t, ino_t>> seen;
  std::vector<Candidate> found;
  for (const std::string& path : paths) {
    struct stat file {};
    // Opening a device may have side effects.
    if (mounts.is_on_weightfs(path) || ::stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
    if (mounts.is_weightfs(file.st_dev) || !seen.insert({file.st_dev, file.st_ino}).second) continue;
    auto bytes = open_file(path);
    if (!bytes)
      rejected.push_back(printable(bytes.error().message));
    else if (size && (*bytes)->size() != *size)
      rejected.push_back(fmt::format("{}: has {} bytes, not {}", printable(path), (*bytes)->size(), *size));
    else
      found.push_back({path, std::move(*bytes)});
  }
  return found;
}

// The paths where a blob may be; rescans the directories if necessary.
std::vector<std::string> ExternalStores::paths_of(const std::string& hex) const {
  const std::scoped_lock lock(mutex_);
  if (const auto now = clock_(); now >= expires_) {
    paths_.clear();
    unlisted_.clear();
    const Mounts mounts = Mounts::now();
    for (const std::string& directory : directories_) add(mounts, directory, 0);
    expires_ = now + kRescanInterval;
  }
  const auto listed = paths_.find(hex);
  std::vector<std::string> paths = listed == paths_.end() ? std::vector<std::string>{} : listed->second;
  for (const std::string& directory : unlisted_)
    for (const std::string& name : {"sha256-" + hex, "sha256:" + hex, hex, hex + "/file"})
      paths.push_back(fmt::format("{}/{}", directory, name));
  return paths;
}

// Adds a directory, its blobs/ and sha256/, and the blobs/ of each repository in it.
void ExternalStores::add(const Mounts& mounts, const std::string& directory, int depth) const {
  struct stat status {};
  if (mounts.is_on_weightfs(directory) || !is_directory(directory, status)) return;
  const Listing& listing = list(directory, status);
  for (const auto& [hex, path] : listing.blobs) paths_[hex].push_back(path);
  if (!listing.complete) unlisted_.push_back(directory);
  constexpr int kMaxDepth = 2;  // blobs/sha256/ in an OCI image layout
  if (depth == kMaxDepth) return;
  for (const std::string& subdirectory : listing.subdirectories) add(mounts, subdirectory, depth + 1);
}

const ExternalStores::Listing& ExternalStores::list(const std::string& directory, const struct stat& status) const {
  const auto known = listings_.find(directory);
  if (known != listings_.end() && known->second.is_stable && is_unchanged(known->second.directory, status))
    return known->second;
  Listing listing{.directory = status, .is_stable = ::time(nullptr) - status.st_mtim.tv_sec >= kMtimeResolution};
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(directory, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    names.push_back(entry->path().filename());
    if (names.size() == kMaxNames) break;
  }
  listing.complete = !failed && names.size() < kMaxNames;
  if (!listing.complete) listing.subdirectories = {directory + "/blobs", directory + "/sha256"};
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string path = fmt::format("{}/{}", directory, name);
    if (const std::string hex = hex_of_name(name); !hex.empty()) {
      listing.blobs.emplace_back(hex, path);
      listing.blobs.emplace_back(hex, path + "/file");  // cartons
    } else if (listing.complete && (name == "blobs" || name == "sha256")) {
      listing.subdirectories.push_back(path);
    } else if (hub_layout::is_repository(name)) {
      listing.subdirectories.push_back(path + "/blobs");
    }
  }
  return listings_.insert_or_assign(directory, std::move(listing)).first->second;
}

void ExternalStores::invalidate() const {
  const std::scoped_lock lock(mutex_);
  expires_ = {};
}

}  // namespace weightfs
