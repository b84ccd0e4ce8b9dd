#include "cache/external_stores.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/os/mounts.h"
#include "base/text.h"

namespace weightfs {
namespace {

// More names in a directory than this are not looked at.
constexpr size_t kMostNames = 1'000'000;

// The directories of other programs are looked at again after so long.
constexpr std::chrono::seconds kBetweenLooks{1};

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

// The digest that a name in a directory of blobs tells, in hex: sha256-HEX, sha256:HEX, HEX; empty for other names.
std::string digest_in_name(std::string_view name) {
  for (const std::string_view prefix : {"sha256-", "sha256:"})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  const auto digest = name.size() == 64 ? digest_of_hex(name) : std::nullopt;
  return digest && digest->hex() == name ? std::string(name) : "";
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
Elsewhere::Elsewhere(std::vector<std::string> directories, Clock clock)
    : directories_(std::move(directories)), clock_(std::move(clock)) {
  for (std::string& directory : directories_) {
    std::error_code failed;
    const std::string path = std::filesystem::absolute(directory, failed);
    if (!failed) directory = path;
  }
  for (std::string& place : external_stores())
    if (std::find(directories_.begin(), directories_.end(), place) == directories_.end())
      directories_.push_back(std::move(place));
}

// Where blobs may be, as it was at one moment.
struct Elsewhere::Table {
  Mounts mounts;
  std::chrono::steady_clock::time_point until;
  std::unordered_map<std::string, std::vector<std::string>> paths;  // by digest in hex; in order
  std::vector<std::string> unlisted;                                // directories that may be searched, but not listed
};

// What weightfs shows of these places is not looked at, by the names of directories: to look there would be to ask a
// process that may be waiting for this search. A link from elsewhere into a mount is found out by the file's device.
std::vector<Candidate> Elsewhere::find(const Digest& digest, std::optional<uint64_t> size,
                                       std::vector<std::string>& wrong) const {
  const auto table = this->table();
  const std::string hex = digest.hex();
  const auto paths = table->paths.find(hex);
  if (paths == table->paths.end() && table->unlisted.empty()) return {};
  const Mounts mounts = Mounts::now();
  Search search(mounts, size, wrong);
  const auto look_at = [&](const std::string& path) {
    if (!mounts.is_on_weightfs(path)) search.look_at(path);
  };
  if (paths != table->paths.end()) std::for_each(paths->second.begin(), paths->second.end(), look_at);
  for (const std::string& directory : table->unlisted)
    for (const std::string& name : {"sha256-" + hex, "sha256:" + hex, hex, hex + "/file"})
      look_at(str(directory, "/", name));
  return search.found();
}

std::shared_ptr<const Elsewhere::Table> Elsewhere::table() const {
  const std::scoped_lock lock(mutex_);
  const auto now = clock_();
  if (table_ != nullptr && now < table_->until) return table_;
  auto table = std::make_shared<Table>(Table{Mounts::now(), now + kBetweenLooks, {}, {}});
  for (const std::string& directory : directories_) add(*table, directory, 0);
  table_ = table;
  return table;
}

// A directory; what its blobs/ and its sha256/ hold, and the blobs/ of each repository in it.
void Elsewhere::add(Table& table, const std::string& directory, int depth) const {
  struct stat status {};
  if (table.mounts.is_on_weightfs(directory) || !is_directory(directory, status)) return;
  const Listing* const listing = listing_of(directory, status);
  for (const auto& [hex, path] : listing->blobs) table.paths[hex].push_back(path);
  if (!listing->complete) table.unlisted.push_back(directory);
  constexpr int kDeepest = 2;  // blobs/sha256/ in an OCI image layout
  if (depth == kDeepest) return;
  for (const std::string& below : listing->below) add(table, below, depth + 1);
}

const Elsewhere::Listing* Elsewhere::listing_of(const std::string& directory, const struct stat& status) const {
  const auto known = listings_.find(directory);
  if (known != listings_.end() && known->second.settled && is_unchanged(known->second.directory, status))
    return &known->second;
  Listing listing{status, ::time(nullptr) - status.st_mtim.tv_sec >= kSettling, {}, {}, true};
  ++listed_;
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(directory, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    names.push_back(entry->path().filename());
    if (names.size() == kMostNames) break;
  }
  listing.complete = !failed && names.size() < kMostNames;
  if (!listing.complete) listing.below = {directory + "/blobs", directory + "/sha256"};
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string path = str(directory, "/", name);
    if (const std::string hex = digest_in_name(name); !hex.empty()) {
      listing.blobs.emplace_back(hex, path);
      listing.blobs.emplace_back(hex, path + "/file");  // cartons
    } else if (listing.complete && (name == "blobs" || name == "sha256")) {
      listing.below.push_back(path);
    } else if (is_repository(name)) {
      listing.below.push_back(path + "/blobs");
    }
  }
  return &listings_.insert_or_assign(directory, std::move(listing)).first->second;
}

void Elsewhere::look_again() const {
  const std::scoped_lock lock(mutex_);
  table_ = nullptr;
}

uint64_t Elsewhere::listed() const {
  const std::scoped_lock lock(mutex_);
  return listed_;
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
