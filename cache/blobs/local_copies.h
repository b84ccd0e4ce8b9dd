// Local files that should hold a blob: beside the container, or in external stores. They are used only after
// verification, whose result is saved.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/core/store_core.h"

namespace weightfs::blobs {

/// A file that should hold the blob, with its name for messages and its origin for status.json.
struct LocalCopy {
  std::string name;
  std::string origin;
  SourcePtr bytes;
  /// The file was copied into the cache, and must be read there, because other users may write to it.
  bool is_cached = false;
};

/// The candidate files. Files of another size are reported instead.
struct LocalCopies {
  std::vector<LocalCopy> found;
  std::optional<Error> mismatch;  ///< why the file beside the container does not match
};

LocalCopies find_local_copies(StoreCore& store, const BlobRef& ref);

/// The first copy that matches the digest. A file that other users may write to is copied into the cache, because it
/// may change after verification. Mismatched copies are reported. Fails with not_found when there is no copy, otherwise
/// with the last copy's error.
Result<LocalCopy> verified_copy(StoreCore& store, const BlobRef& ref);

/// The blob in the cache; empty if there is none.
store::BlobHandle cached_blob(StoreCore& store, const BlobRef& ref);
/// Whether the blob needs no download: it is cached, or there is a file that should hold it.
bool is_local(StoreCore& store, const BlobRef& ref);

/// Whether the copy is known to match, or can be verified at once: verified_copy() would not copy or hash a large file.
bool is_known_to_match(StoreCore& store, const LocalCopy& copy, const Digest& digest);

/// Whether the copy may match: exact for small files; for large files only if a digest has been saved.
bool may_match(StoreCore& store, const LocalCopy& copy, const Digest& digest);

}  // namespace weightfs::blobs
