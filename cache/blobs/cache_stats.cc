#include "cache/blobs/cache_stats.h"

#include <algorithm>

namespace weightfs::blobs {
namespace {

// Limits memory for containers with many blobs: further blobs are neither reported nor counted.
constexpr size_t kMaxReported = 100'000;

void update(StoreStatus::Blob& blob, const StoreStatus::Blob& download) {
  if (blob.verified) return;
  blob.fetched = download.fetched;
  blob.from = download.from;
}

}  // namespace

void CacheStats::add(const BlobRef& ref, std::optional<uint64_t> size) {
  const std::scoped_lock lock(mutex_);
  if (StoreStatus::Blob* entry = blob(ref.digest); entry != nullptr) {
    if (!entry->size) entry->size = size;
    return;
  }
  if (entries_.size() == kMaxReported) return;
  if (!entries_.try_emplace(ref.digest.hex(), Entry{blobs_.size()}).second) return;
  blobs_.push_back({ref.name, ref.digest, size, 0, false, {}, {}});
}

void CacheStats::record_local(const Digest& digest, uint64_t size, const std::string& from) {
  const std::scoped_lock lock(mutex_);
  if (is_first_read(digest)) ++counted_.hits;
  if (StoreStatus::Blob* entry = blob(digest); entry != nullptr && !entry->verified) {
    entry->size = entry->fetched = size;
    entry->verified = true;
    if (entry->from.empty()) entry->from = from;
    entry->error.clear();
  }
}

void CacheStats::record_miss(const Digest& digest) {
  const std::scoped_lock lock(mutex_);
  if (is_first_read(digest)) ++counted_.misses;
}

void CacheStats::record_failure(const Digest& digest, const Error& error) {
  const std::scoped_lock lock(mutex_);
  ++counted_.errors;
  StoreStatus::Blob* entry = blob(digest);
  if (entry == nullptr) return;
  entry->error = error.message;
  if (is_about_the_bytes(error)) entry->fetched = 0;
}

void CacheStats::record_received(uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  counted_.bytes_fetched += bytes;
}

void CacheStats::record_download(const Digest& digest, uint64_t size, const std::string& from) {
  const std::scoped_lock lock(mutex_);
  StoreStatus::Blob* entry = blob(digest);
  if (entry == nullptr) return;
  entry->verified = true;
  entry->size = entry->fetched = size;
  entry->from = from;
  entry->error.clear();
}

StoreStatus CacheStats::status(const std::vector<StoreStatus::Blob>& running) const {
  const std::scoped_lock lock(mutex_);
  StoreStatus status = counted_;
  status.blobs = blobs_;
  for (const StoreStatus::Blob& each : running)
    if (const auto index = index_of(each.digest)) update(status.blobs[*index], each);
  return status;
}

StoreStatus CacheStats::in_progress(const std::vector<StoreStatus::Blob>& running) const {
  const std::scoped_lock lock(mutex_);
  StoreStatus status = counted_;
  for (const StoreStatus::Blob& each : running) {
    const auto index = index_of(each.digest);
    if (!index || blobs_[*index].verified) continue;
    status.blobs.push_back(blobs_[*index]);
    update(status.blobs.back(), each);
  }
  return status;
}

std::optional<size_t> CacheStats::index_of(const Digest& digest) const {
  const auto known = entries_.find(digest.hex());
  return known == entries_.end() ? std::nullopt : std::optional(known->second.index);
}

StoreStatus::Blob* CacheStats::blob(const Digest& digest) {
  const auto index = index_of(digest);
  return index ? &blobs_[*index] : nullptr;
}

bool CacheStats::is_first_read(const Digest& digest) {
  const auto known = entries_.find(digest.hex());
  if (known == entries_.end() || known->second.read) return false;
  known->second.read = true;
  return true;
}

}  // namespace weightfs::blobs
