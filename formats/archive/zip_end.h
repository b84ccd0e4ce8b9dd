// Where the directory of a zip lies: the record at the end of the file says so (APPNOTE 4.3.16), if one finds it.
// libzip takes the first that it can read, and none where something stands in front of the zip.
#pragma once

#include "base/source.h"

namespace weightfs {

/// What the end record says, in terms of the file that it was found in.
struct ZipEnd {
  uint64_t begin;      ///< of the zip: where its offsets count from
  uint64_t directory;  ///< where the directory begins
  uint64_t end;        ///< behind the end record; a comment may follow
  uint64_t members;    ///< how many it claims; without zip64 the truth modulo 65536
};

/// Finds the end record of `zip`. Of several (in a comment, in a zip stored in this one) it is the one whose zip begins
/// first. Fails with corrupt when there is none.
Result<ZipEnd> find_zip_end(const Source& zip);

}  // namespace weightfs
