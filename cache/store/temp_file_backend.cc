#include "cache/store/temp_file_backend.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stop_token>

#include "base/os/descriptor.h"
#include "base/os/system_error.h"
#include "base/os/tmpfile.h"
#include "base/text.h"
#include "cache/disk_quota.h"
#include "cache/store/list_writer.h"

namespace weightfs::store {
namespace {

class TempFilePartialBlob final : public PartialBlob {
 public:
  TempFilePartialBlob(std::shared_ptr<TempFileBackend> backend, std::shared_ptr<TempFile> file, std::string name)
      : backend_(std::move(backend)), file_(std::move(file)), name_(std::move(name)) {}

  Result<void> reserve(uint64_t size, Eviction) override {
    if (size <= reserved_) return {};
    allocations_.push_back(TRY(file_->reserve(size - reserved_)));
    reserved_ = size;
    return {};
  }

  Result<void> write(uint64_t offset, std::span<const std::byte> bytes) override {
    for (const auto& allocation : allocations_) {
      if (offset >= allocation->size()) {
        offset -= allocation->size();
        continue;
      }
      const auto here = bytes.first(static_cast<size_t>(std::min<uint64_t>(bytes.size(), allocation->size() - offset)));
      if (!write_fully(file_->file()->number(), allocation->offset() + offset, here))
        return failure(io_error("the temporary file"));
      bytes = bytes.subspan(here.size());
      offset = 0;
    }
    return {};
  }

  FileRangePtr range() const override {
    std::vector<FileRange::Segment> segments;
    for (const auto& allocation : allocations_)
      segments.push_back({allocation->offset(), allocation->size(), allocation});
    return std::make_shared<FileRange>(file_->file(), std::move(segments));
  }

  Result<BlobHandle> publish(const Digest& digest, uint64_t size, BlockSums) override {
    truncate(size);
    return backend_->add(name_, BlobHandle{range(), digest});
  }

 private:
  // Frees space beyond the end.
  void truncate(uint64_t size) {
    while (reserved_ > size) {
      const uint64_t more = std::min(allocations_.back()->size(), reserved_ - size);
      allocations_.back()->shorten(allocations_.back()->size() - more);
      reserved_ -= more;
      if (allocations_.back()->size() == 0) allocations_.pop_back();
    }
  }

  std::shared_ptr<TempFileBackend> backend_;
  std::shared_ptr<TempFile> file_;
  std::string name_;
  std::vector<std::shared_ptr<TempFile::Allocation>> allocations_;
  uint64_t reserved_ = 0;
};

// A file of its own for the blocks of a remote file. Its disk space counts as long as it is open.
class BlocksInTempFile {
 public:
  BlocksInTempFile(Descriptor file, std::shared_ptr<TempFile> budget)
      : file_(std::move(file)), budget_(std::move(budget)) {}
  ~BlocksInTempFile() { budget_->discharge(charged_); }
  BlocksInTempFile(const BlocksInTempFile&) = delete;
  BlocksInTempFile& operator=(const BlocksInTempFile&) = delete;

  Descriptor& file() { return file_; }
  Result<void> charge(uint64_t size) {
    TRY_VOID(budget_->charge(size));
    charged_ += size;
    return {};
  }
  Result<void> charge_up_to(uint64_t size) { return charge(size - std::min<uint64_t>(size, charged_)); }

