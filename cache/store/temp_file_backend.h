// The backend of one process: each blob is an unlinked file, which the kernel frees when the process ends, however it
// ends.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "cache/store/blob_backend.h"
#include "cache/store/open_blobs.h"

namespace weightfs::store {

class TempFile;

class TempFileBackend final : public BlobBackend, public std::enable_shared_from_this<TempFileBackend> {
 public:
  /// Keeps at most `max_open` finished blobs: the least recently used ones are dropped, and produced again when they
  /// are read.
  explicit TempFileBackend(std::optional<uint64_t> quota, size_t max_open = 512)
      : quota_(quota), open_blobs_(max_open) {}

  BlobHandle find_open(const BlobName& name) override;
  BlobHandle find(const BlobName& name, std::optional<uint64_t> size) override;

  Result<void> put(const Digest& digest, std::string_view bytes) override;
  std::optional<Digest> find_digest(DigestOf of, const std::string& key) override;
  Result<void> save_digest(DigestOf of, const std::string& key, const Digest& digest) override;
  void remove_blob(const Digest& blob) override;
  Result<BlockFilePtr> open_blocks(const std::string& identity, std::optional<uint64_t> size) override;
  Result<BlobHandle> publish_blocks(const BlockFilePtr& blocks, const BlobName& name, const Digest& digest) override;

  /// Keeps a finished blob; returns the kept one of the same digest if there is one.
  BlobHandle keep(const std::string& name, BlobHandle blob);

 private:
  Result<std::shared_ptr<TempFile>> create_file() const;

  const std::optional<uint64_t> quota_;
  const std::shared_ptr<std::atomic<uint64_t>> used_ = std::make_shared<std::atomic<uint64_t>>();  // bytes in all files
  std::mutex mutex_;                                                                               // guards the rest
  std::unordered_map<std::string, Digest> digests_;
  OpenBlobs open_blobs_;
};

}  // namespace weightfs::store
