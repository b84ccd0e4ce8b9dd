// The backend that all processes of a user share: files named by digest; cache/paths.h describes the layout.
// Files that are not complete and verified yet are in blocks/ (cache/blocks/block_file.h). A process that writes a blob
// from its first byte on claims and holds its file. If the process is killed, the file has no claim any more: the next
// writer replaces it and does not continue it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>

#include "base/os/descriptor.h"
#include "cache/disk_quota.h"
#include "cache/store/blob_backend.h"
#include "cache/store/open_blobs.h"
#include "cache/store/recheck.h"
#include "cache/store/temp_file_backend.h"

namespace weightfs::store {

class DiskBackend final : public BlobBackend, public std::enable_shared_from_this<DiskBackend> {
 public:
  /// `compares_digests` as in StoreOptions. `log` receives a line for each damaged blob.
  DiskBackend(const std::string& directory, std::optional<uint64_t> quota, bool compares_digests = false,
              std::function<void(const std::string&)> log = {});

  BlobHandle find_open(const BlobName& name) override;
  BlobHandle find(const BlobName& name, std::optional<uint64_t> size) override;
  Result<void> put(const Digest& digest, std::string_view bytes) override;
  std::optional<Digest> find_digest(DigestOf of, const std::string& key) override;
  Result<void> save_digest(DigestOf of, const std::string& key, const Digest& digest) override;
  Result<BlockFilePtr> open_blocks(const std::string& identity, std::optional<uint64_t> size) override;
  Result<BlobHandle> publish_blocks(const BlockFilePtr& blocks, const BlobName& name, const Digest& digest) override;
  void remove_blob(const Digest& blob) override;
  bool keep_blob(const Digest& blob) override;
  bool release_blocks(const std::string& identity) override;
  void remove_blocks(const std::string& identity, BlockFile::Evict which) override;
  void add_names(const Digest& blob, const std::vector<Name>& names) override;
  void add_names(const std::string& identity, const std::vector<Name>& names) override;

  void stop() override { stop_.request_stop(); }

  /// For comparisons of the blob whose file has that inode.
  BlobKeeper keeper_of(const Digest& digest, ino_t inode);

 private:
  // Moves a file to this path in `blobs`; false with errno set on failure, ENOENT if its name is another file's.
  using Move = std::function<bool(const std::string& path)>;

  Result<FoldersPtr> folders(Missing missing);
  BlockFile::Space space();
  Result<void> give_name(const Folders& folders, const Digest& digest, const Move& move) const;
  Result<BlobHandle> open_published(const Folders& folders, const BlobName& name, const SharedDescriptor& file,
                                    const Digest& digest);
  void keep_open(const BlobName& name, const BlobHandle& blob);
  void drop_deleted();
  void add_names(const Folders& folders, const Digest& file, const std::vector<Name>& names);
  void record_use(const Folders& folders, const Digest& file);
  BlobHandle find_in(const Folders& folders, const BlobName& name, std::optional<uint64_t> size);
  void remove_damaged(const Digest& digest, ino_t inode, const std::string& what);

  FileRangePtr with_recheck(CachedFiles files, ino_t inode, uint64_t size, const Digest& digest,
                            RecheckedFile::Origin origin = RecheckedFile::Origin::unknown);

  std::string top_;
  TempFileBackend temporary_;  // for blocks without an identity
  DiskQuota disk_quota_;
  std::once_flag swept_;
  const bool compares_digests_;
  const std::function<void(const std::string&)> log_;
  std::once_flag told_;  // that the cache cannot be used
  std::stop_source stop_;

  std::mutex mutex_;  // guards the rest; it is not held while disk_quota_ is used
  OpenBlobs open_blobs_;
  // The checks of blobs that were opened, by digest and inode: a blob that was removed and produced again is another
  // file.
  std::map<std::pair<Digest, ino_t>, std::shared_ptr<RecheckedFile>> checks_;
  std::set<Digest> damaged_;  // damaged blobs that could not be removed, and were reported
};

}  // namespace weightfs::store
