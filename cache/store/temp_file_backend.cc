#include "cache/store/temp_file_backend.h"

#include <fmt/core.h>
#include <unistd.h>

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

namespace {

class TempPartialBlob final : public PartialBlob {
 public:
  TempPartialBlob(std::shared_ptr<TempFileBackend> backend, std::shared_ptr<TempFile> file, std::string name)
      : backend_(std::move(backend)), file_(std::move(file)), name_(std::move(name)) {}

  Result<void> reserve(uint64_t size, Eviction) override {
    if (size <= reserved_) return {};
    TRY_VOID(file_->charge_up_to(size));
    if (!allocate(fd(), reserved_, size)) return failure(io_error("the temporary file"));
    reserved_ = size;
    return {};
  }

  Result<void> write(std::span<const std::byte> bytes) override {
    if (!write_fully(fd(), written_, bytes)) return failure(io_error("the temporary file"));
    written_ += bytes.size();
    return {};
  }

  FileRangePtr range() const override { return std::make_shared<FileRange>(TempFile::descriptor(file_), reserved_); }

  Result<BlobHandle> publish(const Digest& digest) override {
    // This frees blocks beyond the end.
    if (::ftruncate(fd(), static_cast<off_t>(written_)) == 0) file_->discharge_down_to(written_);
    return backend_->keep(name_, {std::make_shared<FileRange>(TempFile::descriptor(file_), written_), digest});
  }

 private:
  int fd() const { return TempFile::descriptor(file_)->number(); }

  std::shared_ptr<TempFileBackend> backend_;
  std::shared_ptr<TempFile> file_;
  std::string name_;
  uint64_t reserved_ = 0;
  uint64_t written_ = 0;
};

}  // namespace

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

Result<AcquireResult> TempFileBackend::acquire(const BlobName& name, std::optional<uint64_t> size,
                                               const std::stop_token&) {
  if (auto handle = find(name, size)) return AcquireResult{.cached = std::move(handle)};
  auto partial = std::make_unique<TempPartialBlob>(shared_from_this(), TRY(create_file()), name.text);
  return AcquireResult{.partial = std::move(partial)};
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

Result<BlockFilePtr> TempFileBackend::open_blocks(const std::string&, uint64_t size) {
  const auto file = TRY(create_file());
  BlockFile::Space space{[file](int, uint64_t from, uint64_t to) { return file->charge(to - from); },
                         [file](int, uint64_t bytes) { return file->charge_up_to(bytes); },
                         [file](uint64_t written) { file->discharge_down_to(written); }};
  return BlockFile::open(TempFile::descriptor(file), size, "", std::move(space));
}

Result<BlobHandle> TempFileBackend::publish_blocks(const BlockFilePtr& blocks, const BlobName& name,
                                                   const Digest& digest, BlockSums) {
  if (::ftruncate(blocks->descriptor()->number(), static_cast<off_t>(blocks->size())) != 0)
    return failure(io_error("the temporary file"));
  return keep(name.text, {std::make_shared<FileRange>(blocks->descriptor(), blocks->size()), digest});
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
