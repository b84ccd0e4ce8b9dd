// The backend of one process: an unlinked temporary file in which each blob has its own ranges. The kernel frees it
// when the process ends.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <unordered_map>

#include "base/os/descriptor.h"
#include "cache/store/blob_backend.h"

namespace weightfs::store {

/// The file, and its allocated ranges. Thread-safe.
class TempFile : public std::enable_shared_from_this<TempFile> {
 public:
  /// A range of the file, freed by its destructor: readers share ownership. Only the writer changes it.
  class Allocation {
   public:
    Allocation(std::shared_ptr<TempFile> file, uint64_t offset, uint64_t size)
        : file_(std::move(file)), offset_(offset), size_(size) {}
    ~Allocation() { shorten(0); }
    Allocation(const Allocation&) = delete;
    Allocation& operator=(const Allocation&) = delete;

    uint64_t offset() const { return offset_; }
    uint64_t size() const { return size_; }
    /// Frees all but the first `size` bytes.
    void shorten(uint64_t size);

   private:
    std::shared_ptr<TempFile> file_;
    uint64_t offset_;
    uint64_t size_;
  };

  /// Fails when no directory for temporary files is usable.
  static Result<std::shared_ptr<TempFile>> open(std::optional<uint64_t> quota);

  TempFile(SharedDescriptor file, uint64_t quota) : file_(std::move(file)), quota_(quota) {}

  const SharedDescriptor& file() const { return file_; }

  /// Reserves the next `size` bytes of the file, preallocated if possible.
  Result<std::shared_ptr<Allocation>> reserve(uint64_t size);

  /// Charges the quota for `size` bytes of another temporary file, for as long as this one exists.
  Result<void> charge(uint64_t size);
  void discharge(uint64_t size);

 private:
  void free(uint64_t offset, uint64_t size);
  Error limit_error() const;

  SharedDescriptor file_;
  uint64_t quota_;
  std::mutex mutex_;   // guards the rest
  uint64_t end_ = 0;   // end of all allocations
  uint64_t used_ = 0;  // bytes in use
};

class TempFileBackend final : public BlobBackend, public std::enable_shared_from_this<TempFileBackend> {
 public:
  explicit TempFileBackend(std::optional<uint64_t> quota) : quota_(quota) {}

  BlobHandle find_open(const BlobName& name) override;
  BlobHandle find(const BlobName& name, std::optional<uint64_t> size) override;
  Result<AcquireResult> acquire(const BlobName& name, std::optional<uint64_t> size,
                                const std::stop_token& stop) override;

  std::optional<Digest> find_digest(DigestOf of, const std::string& key) override;
  Result<void> save_digest(DigestOf of, const std::string& key, const Digest& digest) override;
  Result<BlockFilePtr> open_blocks(const std::optional<std::string>& identity, uint64_t size) override;
  Result<BlobHandle> publish_blocks(const BlockFilePtr& blocks, const std::optional<std::string>& identity,
                                    const BlobName& name, const Digest& digest, BlockSums sums) override;
  void remove_blocks(const std::string&, BlockFile::Held) override {}
  /// Nothing is saved that only this process could read.
  std::unique_ptr<ListWriter> start_list(uint64_t size) override;
  Result<std::optional<Digest>> copy_list(const Digest&, uint64_t, const BlockListBuilder::Write&) override {
    return std::nullopt;
  }

  void enable_verity(const Digest&) override {}

  /// Adds the blob; returns the existing one of the same digest if there is one.
  BlobHandle add(const std::string& name, BlobHandle blob);

 private:
  Result<std::shared_ptr<TempFile>> file();

  std::mutex mutex_;  // guards the rest
  std::optional<uint64_t> quota_;
  std::shared_ptr<TempFile> file_;
  std::unordered_map<std::string, Digest> digests_;
  std::unordered_map<std::string, BlobHandle> blobs_;  // by digest, and by requested names
};

}  // namespace weightfs::store
