// The bytes of an object of a listing, opened by their first read.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/cancel.h"
#include "base/source.h"
#include "cache/remote/remote_source.h"

namespace weightfs::s3 {

class ListedBytes : public Source {
 public:
  explicit ListedBytes(uint64_t size) : size_(size) {}

  uint64_t size() const override { return size_; }
  /// Limited, because the server states the size.
  uint64_t occupied() const override { return std::min(size_, blobs::RemoteSource::kMaxOccupied); }
  VerifiedBy verification() const override { return identity().empty() ? VerifiedBy::unpinned : VerifiedBy::transport; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return TRY(opened())->read(offset, out);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return TRY(opened())->read_ahead(offset, out, expected);
  }
  Result<void> prefetch(ByteRange range) const override { return TRY(opened())->prefetch(range); }
  Result<CachedBytes> cached(ByteRange range) const override { return TRY(open_cached())->cached(range); }
  std::shared_ptr<const void> keep_cached() const override { return opened().value_or(nullptr); }

 protected:
  /// Called again when nothing has kept the bytes open.
  virtual Result<SourcePtr> open() const = 0;
  /// As open(), without a request, to count what is cached.
  virtual Result<SourcePtr> open_cached() const { return open(); }
  /// Keeps these bytes open for later reads, which share their requests.
  virtual void keep_open(const SourcePtr& bytes) const = 0;

 private:
  // One reader sends the request, without the lock; the others wait for it until they are cancelled.
  Result<SourcePtr> opened() const {
    std::unique_lock<std::mutex> lock(mutex_);
    while (is_opening_ && !is_cancelled()) changed_.wait_for(lock, kCancelCheck);
    if (is_opening_) return cancelled();
    if (SourcePtr bytes = bytes_.lock()) return bytes;
    is_opening_ = true;
    lock.unlock();
    auto found = exceptions_to_errors([&] { return open(); });
    lock.lock();
    is_opening_ = false;
    if (found) bytes_ = *found;
    lock.unlock();
    changed_.notify_all();
    if (found) keep_open(*found);
    return found;
  }

  const uint64_t size_;
  mutable std::condition_variable changed_;
  mutable std::mutex mutex_;  // guards the rest
  mutable bool is_opening_ = false;
  mutable std::weak_ptr<const Source> bytes_;
};

}  // namespace weightfs::s3
