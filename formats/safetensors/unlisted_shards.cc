// A shard that an index does not list is damage only if its file is there: without it, the model may be meant to be
// smaller.
#include "formats/safetensors/unlisted_shards.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "formats/directory/weight_names.h"

namespace weightfs::safetensors {
namespace {

using directory::WeightName;

// What the names of all shards of a model have in common.
using Series = std::tuple<directory::Family, std::string, uint32_t>;

std::optional<Series> series_of(std::string_view name) {
  const auto parsed = directory::parse_weight_name(name);
  if (!parsed || parsed->role != WeightName::Role::shard) return std::nullopt;
  return Series{parsed->family, parsed->base, parsed->count};
}

}  // namespace

Result<std::vector<std::string>> unlisted_shards(const std::vector<std::string>& listed, const Container& container) {
  std::set<Series> known;
  for (const std::string& name : listed)
    if (auto series = series_of(name)) known.insert(std::move(*series));
  if ((known.empty() && !listed.empty()) || !container.folder->lists_files()) return std::vector<std::string>{};
  const auto own = directory::parse_weight_name(container.name);
  const auto names = container.folder->names();
  if (!names && is_fatal(container, names.error())) return tl::unexpected(names.error());
  std::vector<std::string> found;
  for (const std::string& name : names.value_or(std::vector<std::string>{})) {
    const auto series = std::ranges::binary_search(listed, name) ? std::nullopt : series_of(name);
    if (!series) continue;
    const auto& [family, base, count] = *series;
    const bool is_of_empty_index = listed.empty() && own && own->family == family && own->base == base;
    if (is_of_empty_index || known.contains(*series)) found.push_back(name);
  }
  return found;
}

}  // namespace weightfs::safetensors
