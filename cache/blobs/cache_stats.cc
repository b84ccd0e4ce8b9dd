#include "cache/blobs/cache_stats.h"

#include <algorithm>

namespace weightfs {
namespace {

// A container may name any number of blobs; more than this are not told, and their reads not counted.
constexpr size_t kMostTold = 100'000;

void bring_up_to_date(StoreStatus::Blob& blob, const Filling& filling, const Filling::Progress& progress) {
  if (blob.verified) return;
  blob.fetched = progress.here;
  blob.from = progress.from;
  // It is served from then on.
  blob.verified = filling.phase() == Filling::Phase::proved || filling.phase() == Filling::Phase::finished;
}

}  // namespace

void Account::asked(const Wanted& wanted, std::optional<uint64_t> size) {
  const std::scoped_lock lock(mutex_);
  if (StoreStatus::Blob* told = blob(wanted.digest); told != nullptr) {
    if (!told->size) told->size = size;
    return;
  }
  if (entries_.size() == kMostTold) return;
  if (!entries_.try_emplace(wanted.digest.hex(), Entry{blobs_.size()}).second) return;
  blobs_.push_back({wanted.name, wanted.digest, size, 0, false, {}, {}});
}

void Account::found(const Digest& digest, uint64_t size, const std::string& from) {
  const std::scoped_lock lock(mutex_);
  if (is_first_read(digest)) ++counted_.hits;
  if (StoreStatus::Blob* told = blob(digest); told != nullptr && !told->verified) {
    told->size = told->fetched = size;
    told->verified = true;
    if (told->from.empty()) told->from = from;
    told->error.clear();
  }
}

void Account::missed(const Digest& digest) {
  const std::scoped_lock lock(mutex_);
  if (is_first_read(digest)) ++counted_.misses;
}

void Account::failed(const Digest& digest, const Error& error) {
  const std::scoped_lock lock(mutex_);
  ++counted_.errors;
  if (StoreStatus::Blob* told = blob(digest)) told->error = error.message;
}

void Account::ended(const Filling& filling) {
  const auto phase = filling.phase();
  const auto progress = filling.progress();
  const bool failed = phase == Filling::Phase::failed || phase == Filling::Phase::unkept;
  const std::scoped_lock lock(mutex_);
  counted_.bytes_fetched += progress.fetched;
  if (failed) ++counted_.errors;
  StoreStatus::Blob* told = blob(*filling.name().digest);
  if (told == nullptr) return;
  told->verified = phase == Filling::Phase::finished;
  if (!progress.from.empty()) told->from = progress.from;
  told->error = failed ? filling.error().message : "";
  if (told->verified) told->size = told->fetched = filling.kept().range->size();
  if (!told->verified) told->fetched = failed && is_about_the_bytes(filling.error()) ? 0 : progress.here;
}

StoreStatus Account::status(const Fillings& fetching) const {
  const std::scoped_lock lock(mutex_);
  StoreStatus status = counted_;
  status.blobs = blobs_;
  for (const auto& filling : fetching) {
    const auto progress = filling->progress();
    status.bytes_fetched += progress.fetched;
    if (const auto place = place_of(*filling->name().digest))
      bring_up_to_date(status.blobs[*place], *filling, progress);
  }
  return status;
}

StoreStatus Account::running(const Fillings& fetching) const {
  const std::scoped_lock lock(mutex_);
  StoreStatus status = counted_;
  for (const auto& filling : fetching) {
    const auto progress = filling->progress();
    status.bytes_fetched += progress.fetched;
    const auto place = place_of(*filling->name().digest);
    if (!place || blobs_[*place].verified) continue;
    status.blobs.push_back(blobs_[*place]);
    bring_up_to_date(status.blobs.back(), *filling, progress);
  }
  return status;
}

std::optional<size_t> Account::place_of(const Digest& digest) const {
  const auto entry = entries_.find(digest.hex());
  return entry == entries_.end() ? std::nullopt : std::optional(entry->second.place);
}

StoreStatus::Blob* Account::blob(const Digest& digest) {
  const auto place = place_of(digest);
  return place ? &blobs_[*place] : nullptr;
}

bool Account::is_first_read(const Digest& digest) {
  const auto entry = entries_.find(digest.hex());
  if (entry == entries_.end() || entry->second.read) return false;
  entry->second.read = true;
  return true;
}

}  // namespace weightfs
