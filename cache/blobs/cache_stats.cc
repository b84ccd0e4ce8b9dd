#include "cache/blobs/cache_stats.h"

#include <algorithm>

namespace weightfs::blobs {
namespace {

// Limits memory for containers with many blobs: further blobs are neither reported nor counted.
constexpr size_t kMaxReported = 100'000;

void update(StoreStatus::Blob& blob, const InFlightBlob& in_flight, const InFlightBlob::Progress& progress) {
  if (blob.verified) return;
  blob.fetched = progress.received;
  blob.from = progress.from;
  // Both phases serve verified bytes.
  blob.verified =
      in_flight.phase() == InFlightBlob::Phase::verified || in_flight.phase() == InFlightBlob::Phase::finished;
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
  if (StoreStatus::Blob* entry = blob(digest)) entry->error = error.message;
}

void CacheStats::record_range(uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  counted_.bytes_fetched += bytes;
}

void CacheStats::record_download(const InFlightBlob& in_flight) {
  const auto phase = in_flight.phase();
  const auto progress = in_flight.progress();
  const bool is_failure = phase == InFlightBlob::Phase::failed || phase == InFlightBlob::Phase::uncacheable;
  const std::scoped_lock lock(mutex_);
  counted_.bytes_fetched += progress.fetched;
  if (is_failure) ++counted_.errors;
  StoreStatus::Blob* entry = blob(*in_flight.name().digest);
  if (entry == nullptr) return;
  entry->verified = phase == InFlightBlob::Phase::finished;
  if (!progress.from.empty()) entry->from = progress.from;
  entry->error = is_failure ? in_flight.error().message : "";
  if (entry->verified) entry->size = entry->fetched = in_flight.handle().range->size();
  if (!entry->verified) entry->fetched = is_failure && is_about_the_bytes(in_flight.error()) ? 0 : progress.received;
}

StoreStatus CacheStats::status(const InFlightBlobs& fetching) const {
  const std::scoped_lock lock(mutex_);
  StoreStatus status = counted_;
  status.blobs = blobs_;
  for (const auto& in_flight : fetching) {
    const auto progress = in_flight->progress();
    status.bytes_fetched += progress.fetched;
    if (const auto index = index_of(*in_flight->name().digest)) update(status.blobs[*index], *in_flight, progress);
  }
  return status;
}

StoreStatus CacheStats::in_progress(const InFlightBlobs& fetching) const {
  const std::scoped_lock lock(mutex_);
  StoreStatus status = counted_;
  for (const auto& in_flight : fetching) {
    const auto progress = in_flight->progress();
    status.bytes_fetched += progress.fetched;
    const auto index = index_of(*in_flight->name().digest);
    if (!index || blobs_[*index].verified) continue;
    status.blobs.push_back(blobs_[*index]);
    update(status.blobs.back(), *in_flight, progress);
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
