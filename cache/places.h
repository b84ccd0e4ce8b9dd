// Files at hand that should hold a blob: beside the container, in other programs' stores. Each is believed only once
// its digest was computed, which is remembered.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/store.h"

namespace weightfs {

/// A file that should hold the blob: how to call it in messages, and where it is, for people.
struct Place {
  std::string name;
  std::string where;
  SourcePtr bytes;
};

/// The files that should hold it, but for those of another size, which are reported.
struct Places {
  std::vector<Place> found;
  std::optional<Error> wrong;  ///< why the one beside the container is none
};

Places places_of(Store& store, const Wanted& wanted);

/// The first place that holds the blob; those that do not are reported. Fails with not_found when there is no place, as
/// the last one does when none is right.
Result<Place> proved_place(Store& store, const Wanted& wanted);

/// Whether nothing speaks against it: certain for small files, of large ones only what was remembered.
bool may_hold(Store& store, const Place& place, const Digest& digest);

}  // namespace weightfs
