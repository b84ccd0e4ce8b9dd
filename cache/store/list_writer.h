// The block list of a blob (base/verity/block_list.h), written while the blob is verified, and saved beside it in
// v1/lists. A blob does not need it: an error ends the list, never the blob.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/digest.h"
#include "base/os/descriptor.h"
#include "base/verity/block_list.h"
#include "cache/disk_quota.h"
#include "cache/paths.h"

namespace weightfs::store {

/// For one thread. Destruction before publish() leaves no file.
class ListWriter {
 public:
  /// Starts the list of a blob of `size` bytes, in `file_name` in making/. Null if the quota or the disk has no space
  /// for it: nothing is evicted for a list.
  static std::unique_ptr<ListWriter> create(FoldersPtr folders, DiskQuota& quota, std::string file_name, uint64_t size);
  ~ListWriter();
  ListWriter(const ListWriter&) = delete;
  ListWriter& operator=(const ListWriter&) = delete;

  /// Adds the next bytes of the blob.
  void add(std::span<const std::byte> bytes);

  /// Saves the list of all bytes that were added under the digest of the blob, which has been published.
  void publish(const Digest& blob);

 private:
  ListWriter(FoldersPtr folders, Descriptor file, std::string file_name, uint64_t size);

  const FoldersPtr folders_;
  const Descriptor file_;
  const std::string file_name_;
  BlockListBuilder builder_;
  bool has_failed_ = false;
  bool is_published_ = false;
};

/// Passes the saved list of a blob of `size` bytes to `write`, every block of it verified up to its root, and returns
/// its fs-verity digest. Fails with not_found if there is none, with corrupt or mismatch if it is damaged or of another
/// size, and as `write` and reading do.
Result<Digest> copy_list(const Folders& folders, const Digest& blob, uint64_t size,
                         const BlockListBuilder::Write& write);

}  // namespace weightfs::store
