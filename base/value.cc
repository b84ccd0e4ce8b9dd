#include "base/value.h"

#include <algorithm>

namespace weightfs {

void Map::append(std::string key, Value value) { entries_.emplace_back(std::move(key), std::move(value)); }

void Map::set(std::string key, Value value) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.first == key; });
  if (found == entries_.end()) return append(std::move(key), std::move(value));
  found->second = std::move(value);
}

const Value* Map::find(std::string_view key) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.first == key; });
  return found == entries_.end() ? nullptr : &found->second;
}

}  // namespace weightfs
