// Maps for the JSON of commands.
#pragma once

#include <initializer_list>

#include "base/values/value.h"

namespace weightfs {

/// A map of these entries, whose keys differ.
inline Map map_of(std::initializer_list<Map::Entry> entries) {
  Map map;
  for (const auto& [key, value] : entries) map.append(key, value);
  return map;
}

}  // namespace weightfs
