#include "sources/disk/hub_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/files/hub_layout.h"
#include "base/text.h"

namespace weightfs {
namespace {

using hub_layout::kSnapshots;

bool has(const std::vector<DirectoryEntry>& entries, std::string_view name) {
  return std::ranges::any_of(entries, [&](const DirectoryEntry& entry) { return entry.name == name; });
}

// The commit in refs/main; empty if there is none.
std::string main_commit(const Location& directory) {
  const auto file = (directory / "refs/main").open();
  if (!file || (*file)->size() > hub_layout::kMaxReference) return {};
  const auto text = read_text(**file, 0, (*file)->size());
  return text ? std::string(trimmed(*text)) : std::string();
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
  const std::string_view snapshots = parent_of(path);
  if (last_component(snapshots) != kSnapshots) return std::nullopt;
  auto repository = hub_layout::model_of(last_component(parent_of(snapshots)));
  if (!repository) return std::nullopt;
  return CachedCommit{std::move(*repository), std::string(last_component(path))};
}

std::optional<std::string> blob_of_link(const Location& location) {
  const auto text = link_text(location);
  return text ? hub_layout::blob_of_link(*text) : std::nullopt;
}

}  // namespace weightfs
