// The shelf that all processes of a user share: files named by their digest, see cache/paths.h for the layout.
// Who holds the lock (flock) of a file in making/ is its maker, and only the maker unlinks or renames it. Its size is
// its progress: it only ever grows, and a file that a dead maker left is replaced, not continued. Its name ends in
// the id of the machine's boot, so that nobody follows what was left when the machine stopped, of which blocks may be
// missing. A resumable one is continued, whatever happened to it: it is `<digest>.part`, and only its digest is
// believed.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "cache/disk_quota.h"
#include "cache/store/blob_backend.h"
#include "cache/store/recheck.h"

namespace weightfs {

class Directory final : public Shelf, public std::enable_shared_from_this<Directory> {
 public:
  /// `log` is told of cached blobs that are damaged.
  Directory(const std::string& directory, std::optional<uint64_t> quota, Recheck recheck = Recheck::read,
            std::function<void(const std::string&)> log = {});

  Kept opened(const Name& name) override { return open_.find(name.text); }
  Kept find(const Name& name, std::optional<uint64_t> size) override;
  Result<Begun> begin(const Name& name, std::optional<uint64_t> size, const std::atomic<bool>& stop) override;
  std::optional<Digest> noted(Of of, const std::string& key) override;
  Result<void> note(Of of, const std::string& key, const Digest& digest) override;

  /// Makes the file `made` in making/, which the caller has locked, the blob of that digest.
  Result<Kept> publish(const Folders& folders, const Name& name, const OpenFilePtr& file, const std::string& made,
                       const Digest& digest, uint64_t size, BlockSums sums);

  void stop() override { stopped_ = true; }

  Room& room() { return room_; }

 private:
  Result<FoldersPtr> folders(Missing missing);
  Kept find_in(const Folders& folders, const Name& name, std::optional<uint64_t> size);
  Result<std::optional<Begun>> try_begin(const Name& name, std::optional<uint64_t> size, const std::atomic<bool>& stop);

  std::string made_name(const Name& name) const;
  RangePtr checked(OpenFilePtr file, const struct stat& opened, const Digest& digest,
                   std::optional<BlockSums> sums = {});
  void note_sums(const Digest& digest, const BlockSums& sums);
  void discard(const Digest& digest, ino_t inode, const std::string& what);

  std::string top_;
  OpenBlobs open_;
  Room room_;
  std::string suffix_;  // of names in making/
  std::once_flag swept_;
  const Recheck recheck_;
  const std::function<void(const std::string&)> log_;
  std::atomic<bool> stopped_ = false;

  struct Check {
    ino_t inode;
    std::shared_ptr<RecheckedFile> file;
  };
  std::mutex mutex_;                               // guards the rest
  std::unordered_map<std::string, Check> checks_;  // by digest: of blobs that were opened
  std::set<std::string> damaged_;                  // that could not be removed, and were reported
};

}  // namespace weightfs
