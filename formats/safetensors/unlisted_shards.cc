// A shard that an index does not list is damage only if its file is there: without it, the model may be meant to be
// smaller.
#include "formats/safetensors/unlisted_shards.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "formats/directory/weight_sets.h"

namespace weightfs::safetensors {
namespace {

using directory::WeightName;
using directory::WeightSet;

// What the names of all shards of a model have in common.
using Series = std::tuple<directory::Family, std::string, uint32_t>;

std::optional<Series> series_of(std::string_view name) {
  const auto parsed = directory::parse_weight_name(name);
  if (!parsed || parsed->role != WeightName::Role::shard) return std::nullopt;
  return Series{parsed->family, parsed->base, parsed->count};
}

// The names beside the container; none if they cannot be known.
Result<std::vector<std::string>> names_beside(const Container& container) {
  if (!container.folder->lists_files()) return std::vector<std::string>{};
  auto names = container.folder->names();
  if (!names && is_fatal(container, names.error())) return tl::unexpected(names.error());
  return std::move(names).value_or(std::vector<std::string>{});
}

// The sets of files with weights that may be the model of an index of this family.
std::vector<WeightSet> sets_of(directory::Family family, const std::vector<std::string>& names) {
  directory::FileSizes files;
  for (const std::string& name : names) {
    const auto parsed = directory::parse_weight_name(name);
    if (parsed && parsed->family == family && parsed->role != WeightName::Role::index && parsed->is_usual)
      files.emplace(name, 0);
  }
  auto sets = directory::find_weight_sets(files, "", directory::TrainingState::excluded);
  std::erase_if(
      sets, [](const WeightSet& set) { return directory::is_adapter(set) || set.name.count > directory::kMaxShards; });
  return sets;
}

// The only set that is accepted; null if there are none or several.
template <class Accepts>
const WeightSet* only_set(const std::vector<WeightSet>& sets, Accepts accepts) {
  const WeightSet* found = nullptr;
  for (const WeightSet& set : sets) {
    if (!accepts(set)) continue;
    if (found != nullptr) return nullptr;
    found = &set;
  }
  return found;
}

// All names of a set's shards, also of those that are missing.
std::vector<std::string> files_of(const WeightSet& set) {
  if (set.is_complete()) return set.files;
  std::vector<std::string> names;
  for (uint32_t number = 1; number <= set.name.count; ++number)
    names.push_back(directory::path_of_shard(set.path, number));
  return names;
}

}  // namespace

Result<std::vector<std::string>> unlisted_shards(const std::vector<std::string>& listed, const Container& container) {
  std::set<Series> known;
  for (const std::string& name : listed)
    if (auto series = series_of(name)) known.insert(std::move(*series));
  if (known.empty() && !listed.empty()) return std::vector<std::string>{};
  const auto own = directory::parse_weight_name(container.name);
  std::vector<std::string> found;
  for (const std::string& name : TRY(names_beside(container))) {
    const auto series = std::ranges::binary_search(listed, name) ? std::nullopt : series_of(name);
    if (!series) continue;
    const auto& [family, base, count] = *series;
    const bool is_of_empty_index = listed.empty() && own && own->family == family && own->base == base;
    if (is_of_empty_index || known.contains(*series)) found.push_back(name);
  }
  return found;
}

Result<OtherFiles> files_of_stale_index(const std::vector<std::string>& listed, const Container& container) {
  const auto own = directory::parse_weight_name(container.name);
  const std::vector<std::string> names = TRY(names_beside(container));
  const auto exists = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  if (!own || listed.empty() || std::ranges::any_of(listed, exists)) return OtherFiles{};
  const std::vector<WeightSet> sets = sets_of(own->family, names);
  const auto is_own = [&](const WeightSet& set) { return set.name.base == own->base; };
  for (const bool is_complete : {true, false})
    if (const WeightSet* const set = only_set(sets, [&](const WeightSet& one) {
          return one.name.role == WeightName::Role::shard && is_own(one) && one.is_complete() == is_complete;
        }))
      return OtherFiles{files_of(*set), true};
  for (const WeightName::Role role : {WeightName::Role::shard, WeightName::Role::whole}) {
    const auto has_role = [&](const WeightSet& set) { return set.name.role == role && set.is_complete(); };
    const WeightSet* set = only_set(sets, [&](const WeightSet& one) { return has_role(one) && is_own(one); });
    if (set == nullptr) set = only_set(sets, has_role);
    if (set != nullptr) return OtherFiles{files_of(*set), false};
  }
  return OtherFiles{};
}

}  // namespace weightfs::safetensors
