// The file beside a blob: its map (cache/blocks/block_map.h) in v1/sums. It is written to making/ while the blob is
// verified, and is renamed after that. A blob does not need it: an error ends the map, never the blob.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/os/descriptor.h"
#include "cache/blocks/block_map.h"
#include "cache/disk_quota.h"
#include "cache/paths.h"

namespace weightfs::store {

/// A locked file in making/, for one thread. Destruction before publish() removes it.
class SideFile {
 public:
  /// KIND-RANDOM.BOOT. Null with errno set if it cannot be created.
  static std::unique_ptr<SideFile> create(const FoldersPtr& folders, std::string_view kind);
  ~SideFile();
  SideFile(const SideFile&) = delete;
  SideFile& operator=(const SideFile&) = delete;

  int number() const { return file_.number(); }
  /// Renames it to `path` in `folder`; false with errno set on failure.
  bool move(const Descriptor& folder, const std::string& path);
  /// Renames it to `path` in `folder` below v1, which is created if it is missing. A failure has no effect.
  void publish(const char* folder, const std::string& path);

 private:
  SideFile(FoldersPtr folders, Descriptor file, std::string name)
      : folders_(std::move(folders)), file_(std::move(file)), name_(std::move(name)) {}

  const FoldersPtr folders_;
  const Descriptor file_;
  const std::string name_;
  bool is_published_ = false;
};

/// Writes a map. For one thread.
class MapWriter {
 public:
  explicit MapWriter(FoldersPtr folders) : folders_(std::move(folders)) {}

  /// Adds the next blocks of the blob; only the last one may be shorter than others.
  void add(std::span<const std::byte> bytes);

  /// Saves the map of all bytes that were added under the digest of the blob, which has been published, unless the
  /// quota has no space for it, or the blob needs none.
  void publish(const Digest& blob, DiskQuota& quota);

 private:
  void write_entries();

  const FoldersPtr folders_;
  std::unique_ptr<SideFile> file_;  // null before the first entries are written, and after an error
  bool has_failed_ = false;
  uint64_t size_ = 0;
  std::vector<MapEntry> entries_;  // that are not written yet
  uint64_t written_ = 0;           // entries before them
};

/// The saved map of a blob of `size` bytes, open for reading; null if there is none, or it is of another blob.
SharedDescriptor open_map(const Folders& folders, const Digest& blob, uint64_t size);

}  // namespace weightfs::store