 private:
  Descriptor file_;
  std::shared_ptr<TempFile> budget_;
  std::atomic<uint64_t> charged_ = 0;
};

}  // namespace

Result<std::shared_ptr<TempFile>> TempFile::open(std::optional<uint64_t> quota) {
  for (const std::string& directory : tmpfile_directories()) {
    const int fd = open_tmpfile(directory);
    if (fd < 0) continue;
    return std::make_shared<TempFile>(std::make_shared<Descriptor>(fd), quota ? *quota : default_quota(directory));
  }
  return failure(io_error("cannot create a temporary file"));
}

Result<void> TempFile::charge(uint64_t size) {
  const std::scoped_lock lock(mutex_);
  if (size > quota_ - std::min(quota_, used_)) return tl::unexpected(limit_error());
  used_ += size;
  return {};
}

void TempFile::discharge(uint64_t size) {
  const std::scoped_lock lock(mutex_);
  used_ -= size;
}

Error TempFile::limit_error() const {
  return {Code::resource, fmt::format("the temporary file is limited to {}", human_size(quota_))};
}

Result<std::shared_ptr<TempFile::Allocation>> TempFile::reserve(uint64_t size) {
  const std::scoped_lock lock(mutex_);
  const uint64_t available = quota_ - std::min(quota_, used_);
  if (size > available || size > INT64_MAX - end_) return tl::unexpected(limit_error());
  if (!allocate(file_->number(), end_, end_ + size)) return failure(io_error("the temporary file"));
  auto allocation = std::make_shared<Allocation>(shared_from_this(), end_, size);
  end_ += size;
  used_ += size;
  return allocation;
}

void TempFile::free(uint64_t offset, uint64_t size) {
  const std::scoped_lock lock(mutex_);
  const bool freed = ::fallocate(file_->number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                 static_cast<off_t>(offset), static_cast<off_t>(size)) == 0;
  if (freed) used_ -= size;
}

void TempFile::Allocation::shorten(uint64_t size) {
  if (size < size_) file_->free(offset_ + size, size_ - size);
  size_ = std::min(size_, size);
}

BlobHandle TempFileBackend::find_open(const BlobName& name) {
  const std::scoped_lock lock(mutex_);
  const auto blob = blobs_.find(name.text);
  return blob == blobs_.end() ? BlobHandle{} : blob->second;
}

BlobHandle TempFileBackend::find(const BlobName& name, std::optional<uint64_t> size) {
  const std::scoped_lock lock(mutex_);
  auto blob = blobs_.find(name.text);
  if (blob == blobs_.end() && name.digest) blob = blobs_.find(name.digest->hex());
  if (blob == blobs_.end() || (size && blob->second.range->size() != *size)) return {};
  return blobs_.try_emplace(name.text, blob->second).first->second;
}

Result<AcquireResult> TempFileBackend::acquire(const BlobName& name, std::optional<uint64_t> size,
                                               const std::stop_token&) {
  if (auto handle = find(name, size)) return AcquireResult{std::move(handle), nullptr, nullptr};
  auto partial = std::make_unique<TempFilePartialBlob>(shared_from_this(), TRY(file()), name.text);
  return AcquireResult{{}, std::move(partial), nullptr};
}

std::optional<Digest> TempFileBackend::find_digest(DigestOf, const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto note = digests_.find(key);
  return note == digests_.end() ? std::nullopt : std::optional(note->second);
}

Result<void> TempFileBackend::save_digest(DigestOf, const std::string& key, const Digest& digest) {
  const std::scoped_lock lock(mutex_);
  digests_.insert_or_assign(key, digest);
  return {};
}

Result<BlockFilePtr> TempFileBackend::open_blocks(const std::optional<std::string>&, uint64_t size) {
  auto budget = TRY(file());
  for (const std::string& directory : tmpfile_directories()) {
    Descriptor fd(open_tmpfile(directory));
    if (!fd) continue;
    const auto blocks = std::make_shared<BlocksInTempFile>(std::move(fd), std::move(budget));
    BlockFile::Space space{[blocks](uint64_t bytes) { return blocks->charge(bytes); },
                           [blocks](int, uint64_t bytes) { return blocks->charge_up_to(bytes); }};
    return BlockFile::open(SharedDescriptor(blocks, &blocks->file()), size, "", std::move(space));
  }
  return failure(io_error("cannot create a temporary file"));
}

Result<BlobHandle> TempFileBackend::publish_blocks(const BlockFilePtr& blocks, const std::optional<std::string>&,
                                                   const BlobName& name, const Digest& digest, BlockSums) {
  if (::ftruncate(blocks->descriptor()->number(), static_cast<off_t>(blocks->size())) != 0)
    return failure(io_error("the temporary file"));
  return add(name.text, BlobHandle{std::make_shared<FileRange>(blocks->descriptor(), blocks->size()), digest});
}

std::unique_ptr<ListWriter> TempFileBackend::start_list(uint64_t) { return nullptr; }

Result<std::shared_ptr<TempFile>> TempFileBackend::file() {
  const std::scoped_lock lock(mutex_);
  if (file_ == nullptr) file_ = TRY(TempFile::open(quota_));
  return file_;
}

BlobHandle TempFileBackend::add(const std::string& name, BlobHandle blob) {
  const std::scoped_lock lock(mutex_);
  const BlobHandle handle = blobs_.try_emplace(blob.digest.hex(), std::move(blob)).first->second;
  blobs_[name] = handle;
  return handle;
}

}  // namespace weightfs::store
