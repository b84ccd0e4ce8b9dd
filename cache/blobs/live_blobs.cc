#include "cache/blobs/live_blobs.h"

#include <fmt/core.h>

#include <utility>

#include "cache/remote/verify.h"

namespace weightfs::blobs {
namespace {

constexpr size_t kMaxRemotes = 100'000;  // reported
constexpr uint64_t kForgetAfter = 64;    // opened remote files; then those that are closed are forgotten

constexpr size_t kMaxForgotten = 1000;  // downloads that have ended, before they are removed from the table

}  // namespace

DownloadPtr LiveBlobs::download(const BlobRef& ref, std::optional<uint64_t> size,
                                const std::vector<download::Origin>& origins) {
  std::string key = StoreCore::name_of(ref.digest, size).text;
  for (const download::Origin& origin : origins)
    key += fmt::format(" {} {}", origin.url, static_cast<const void*>(origin.credentials.get()));
  const std::scoped_lock lock(mutex_);
  if (auto running = downloads_[key].lock()) return running;
  if (downloads_.size() > kMaxForgotten)
    std::erase_if(downloads_, [](const auto& each) { return each.second.expired(); });
  const FetchSettings& fetching = store_->fetching();
  auto remote = std::make_shared<download::RemoteFile>(fetching.http, ref.name, origins, size, fetching.options);
  auto created = std::make_shared<Download>(store_, ref, size, std::move(remote));
  if (stopped_) created->stop();
  downloads_[key] = created;
  return created;
}

// A download must not be destroyed with the lock.
std::vector<DownloadPtr> LiveBlobs::downloads_in_use() {
  std::vector<DownloadPtr> live;
  const std::scoped_lock lock(mutex_);
  for (const auto& [key, weak] : downloads_)
    if (auto each = weak.lock()) live.push_back(std::move(each));
  return live;
}

std::vector<StoreStatus::Blob> LiveBlobs::running_downloads() {
  std::vector<StoreStatus::Blob> running;
  for (const auto& each : downloads_in_use())
    if (each->is_running()) running.push_back(each->status());
  return running;
}

RemoteSourcePtr LiveBlobs::find_remote(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = remotes_.find(key);
  return found == remotes_.end() ? nullptr : found->second.lock();
}

// Another thread may have opened it meanwhile.
RemoteSourcePtr LiveBlobs::share_remote(const std::string& key, const RemoteSourcePtr& source) {
  const std::scoped_lock lock(mutex_);
  if (++opened_remotes_ % kForgetAfter == 0)
    std::erase_if(remotes_, [](const auto& each) { return each.second.expired(); });
  auto& shared = remotes_[key];
  if (auto open = shared.lock()) return open;
  shared = source;
  return source;
}

// A source must not be destroyed with the lock.
std::vector<RemoteSourcePtr> LiveBlobs::remotes_in_use(size_t most) {
  std::vector<RemoteSourcePtr> in_use;
  const std::scoped_lock lock(mutex_);
  for (const auto& [key, weak] : remotes_) {
    if (in_use.size() == most) break;
    if (auto each = weak.lock()) in_use.push_back(std::move(each));
  }
  return in_use;
}

Result<void> LiveBlobs::verify_complete() {
  Result<void> result;
  for (const RemoteSourcePtr& source : remotes_in_use(SIZE_MAX)) {
    if (!source->has_digest()) continue;
    const bool has_matched = source->verification() == VerifiedBy::whole;
    if (has_matched && source->identity().empty()) continue;  // without a version it is not published
    const auto verified = blobs::verify_if_complete(*source);
    if (has_matched) continue;
    const bool is_worse = !verified && (result || verified.error().code == Code::mismatch);
    if (is_worse)
      result =
          failure(verified.error().code, fmt::format("{}: {}", source->remote().printable(), verified.error().message));
  }
  return result;
}

void LiveBlobs::drop_unverified() {
  if (store_->fetching().http == nullptr) return;  // nothing can be downloaded again
  for (const RemoteSourcePtr& source : remotes_in_use(SIZE_MAX)) source->drop_unverified();
  for (const std::string& identity : store_->take_unverified())
    store_->backend().remove_blocks(identity, store::BlockFile::Evict::unheld);
}

void LiveBlobs::release_ranges(const std::string& identity) {
  for (const RemoteSourcePtr& source : remotes_in_use(SIZE_MAX))
    if (!identity.empty() && source->identity() == identity) source->release_middle();
}

StoreStatus LiveBlobs::with_remotes(StoreStatus status) {
  for (const RemoteSourcePtr& source : remotes_in_use(kMaxRemotes)) status.remotes.push_back(source->status());
  if (store_->fetching().http != nullptr) {
    status.requests = store_->fetching().http->requests();
    status.keys = store_->fetching().http->keys();
    status.waiting = store_->fetching().http->waiting();
  }
  return status;
}

void LiveBlobs::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
  }
  for (const DownloadPtr& each : downloads_in_use()) each->stop();
  store_->stop();
}

}  // namespace weightfs::blobs
