#include "sources/disk/hub_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/text.h"

namespace weightfs {
namespace {

constexpr const char* kSnapshots = "snapshots";
constexpr size_t kMaxReference = 256;

bool has(const std::vector<DirectoryEntry>& entries, std::string_view name) {
  return std::ranges::any_of(entries, [&](const DirectoryEntry& entry) { return entry.name == name; });
}

// The commit in refs/main; empty if there is none.
std::string main_commit(const Location& directory) {
  const auto file = (directory / "refs/main").open();
  if (!file || (*file)->size() > kMaxReference) return {};
  const auto text = read_text(**file, 0, (*file)->size());
  return text ? std::string(trimmed(*text)) : std::string();
}

// Whether this is the path of a repository in a link: that of a link in a snapshot, or a directory of the cache.
bool is_repository(std::string_view path) {
  constexpr std::array<std::string_view, 3> kKinds = {"models--", "datasets--", "spaces--"};
  const std::string_view name = last_component(path);
  if (name != "..") return std::ranges::any_of(kKinds, [&](std::string_view kind) { return name.starts_with(kind); });
  return last_component(parent_of(path)) == ".." && path.size() > name.size();
}

}  // namespace

std::string_view last_component(std::string_view path) { return path.substr(path.rfind('/') + 1); }
std::string_view parent_of(std::string_view path) { return path.substr(0, std::min(path.rfind('/'), path.size())); }

std::optional<Snapshot> find_snapshot(const Location& directory, const std::vector<DirectoryEntry>& entries) {
  if (!has(entries, kSnapshots) || !(has(entries, "refs") || has(entries, "blobs"))) return std::nullopt;
  const Location snapshots = directory / kSnapshots;
  const auto names = snapshots.root->list(snapshots.name);
  if (!names) return std::nullopt;
  const std::string wanted = main_commit(directory);
  std::vector<std::pair<Time, std::string>> found;  // the best last
  for (const DirectoryEntry& entry : *names) {
    const auto status = (snapshots / entry.name).examine();
    if (!status || !S_ISDIR(status->st_mode)) continue;
    found.emplace_back(entry.name == wanted ? std::numeric_limits<Time>::max() : modified(*status), entry.name);
  }
  if (found.empty()) return std::nullopt;
  std::ranges::sort(found);
  Snapshot snapshot{found.back().second, {}};
  found.pop_back();
  for (auto& [time, name] : found) snapshot.others.push_back(std::move(name));
  std::ranges::sort(snapshot.others);
  return snapshot;
}

std::optional<CachedCommit> cached_commit_at(const std::string& path) {
  constexpr std::string_view kModels = "models--";
  const std::string_view snapshots = parent_of(path);
  if (last_component(snapshots) != kSnapshots) return std::nullopt;
  CachedCommit found{{}, std::string(last_component(path))};
  std::string_view name = last_component(parent_of(snapshots));
  if (!name.starts_with(kModels)) return std::nullopt;
  name.remove_prefix(kModels.size());
  const size_t dashes = name.find("--");
  found.repository = name.substr(0, dashes);
  if (dashes != name.npos) found.repository.append("/").append(name.substr(dashes + 2));
  return found;
}

std::optional<std::string> blob_of_link(const Location& location) {
  const auto text = link_text(location);
  if (!text) return std::nullopt;
  const std::string name(last_component(*text));
  const std::string_view blobs = parent_of(*text);
  if (last_component(blobs) != "blobs" || !is_repository(parent_of(blobs))) return std::nullopt;
  return digest_of_hex(name) || sha1_of_hex(name) ? std::optional(name) : std::nullopt;
}

}  // namespace weightfs
