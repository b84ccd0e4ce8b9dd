// Finds the directory of a zip by the end record (APPNOTE 4.3.16). libzip takes the first record that it can read, and
// finds none if other data precede the zip.
#pragma once

#include "base/source.h"

namespace weightfs::archive {

/// The values of the end record, as offsets in the file.
struct ZipEnd {
  uint64_t begin;      ///< the origin of the zip's offsets
  uint64_t directory;  ///< offset of the directory
  uint64_t end;        ///< offset after the end record; a comment may follow
  uint64_t members;    ///< the claimed number of members; without zip64 it is modulo 65536
};

/// Finds the end record of `zip`: the last one whose directory is where it says, as Python's zipfile and miniz (torch)
/// do. Others may be before it, in a stored zip. Fails with corrupt if there is none, and if programs differ in which
/// directory of the file they read.
Result<ZipEnd> find_zip_end(const Source& zip);

}  // namespace weightfs::archive
