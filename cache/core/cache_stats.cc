#include "cache/core/cache_stats.h"

#include <utility>

namespace weightfs::blobs {
namespace {

// Limits memory for containers with many blobs: further blobs are neither reported nor counted.
constexpr size_t kMaxReported = 100'000;

void update(StoreStatus::Blob& blob, const StoreStatus::Blob& download) {
  if (blob.verified) return;
  blob.fetched = download.fetched;
  blob.from = download.from;
}

void set_verified(StoreStatus::Blob& blob, uint64_t size, const std::string& from) {
  blob.verified = true;
  blob.size = blob.fetched = size;
  blob.from = from;
  blob.error.clear();
}

}  // namespace

void CacheStats::add(const BlobRef& ref, std::optional<uint64_t> size) {
  const std::scoped_lock lock(mutex_);
  if (Entry* const entry = find(ref.digest); entry != nullptr) {
    if (!entry->blob.size) entry->blob.size = size;
  } else if (entries_.size() < kMaxReported) {
    indices_.emplace(ref.digest.hex(), entries_.size());
    entries_.push_back({{ref.name, ref.digest, size, 0, false, {}, {}}});
  }
}

void CacheStats::record_local(const Digest& digest, uint64_t size, const std::string& from) {
  const std::scoped_lock lock(mutex_);
  Entry* const entry = find(digest);
  if (entry == nullptr) return;
  if (!std::exchange(entry->is_read, true)) ++counted_.hits;
  if (!entry->blob.verified) set_verified(entry->blob, size, entry->blob.from.empty() ? from : entry->blob.from);
}

void CacheStats::record_miss(const Digest& digest) {
  const std::scoped_lock lock(mutex_);
  Entry* const entry = find(digest);
  if (entry != nullptr && !std::exchange(entry->is_read, true)) ++counted_.misses;
}

void CacheStats::record_failure(const Digest& digest, const Error& error) {
  const std::scoped_lock lock(mutex_);
  ++counted_.errors;
  Entry* const entry = find(digest);
  if (entry == nullptr) return;
  entry->blob.error = error.message;
  if (is_about_the_bytes(error)) entry->blob.fetched = 0;
}

void CacheStats::record_received(uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  counted_.bytes_fetched += bytes;
}

void CacheStats::record_download(const Digest& digest, uint64_t size, const std::string& from) {
  const std::scoped_lock lock(mutex_);
  Entry* const entry = find(digest);
  if (entry == nullptr) return;
  entry->is_downloaded = true;
  set_verified(entry->blob, size, from);
}

bool CacheStats::is_downloaded(const Digest& digest) {
  const std::scoped_lock lock(mutex_);
  const Entry* const entry = find(digest);
  return entry != nullptr && entry->is_downloaded;
}

bool CacheStats::take_downloaded(const Digest& digest) {
  const std::scoped_lock lock(mutex_);
  Entry* const entry = find(digest);
  return entry != nullptr && std::exchange(entry->is_downloaded, false);
}

StoreStatus CacheStats::status(const std::vector<StoreStatus::Blob>& running) {
  const std::scoped_lock lock(mutex_);
  StoreStatus status = counted_;
  for (const Entry& entry : entries_) status.blobs.push_back(entry.blob);
  for (const StoreStatus::Blob& each : running)
    if (const auto index = indices_.find(each.digest.hex()); index != indices_.end())
      update(status.blobs[index->second], each);
  return status;
}

StoreStatus CacheStats::in_progress(const std::vector<StoreStatus::Blob>& running) {
  const std::scoped_lock lock(mutex_);
  StoreStatus status = counted_;
  for (const StoreStatus::Blob& each : running) {
    const Entry* const entry = find(each.digest);
    if (entry != nullptr && !entry->blob.verified) update(status.blobs.emplace_back(entry->blob), each);
  }
  return status;
}

CacheStats::Entry* CacheStats::find(const Digest& digest) {
  const auto known = indices_.find(digest.hex());
  return known == indices_.end() ? nullptr : &entries_[known->second];
}

}  // namespace weightfs::blobs
