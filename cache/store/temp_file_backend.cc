#include "cache/store/temp_file_backend.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/files/file_io.h"
#include "base/os/descriptor.h"
#include "base/os/system_error.h"
#include "base/os/tmpfile.h"
#include "base/text.h"
#include "cache/disk_quota.h"

namespace weightfs::store {

/// An unlinked file. Its disk space counts until it is closed.
class TempFile {
 public:
  TempFile(Descriptor file, uint64_t quota, std::shared_ptr<std::atomic<uint64_t>> used)
      : file_(std::move(file)), quota_(quota), used_(std::move(used)) {}
  ~TempFile() { *used_ -= charged_; }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  /// Its descriptor, which keeps the file counted.
  static SharedDescriptor descriptor(const std::shared_ptr<TempFile>& file) { return {file, &file->file_}; }

  /// Counts `bytes` more.
  Result<void> charge(uint64_t bytes) {
    uint64_t used = *used_;
    do {
      if (bytes > quota_ - std::min(quota_, used))
        return failure(Code::resource, fmt::format("temporary files are limited to {}", human_size(quota_)));
    } while (!used_->compare_exchange_weak(used, used + bytes));
    charged_ += bytes;
    return {};
  }
  /// Counts `bytes` in total, if that is more.
  Result<void> charge_up_to(uint64_t bytes) { return charge(bytes - std::min<uint64_t>(bytes, charged_)); }
  /// Counts only `bytes` in total: no more were written, or it was cut.
  void discharge_down_to(uint64_t bytes) { *used_ -= charged_.exchange(bytes) - bytes; }

 private:
  Descriptor file_;
  const uint64_t quota_;
  const std::shared_ptr<std::atomic<uint64_t>> used_;  // by all files
  std::atomic<uint64_t> charged_ = 0;
};

BlobHandle TempFileBackend::find_open(const BlobName& name) {
  const std::scoped_lock lock(mutex_);
  return open_blobs_.find(name.text);
}

BlobHandle TempFileBackend::find(const BlobName& name, std::optional<uint64_t> size) {
  OpenBlobs::Dropped dropped;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  BlobHandle blob = open_blobs_.find(name.text);
  if (!blob && name.digest) blob = open_blobs_.find(*name.digest);
  if (!blob || (size && blob.range->size() != *size)) return {};
  dropped = open_blobs_.keep(name.text, blob);
  return blob;
}

Result<void> TempFileBackend::put(const Digest& digest, std::string_view bytes) {
  if (find({digest.hex(), "", digest}, bytes.size())) return {};
  const auto file = TRY(create_file());
  TRY_VOID(file->charge(bytes.size()));
  const SharedDescriptor descriptor = TempFile::descriptor(file);
  if (!write_fully(descriptor->number(), 0, std::as_bytes(std::span(bytes))))
    return failure(io_error("the temporary file"));
  keep(digest.hex(), {std::make_shared<FileRange>(descriptor, bytes.size()), digest});
  return {};
}

std::optional<Digest> TempFileBackend::find_digest(DigestOf, const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto digest = digests_.find(key);
  return digest == digests_.end() ? std::nullopt : std::optional(digest->second);
}

Result<void> TempFileBackend::save_digest(DigestOf, const std::string& key, const Digest& digest) {
  const std::scoped_lock lock(mutex_);
  digests_.insert_or_assign(key, digest);
  return {};
}

void TempFileBackend::remove_blob(const Digest& blob) {
  OpenBlobs::Dropped dropped;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  dropped = open_blobs_.drop_if([&](const BlobHandle& open) { return open.digest == blob; });
}

Result<BlockFilePtr> TempFileBackend::open_blocks(const std::string&, std::optional<uint64_t> size) {
  const auto file = TRY(create_file());
  BlockFile::Space space{.reserve = [file](int, uint64_t from, uint64_t to) { return file->charge(to - from); },
                         .allocate_first = [file](int fd, uint64_t bytes, Eviction) -> Result<void> {
                           TRY_VOID(file->charge_up_to(bytes));
                           return allocate(fd, 0, bytes) ? Result<void>() : failure(io_error("the temporary file"));
                         },
                         .release_unused = [file](uint64_t written) { file->discharge_down_to(written); }};
  const auto map = TRY(create_file());
  return BlockFile::create({TempFile::descriptor(file), TempFile::descriptor(map)}, size, std::move(space));
}

Result<BlobHandle> TempFileBackend::publish_blocks(const BlockFilePtr& blocks, const BlobName& name,
                                                   const Digest& digest) {
  return keep(name.text, {std::make_shared<FileRange>(blocks->files().data, blocks->size()), digest});
}

Result<std::shared_ptr<TempFile>> TempFileBackend::create_file() const {
  for (const std::string& directory : tmpfile_directories()) {
    Descriptor file(open_tmpfile(directory));
    if (file) return std::make_shared<TempFile>(std::move(file), quota_ ? *quota_ : default_quota(directory), used_);
  }
  return failure(io_error("cannot create a temporary file"));
}

BlobHandle TempFileBackend::keep(const std::string& name, BlobHandle blob) {
  OpenBlobs::Dropped dropped;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  if (BlobHandle kept = open_blobs_.find(blob.digest)) blob = std::move(kept);
  dropped = open_blobs_.keep(name, blob);
  return blob;
}

}  // namespace weightfs::store
