#include "formats/python/estimators.h"

#include <fmt/core.h>

#include <set>
#include <string>

#include "base/text.h"

namespace weightfs::python {
namespace {

constexpr int kMaxVisits = 10'000;  // of values
constexpr size_t kMaxVersions = 8;

// In the state of each estimator since scikit-learn 0.18.
constexpr std::string_view kVersion = "_sklearn_version";

// Depth and number of the values are those of the metadata, which are bounded.
void find_versions(const Value& value, int& visits, std::set<std::string>& versions) {
  if (++visits > kMaxVisits || versions.size() == kMaxVersions) return;
  if (const auto* const list = std::get_if<List>(&value))
    for (const Value& item : *list) find_versions(item, visits, versions);
  const auto* const map = std::get_if<Map>(&value);
  if (map == nullptr) return;
  if (const auto* const version = map->find_as<std::string>(kVersion)) versions.insert(*version);
  for (const auto& [key, item] : *map) find_versions(item, visits, versions);
}

}  // namespace

Map facts_of(pickle::Contents& contents) {
  Map facts, inner;
  for (const auto& [name, type] : contents.classes) {
    if (name.empty())
      facts.set("class", type);
    else
      inner.append(name, type);
  }
  inner.keep_last_of_each_key();
  if (!inner.empty()) facts.append("classes", std::move(inner));
  std::set<std::string> versions;
  int visits = 0;
  for (const auto& [key, value] : contents.metadata)
    if (key == kVersion && std::holds_alternative<std::string>(value))
      versions.insert(std::get<std::string>(value));
    else
      find_versions(value, visits, versions);
  if (versions.size() == 1) facts.append("sklearn_version", *versions.begin());
  if (versions.size() > 1) {
    facts.append("sklearn_version", List(versions.begin(), versions.end()));
    std::string list;
    for (const std::string& version : versions) list += fmt::format("{}{}", list.empty() ? "" : ", ", quoted(version));
    contents.warnings.add("its parts are of different versions of scikit-learn: {}", list);
  }
  return facts;
}

}  // namespace weightfs::python
