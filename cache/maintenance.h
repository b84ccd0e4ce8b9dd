// Looking after a cache: what is in it, whether it is right, and what may go. Whoever uses the cache meanwhile is not
// disturbed: to remove a blob that a process reads takes nothing from that process, and what is being made stays.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/store/inventory.h"

namespace weightfs {

/// What blobs and others take, in bytes on disk.
struct Usage {
  uint64_t blobs = 0;
  uint64_t blob_bytes = 0;
  uint64_t pinned = 0;  ///< of the blobs
  uint64_t pinned_bytes = 0;
  uint64_t unfinished = 0;  ///< fetches that were left, or are under way
  uint64_t unfinished_bytes = 0;
  uint64_t makings = 0;    ///< what is being unpacked, or was when its process was killed
  uint64_t all_bytes = 0;  ///< these, and the index
};

Usage usage_of(const Contents& contents);

/// What went, and what could not.
struct Removed {
  uint64_t blobs = 0;
  uint64_t unfinished = 0;
  uint64_t leftovers = 0;          ///< what killed processes left, and links that led nowhere
  uint64_t bytes = 0;              ///< on disk
  std::vector<std::string> stays;  ///< a line for each thing that was to go and did not
};

/// What comparing every blob with its name came to.
struct Checked {
  uint64_t right = 0;
  uint64_t bytes = 0;              ///< of all that were read to their end
  std::vector<std::string> wrong;  ///< a line for each that does not match, and what became of it
  std::vector<Error> unreadable;   ///< one for each that could not be read; it stays
};

/// How far that is.
struct Checking {
  Digest digest;   ///< of the blob that is being read
  uint64_t bytes;  ///< read so far, of all
  uint64_t whole;  ///< to be read in all
};

enum class Pinned { stays, goes };

/// Whether a text may name a digest: at least 6 hex digits, at most 64, "sha256:" before them or not.
bool may_be_digest(std::string_view text);

/// The digest of what is there that the text names, if only one begins so; fails with not_found.
Result<Digest> digest_in(const Contents& contents, const std::string& text);

/// A cache's directory. Nothing is made in it but pins. One that is not there is empty; one that others may write to
/// makes everything fail, as store does. Callable from any thread and process, while others use the cache.
class Upkeep {
 public:
  explicit Upkeep(std::string directory) : directory_(std::move(directory)) {}

  /// What there is: blobs and fetches, those used last first; and which fetches are under way.
  Result<Contents> contents() const;

  /// Reads every blob. One that does not match its name is removed, pinned or not: a file that has a blob's name holds
  /// that blob. `report` is called now and then.
  Result<Checked> verify(const std::function<void(const Checking&)>& report) const;

  /// Removes fetches that were left, what killed processes left, links that lead nowhere; then, as for want of room,
  /// blobs until at most `most` bytes are used.
  Result<Removed> collect(std::optional<uint64_t> most) const;

  /// Removes these blobs and fetches, or all. What is being fetched stays.
  Result<Removed> remove(const std::vector<Digest>& digests, Pinned pinned) const;
  Result<Removed> remove_all(Pinned pinned) const;

  /// Keeps a blob from being evicted, and no longer; whether that is new. To pin fails with not_found when there is no
  /// such blob.
  Result<bool> pin(const Digest& digest) const;
  Result<bool> unpin(const Digest& digest) const;

 private:
  Result<FoldersPtr> folders() const;
  Result<Removed> remove(const std::function<bool(const Digest&)>& is_meant, Pinned pinned) const;

  std::string directory_;
};

}  // namespace weightfs
