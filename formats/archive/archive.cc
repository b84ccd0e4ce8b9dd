#include "formats/archive/archive.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "base/parallel.h"
#include "base/text.h"
#include "formats/archive/symlink.h"

namespace weightfs::archive {
const Part* Archive::find(std::string_view path) const {
  const auto place = std::lower_bound(sorted_.begin(), sorted_.end(), path,
                                      [&](uint32_t i, std::string_view wanted) { return parts[i].path < wanted; });
  return place == sorted_.end() || parts[*place].path != path ? nullptr : &parts[*place];
}

const Part* Archive::resolve(std::string_view path) const {
  return resolve_link(find(path), [this](const std::string& at) { return find(at); });
}

void Archive::sort() {
  sorted_.resize(parts.size());
  std::iota(sorted_.begin(), sorted_.end(), 0U);
  std::sort(sorted_.begin(), sorted_.end(), [&](uint32_t a, uint32_t b) { return parts[a].path < parts[b].path; });
}

void Archive::append(std::vector<Part> more) {
  std::move(more.begin(), more.end(), std::back_inserter(parts));
  sort();
}

Result<std::string> Archive::text(std::string_view path, uint64_t most) const {
  const Part* part = resolve(path);
  if (part == nullptr) return failure(Code::corrupt, fmt::format("{}: not in the container", path));
  const auto about = [&](const Error& error) { return Error{error.code, fmt::format("{}: {}", path, error.message)}; };
  const SourcePtr source = TRY(part->source.get().map_error(about));
  if (source->size() > most)
    return failure(Code::unsupported, fmt::format("{}: {} bytes, at most {} are read", path, source->size(), most));
  if (budget != nullptr) TRY_VOID(budget->charge(Cost::input, source->size()).map_error(about));
  return read_text(*source, 0, source->size()).map_error(about);
}

Builder::Builder(DuplicatePolicy twice, BudgetPtr budget) : duplicates_(twice) { archive_.budget = std::move(budget); }

Result<void> Builder::charge_member(std::string_view name) {
  constexpr uint64_t kPasses = 8;  // names are converted, compared and sorted for several lists
  TRY_VOID(archive_.budget->charge(Cost::member));
  TRY_VOID(archive_.budget->charge(Cost::input, kPasses * name.size()));
  return archive_.budget->charge(Cost::kept, name.size());
}

std::string Builder::clean(std::string_view name) {
  std::string path = *normalize(name, Dots::kept);
  if (!normalize(name, Dots::refused))
    warnings().add("member {}: a name with `..`; the dots are written %2E", quoted(name));
  if (name.starts_with('/')) warnings().add("member {}: an absolute name; taken as relative", quoted(name));
  return path;
}

void Builder::add(std::string_view name, Part part, bool is_link) {
  is_renamed_.push_back(part.path != name);
  is_link_.push_back(is_link);
  archive_.parts.push_back(std::move(part));
}

std::string Builder::add_file(std::string_view name, SourcePtr source, FileChecksums checksums) {
  add(name, {clean(name), Later<SourcePtr>::of(std::move(source)), std::move(checksums)}, false);
  return archive_.parts.back().path;
}

void Builder::add_link(std::string_view name, std::string target) {
  std::string path = clean(name);
  const bool valid = !target.empty() && target.size() <= kMaxLinkLength && target.find('\0') == target.npos;
  const bool shown = valid && stays_inside(path, target);
  if (!shown) warn_of_link(name, target, valid ? "may lead out of the archive" : "has an invalid target");
  Part part{std::move(path), Later<SourcePtr>::of(in_memory(target))};
  if (shown) part.link_target = std::move(target);
  add(name, std::move(part), true);
}

void Builder::warn_of_link(std::string_view name, std::string_view target, std::string_view problem) {
  warnings().add("symbolic link {} to {} {}; shown as a text file with its target", quoted(name), quoted(target),
                 problem);
}

void Builder::add_directory(std::string_view name) {
  std::string path = clean(name);
  if (!path.empty()) archive_.directories.push_back(std::move(path));
}

void Builder::add_hard_link(std::string_view name, std::string_view target) {
  hard_links_.emplace_back(archive_.parts.size(), clean(target));
  add(name, {clean(name), Later<SourcePtr>::of(in_memory(""))}, true);
}

// Whether a hard link between these two parts of one path is to that path.
bool Builder::is_linked_between(size_t earlier, size_t later) const {
  const std::string_view path = archive_.parts[later].path;
  const auto link = std::upper_bound(linked_.begin(), linked_.end(), std::pair(path, earlier));
  return link != linked_.end() && link->first == path && link->second < later;
}

// Sets the bytes of hard links in the archive's order, as unpacking would: those of the last member of that path before
// the link. A forward link gets those of the last member of all.
void Builder::resolve_hard_links() {
  auto& parts = archive_.parts;
  std::map<std::string_view, size_t> latest;  // members with bytes; names that collide would slow a hash table
  std::vector<std::pair<size_t, std::string_view>> forward;
  auto link = hard_links_.begin();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (link != hard_links_.end() && link->first == i) {
      const std::string& target = link++->second;
      const auto found = latest.find(target);
      if (found == latest.end()) {
        forward.emplace_back(i, target);
        continue;
      }
      share(parts[found->second], parts[i]);
    }
    latest.insert_or_assign(parts[i].path, i);
  }
  for (const auto& [i, target] : forward) {
    const auto found = latest.find(target);
    if (found == latest.end())
      warnings().miss_file(Code::not_found, "hard link {}: {} is not in the archive; shown empty",
                           quoted(parts[i].path), quoted(target));
    else
      share(parts[found->second], parts[i]);
  }
}

