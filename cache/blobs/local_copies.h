// Files at hand that should hold a blob: beside the container, in other programs' stores. Each is believed only once
// its digest was computed, which is remembered.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/blobs/store.h"

namespace weightfs {

/// A file that should hold the blob: how to call it in messages, and where it is, for people.
struct Copy {
  std::string name;
  std::string where;
  SourcePtr bytes;
  /// The file was copied into the cache, from where the blob is to be read: other users may write to the file.
  bool is_cached = false;
};

/// The files that should hold it, but for those of another size, which are reported.
struct Copies {
  std::vector<Copy> found;
  std::optional<Error> wrong;  ///< why the one beside the container is none
};

Copies copies_of(Store& store, const Wanted& wanted);

/// The first copy that holds the blob. A file that other users may write to is copied into the cache, since they may
/// change it after it was verified. Copies that do not hold the blob are reported. Fails with not_found when there is
/// no copy, as the last one does when none is right.
Result<Copy> proved_copy(Store& store, const Wanted& wanted);

/// Whether nothing speaks against it: certain for small files, of large ones only what was remembered.
bool may_hold(Store& store, const Copy& copy, const Digest& digest);

}  // namespace weightfs
