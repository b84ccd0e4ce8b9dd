#include "cache/store/temp_file_backend.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/os/tmpfile.h"
#include "base/text.h"
#include "cache/disk_quota.h"

namespace weightfs {
namespace {

class TemporaryDraft final : public Draft {
 public:
  TemporaryDraft(std::shared_ptr<Temporary> shelf, std::shared_ptr<TemporaryFile> file, std::string name)
      : shelf_(std::move(shelf)), file_(std::move(file)), name_(std::move(name)) {}

  Result<void> reserve(uint64_t size, Others) override {
    if (size <= reserved_) return {};
    pieces_.push_back(TRY(file_->take(size - reserved_)));
    reserved_ = size;
    return {};
  }

  Result<void> write(uint64_t offset, std::span<const std::byte> bytes) override {
    for (const auto& piece : pieces_) {
      if (offset >= piece->size()) {
        offset -= piece->size();
        continue;
      }
      const auto here = bytes.first(static_cast<size_t>(std::min<uint64_t>(bytes.size(), piece->size() - offset)));
      if (!write_fully(file_->file()->fd(), piece->offset() + offset, here))
        return tl::unexpected(system_error("the temporary file"));
      bytes = bytes.subspan(here.size());
      offset = 0;
    }
    return {};
  }

  Result<void> restart() override { return {}; }  // nothing was left in it
  void take_note(const std::string&) override {}
  void leave(uint64_t) override {}

  RangePtr range() const override {
    std::vector<Range::Piece> pieces;
    for (const auto& piece : pieces_) pieces.push_back({piece->offset(), piece->size(), piece});
    return std::make_shared<Range>(file_->file(), std::move(pieces));
  }

  Result<Kept> publish(const Digest& digest, uint64_t size, BlockSums) override {
    cut(size);
    return shelf_->keep(name_, Kept{range(), digest});
  }

 private:
  // What was taken beyond the end goes back.
  void cut(uint64_t size) {
    while (reserved_ > size) {
      const uint64_t more = std::min(pieces_.back()->size(), reserved_ - size);
      pieces_.back()->shorten(pieces_.back()->size() - more);
      reserved_ -= more;
      if (pieces_.back()->size() == 0) pieces_.pop_back();
    }
  }

  std::shared_ptr<Temporary> shelf_;
  std::shared_ptr<TemporaryFile> file_;
  std::string name_;
  std::vector<std::shared_ptr<TemporaryFile::Taken>> pieces_;
  uint64_t reserved_ = 0;
};

}  // namespace

Result<std::shared_ptr<TemporaryFile>> TemporaryFile::open(std::optional<uint64_t> quota) {
  for (const std::string& place : tmpfile_directories()) {
    const int fd = open_tmpfile(place);
    if (fd < 0) continue;
    return std::make_shared<TemporaryFile>(std::make_shared<OpenFile>(fd), quota ? *quota : default_quota(place));
  }
  return tl::unexpected(system_error("no temporary file can be made"));
}

Result<std::shared_ptr<TemporaryFile::Taken>> TemporaryFile::take(uint64_t size) {
  const std::scoped_lock lock(mutex_);
  const uint64_t room = quota_ - std::min(quota_, used_);
  if (size > room || size > INT64_MAX - end_)
    return failure(Code::resource, str("the temporary file may hold no more than ", human_size(quota_)));
  if (!allocate(file_->fd(), end_, end_ + size)) return tl::unexpected(system_error("the temporary file"));
  auto taken = std::make_shared<Taken>(shared_from_this(), end_, size);
  end_ += size;
  used_ += size;
  return taken;
}

void TemporaryFile::give_back(uint64_t offset, uint64_t size) {
  const std::scoped_lock lock(mutex_);
  const bool freed = ::fallocate(file_->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                                 static_cast<off_t>(size)) == 0;
  if (freed) used_ -= size;
}

void TemporaryFile::Taken::shorten(uint64_t size) {
  if (size < size_) file_->give_back(offset_ + size, size_ - size);
  size_ = std::min(size_, size);
}

Kept Temporary::opened(const Name& name) {
  const std::scoped_lock lock(mutex_);
  const auto blob = blobs_.find(name.text);
  return blob == blobs_.end() ? Kept{} : blob->second;
}

Kept Temporary::find(const Name& name, std::optional<uint64_t> size) {
  const std::scoped_lock lock(mutex_);
  auto blob = blobs_.find(name.text);
  if (blob == blobs_.end() && name.digest) blob = blobs_.find(name.digest->hex());
  if (blob == blobs_.end() || (size && blob->second.range->size() != *size)) return {};
  return blobs_.try_emplace(name.text, blob->second).first->second;
}

Result<Begun> Temporary::begin(const Name& name, std::optional<uint64_t> size, const std::atomic<bool>&) {
  if (auto kept = find(name, size)) return Begun{std::move(kept), nullptr, nullptr, 0};
  auto draft = std::make_unique<TemporaryDraft>(shared_from_this(), TRY(file()), name.text);
  return Begun{{}, std::move(draft), nullptr, 0};
}

std::optional<Digest> Temporary::noted(Of, const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto note = notes_.find(key);
  return note == notes_.end() ? std::nullopt : std::optional(note->second);
}

Result<void> Temporary::note(Of, const std::string& key, const Digest& digest) {
  const std::scoped_lock lock(mutex_);
  notes_.insert_or_assign(key, digest);
  return {};
}

Result<std::shared_ptr<TemporaryFile>> Temporary::file() {
  const std::scoped_lock lock(mutex_);
  if (file_ == nullptr) file_ = TRY(TemporaryFile::open(quota_));
  return file_;
}

Kept Temporary::keep(const std::string& name, Kept blob) {
  const std::scoped_lock lock(mutex_);
  const Kept kept = blobs_.try_emplace(blob.digest.hex(), std::move(blob)).first->second;
  blobs_[name] = kept;
  return kept;
}

}  // namespace weightfs