// A link that is safe at one path may leave the archive from another.
void Builder::share(const Part& original, Part& link) {
  link.source = original.source;
  link.checksums = original.checksums;
  if (original.link_target.empty()) return;
  if (stays_inside(link.path, original.link_target))
    link.link_target = original.link_target;
  else
    warn_of_link(link.path, original.link_target, "may lead out of the archive");
}

// A member below a link is written where that leads. `sorted`: the parts by path.
void Builder::note_relinked(const std::vector<uint32_t>& sorted) {
  const auto& parts = archive_.parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!is_link_[i]) continue;
    const std::string below = parts[i].path + '/';
    const auto found = std::lower_bound(sorted.begin(), sorted.end(), below,
                                        [&](uint32_t at, const std::string& path) { return parts[at].path < path; });
    if (found != sorted.end() && parts[*found].path.starts_with(below)) archive_.relinked = parts[*found].path;
  }
}

void Builder::keep_one_of_each_path() {
  auto& parts = archive_.parts;
  std::vector<uint32_t> places(parts.size());
  std::iota(places.begin(), places.end(), 0U);
  std::stable_sort(places.begin(), places.end(), [&](uint32_t a, uint32_t b) { return parts[a].path < parts[b].path; });
  note_relinked(places);
  std::vector<bool> dropped(parts.size());
  bool any = false;
  for (size_t i = 1; i < places.size(); ++i) {
    if (parts[places[i]].path != parts[places[i - 1]].path) continue;
    const size_t earlier = places[i - 1], later = places[i];
    if (!std::exchange(any, true)) archive_.repeated = parts[later].path;
    if (is_renamed_[earlier] || is_renamed_[later]) archive_.respelled = parts[later].path;
    if (!is_link_[later] && (is_link_[earlier] || is_linked_between(earlier, later)))
      archive_.relinked = parts[later].path;
    dropped[duplicates_ == DuplicatePolicy::last_wins ? places[i - 1] : places[i]] = true;
    // The kept member moves to the later place, so that a third one is compared with it.
    if (duplicates_ == DuplicatePolicy::first_wins) std::swap(places[i], places[i - 1]);
    warnings().add("member {}: duplicate path; the {} is shown", quoted(parts[places[i]].path),
                   duplicates_ == DuplicatePolicy::last_wins ? "last" : "first");
  }
  if (any) {
    size_t kept = 0;
    for (size_t i = 0; i < parts.size(); ++i)
      if (!dropped[i]) {
        if (kept != i) parts[kept] = std::move(parts[i]);
        ++kept;
      }
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(kept), parts.end());
  }
  archive_.sort();
}

Archive Builder::finish() && {
  for (const auto& [at, target] : hard_links_) linked_.emplace_back(target, at);
  std::sort(linked_.begin(), linked_.end());
  if (!hard_links_.empty()) resolve_hard_links();
  keep_one_of_each_path();
  return std::move(archive_);
}

Result<Archive> folder_members(const Container& container) {
  if (container.folder == nullptr) return failure(Code::unsupported, "no other files in its directory");
  Builder builder(DuplicatePolicy::first_wins, container.budget);
  for (const Part& part : TRY(container.folder->parts())) {
    TRY_VOID(builder.charge_member(part.path));
    if (!part.link_target.empty())
      builder.add_link(part.path, part.link_target);
    else
      builder.add_file(part.path, TRY(part.source.get()));
  }
  return std::move(builder).finish();
}

Result<Archive> members_at(const Container& container, const std::vector<std::string>& paths) {
  constexpr size_t kMaxPaths = 2'000;
  constexpr size_t kParallel = 8;
  if (paths.size() > kMaxPaths)
    return failure(Code::unsupported, fmt::format("{} files, each of which is requested; at most {} are supported",
                                                  paths.size(), kMaxPaths));
  TRY_VOID(container.budget->charge(Cost::kept, paths.size() * kHeadSize));  // which a file on a server keeps
  std::vector<SourcePtr> files(paths.size());  // null: the server does not have it, or it is not below the directory
  const auto open = [&](uint64_t i) -> Result<void> {
    if (!is_plain_path(paths[i])) return {};
    auto file = container.folder->open_below(paths[i], container.name);
    if (file)
      files[i] = std::move(*file);
    else if (file.error().code != Code::not_found)
      return tl::unexpected(file.error());
    return {};
  };
  TRY_VOID(in_parallel(paths.size(), kParallel, open));
  Builder builder(DuplicatePolicy::first_wins, container.budget);
  for (size_t i = 0; i < paths.size(); ++i) {
    if (files[i] == nullptr) continue;
    if (container.folder->is_storage()) container.budget->add_file(*files[i]);
    TRY_VOID(builder.charge_member(paths[i]));
    builder.add_file(paths[i], files[i]);
  }
  return std::move(builder).finish();
}

}  // namespace weightfs::archive
