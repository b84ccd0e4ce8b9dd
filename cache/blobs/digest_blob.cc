#include "cache/blobs/digest_blob.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "base/cancel.h"
#include "base/download_scope.h"
#include "base/files/leaf.h"
#include "base/files/no_passthrough.h"
#include "base/text.h"
#include "cache/blobs/blob_origins.h"
#include "cache/blobs/direct_blob.h"
#include "cache/blobs/local_copies.h"
#include "cache/blobs/unverified_reads.h"
#include "cache/blobs/unverified_source.h"
#include "cache/remote/download.h"
#include "cache/remote/remote_source.h"

namespace weightfs::blobs {
namespace {

constexpr int kMaxAttempts = 8;  // of a read whose blocks others drop or evict

constexpr uint64_t kSmallFile = 256 << 10;  // a request for its header costs as much as all of it

class DigestBlob final : public Leaf, public std::enable_shared_from_this<DigestBlob> {
 public:
  DigestBlob(LiveBlobsPtr live, BlobRef ref, uint64_t size, std::vector<download::Origin> origins)
      : live_(std::move(live)),
        store_(live_->store()),
        ref_(std::move(ref)),
        size_(size),
        origins_(std::move(origins)),
        name_(StoreCore::name_of(ref_.digest, size)),
        remote_([this] { return open_remote(); }),
        copy_([this] { return verified_copy(*store_, ref_); }) {
    copy_.keep_make();
  }

  uint64_t size() const override { return size_; }
  // Until it is local, its size is only declared.
  uint64_t occupied() const override {
    return identity().empty() ? std::min(size_, RemoteSource::kMaxOccupied) : size_;
  }
  std::string identity() const override {
    const bool is_verified = copy_.peek() || store_->find_cached(name_, size_);
    return is_verified ? "sha256 " + ref_.digest.hex() : "";
  }
  VerifiedBy verification() const override {
    if (!check_consistent()) return VerifiedBy::mismatch;
    if (!identity().empty()) return VerifiedBy::whole;
    const Download* const ranges = ranges_in_use();
    return ranges == nullptr ? VerifiedBy::unknown : ranges->source()->verification();
  }
  SourcePtr verified_file() const override {
    if (!check_consistent() || unverified_reads_.next()) return nullptr;
    if (const store::BlobHandle handle = store_->backend().find_open(name_)) return direct(handle.range);
    const auto external = copy_.peek();
    if (!external || external->is_cached || external->bytes->size() != size_) return nullptr;
    return direct(external->bytes);
  }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return read_served(offset, inside(offset, out), {});
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return read_served(offset, inside(offset, out), expected);
  }
  // Also accepts unverified bytes: of the first local copy, or of the running download.
  Result<size_t> read_unverified(uint64_t offset, std::span<std::byte> out, Earlier earlier) const {
    out = inside(offset, out);
    if (!out.empty()) TRY_VOID(fill_unverified(offset, out, earlier));
    return out.size();
  }
  void forget_unverified(UnverifiedReads& reads) const { reads.forget_in(unverified_reads_); }
  SourcePtr unverified() const override;
  // Downloads these bytes only, unless there is a copy.
  Result<void> prefetch_unverified(ByteRange range) const {
    return needs_download() ? TRY(needed_remote())->source()->prefetch(range) : Result<void>();
  }
  // Also keeps the whole blob (StoreCore::keep): what this process has open, another one may have removed.
  Result<void> prefetch(ByteRange range) const override {
    const bool is_kept = store_->keeps_packed() && range.from == 0 && range.to >= size_;
    for (int attempts = 0; attempts < kMaxAttempts; ++attempts) {
      TRY_VOID(prefetch_once(range));
      if (!is_kept || !find_cached() || store_->keep(ref_.digest)) return {};
    }
    return failure(Code::io, fmt::format("{}: other processes remove it from the cache", ref_.name));
  }
  // Downloads only the ranges of a part; the whole blob is downloaded and verified.
  Result<void> prefetch_once(ByteRange range) const {
    const bool is_part = range.from > 0 || range.to < size_;
    if (is_part && find_cached()) return {};
    if (DownloadScope::is_active() && !needs_download()) return {};
    const auto remote = this->remote();
    if (!remote && !weightfs::blobs::is_local(*store_, ref_)) return tl::unexpected(remote.error());
    if (remote && *remote != nullptr && (*remote)->is_served_as_received())
      return is_part ? (*remote)->source()->prefetch(range) : verify(**remote);
    if (!DownloadScope::is_active()) return Source::prefetch(range);
    if (is_part || size_ == 0) return {};
    TRY_VOID(DownloadScope::charge(size_));
    std::byte last;
    return read(size_ - 1, std::span(&last, 1)).map([](size_t) {});
  }
  // Also those in a store of another program, if it is known to match.
  Result<CachedBytes> cached(ByteRange range) const override {
    range.to = std::min(range.to, size_);
    const uint64_t all = range.to - std::min(range.from, range.to);
    if (find_cached()) return CachedBytes{all, store_->stats().is_downloaded(ref_.digest) ? 0 : all};
    if (const Download* const ranges = ranges_in_use()) return ranges->source()->cached(range);
    if (find_verified_copy()) return CachedBytes{all, all};
    const auto remote = this->remote();
    if (!remote && !weightfs::blobs::is_local(*store_, ref_)) return tl::unexpected(remote.error());
    if (!remote || *remote == nullptr) return CachedBytes{};
    if (!(*remote)->is_served_as_received() && !needs_download()) return CachedBytes{};
    return (*remote)->source()->cached(range);
  }
  // A verified copy; without a search that would hash a file.
  Result<Descriptor> open_whole_file() const override {
    TRY_VOID(check_consistent());
    const store::BlobHandle handle = find_cached();
    const std::optional<LocalCopy> external = handle ? std::nullopt : find_verified_copy();
    if (!handle && !external) return failure(NoPassthrough::not_verified);
    Descriptor file = TRY(handle ? handle.range->open_whole_file() : weightfs::open_whole_file(*external->bytes));
    TRY_VOID(check_served_copy());
    store_->stats().record_local(ref_.digest, size_, handle ? "cache" : external->origin);
    return file;
  }
  // An open file keeps reading the same cached file, even after eviction.
  std::shared_ptr<const void> keep_cached() const override {
    const std::scoped_lock lock(mutex_);
    ++holders_;
    const auto let_go = [self = shared_from_this()](const void*) {
      store::FileRangePtr last;  // closed without the lock
      const std::scoped_lock letting_go(self->mutex_);
      if (--self->holders_ == 0) last = std::move(self->held_);
    };
    return {static_cast<const void*>(this), let_go};
  }

 private:
  // The part of `out` for which there are bytes.
  std::span<std::byte> inside(uint64_t offset, std::span<std::byte> out) const {
    return out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - std::min(size_, offset))));
  }

  Result<size_t> read_served(uint64_t offset, std::span<std::byte> out,
                             const std::optional<ByteRange>& expected) const {
    if (!out.empty()) TRY_VOID(fill_served(offset, out, expected));
    return out.size();
  }

  // With bytes that the store serves, which depends on its settings. While ranges are in use, no other copy is searched
  // at each read.
  Result<void> fill_served(uint64_t offset, std::span<std::byte> out, const std::optional<ByteRange>& expected) const {
    TRY_VOID(check_consistent());
    if (Download* const ranges = ranges_in_use()) {
      if (!fill_from_open(offset, out)) return read_range(*ranges, offset, out, expected);
      return check_served_copy();
    }
    if (TRY(fill_from_local(offset, out))) return check_served_copy();
    const DownloadPtr remote = TRY(needed_remote());
    if (remote->is_served_as_received()) return read_range(*remote, offset, out, expected);
    TRY_VOID(fill_verified(*remote, offset, out));
    return check_unverified_reads();
  }

  // ---- the blob on its servers

  // Null if nothing can be downloaded, and no ranges are cached. Fails if the server of a blob that is read by ranges
  // does not respond: a later read must not wait for a whole download. If it has other origins, they are asked for all
  // of it meanwhile.
  Result<DownloadPtr> remote() const {
    auto opened = remote_.get();
    if (opened) in_use_ = opened->get();
    if (opened || !may_pass(opened.error()) || origins_.size() == 1) return opened;
    if (!is_fetchable(*store_, origins_)) return nullptr;
    return live_->download(ref_, size_, origins_);
  }

  Result<DownloadPtr> needed_remote() const {
    auto remote = TRY(this->remote());
    if (remote == nullptr) return tl::unexpected(not_available(*store_, ref_, {Code::not_found, ""}));
    if (!remote->is_served_as_received()) store_->stats().record_miss(ref_.digest);
    return remote;
  }

  // The ranges of a large blob on a server of the user; the whole blob if a mirror has it, whose bytes must be verified
  // first; if the server sends no ranges; or if it has a file of another size.
  Result<DownloadPtr> open_remote() const {
    if (may_be_ranged(*store_, size_, origins_)) {
      auto file = open_ranged_file(*store_, ref_, size_, origins_);
      if (file && *file != nullptr) return open_ranges(std::move(*file));
      if (!file && may_pass(file.error())) return tl::unexpected(file.error());
    }
    if (!is_fetchable(*store_, origins_) && !has_blocks_offline(*store_, ref_, size_, origins_)) return nullptr;
    return live_->download(ref_, size_, origins_);
  }

  DownloadPtr open_ranges(download::RemoteFilePtr file) const {
    store_->stats().record_miss(ref_.digest);
    const auto identity = download::identity_of(file->url(), file->version(), ref_.digest, ref_.block_list);
    const auto ranges = std::make_shared<const RemoteSource>(std::move(file), store_, identity, name_, ref_.block_list);
    // Under a key of its own: the bytes of one blob may not match, and those of another one may.
    live_->share_remote(fmt::format("{} at {}", ranges->remote().url(), static_cast<const void*>(ranges.get())),
                        ranges);
    return std::make_shared<Download>(store_, ref_, ranges);
  }

  // Null until its ranges are in use.
  Download* ranges_in_use() const {
    Download* const remote = in_use_;
    return remote != nullptr && remote->is_served_as_received() ? remote : nullptr;
  }

  // Without a block list, the bytes are as trustworthy as the connection. Once all are cached, their digest is
  // compared; a read after which a reader may have all of them waits for that.
  Result<void> read_range(Download& remote, uint64_t offset, std::span<std::byte> out,
                          const std::optional<ByteRange>& expected) const {
    const RemoteSource& ranges = *remote.source();
    for (int attempts = 0; attempts < kMaxAttempts; ++attempts) {
      const uint64_t generation = ranges.generation();
      const auto read = expected ? ranges.read_ahead(offset, out, *expected) : ranges.read(offset, out);
      if (!read && ranges.is_refused()) return set_mismatch(ranges, read.error());
      // A copy may have appeared since, or the blob in the cache.
      if (!read && fill_from_local(offset, out).value_or(false)) return check_served_copy();
      if (!read && read.error().code == Code::corrupt) forget_version(*store_, ref_, size_, origins_);
      TRY(read);
      if (has_served_copy_ && has_served_copy_.exchange(false)) ranges.set_served_verified();
      if (ranges.awaits_comparison()) {
        const auto matched = remote.wait_for_match();
        if (!matched && ranges.is_refused()) return set_mismatch(ranges, matched.error());
        TRY_VOID(matched);
      } else if (ranges.begin_serving(generation)) {
        std::ignore =
            exceptions_to_errors([&]() -> Result<void> { return remote.verify_if_complete(), Result<void>(); });
        return {};
      }
    }
    return failure(Code::io, fmt::format("{}: its blocks are dropped before they are compared", ref_.name));
  }

  // For listings of the cache.
  void add_names() const {
    std::vector<Name> names;
    const download::Origin* const server = server_in(origins_);
    if (server != nullptr) names.push_back({NameKind::url, http::printable_url(server->url)});
    store_->names().add(ref_.digest, std::move(names));
  }

  // Publishes the blob; if the digest differs, all blocks are dropped, and reads fail from then on.
  Result<void> verify(Download& remote) const {
    if (!remote.is_running() && find_cached()) {
      store_->stats().record_local(ref_.digest, size_, "cache");
      return {};
    }
    const auto verified = remote.wait();
    if (verified) add_names();
    if (verified || !remote.source()->is_refused()) return verified.map([](const auto&) {});
    return set_mismatch(*remote.source(), verified.error());
  }

  tl::unexpected<Error> set_mismatch(const RemoteSource& ranges, const Error& error) const {
    Error mismatch{Code::mismatch, fmt::format("{}: the ranges from {} do not match: {}", ref_.name,
                                               ranges.remote().printable(), error.message)};
    const std::scoped_lock lock(mutex_);
    mismatch_ = mismatch;
    return tl::unexpected(std::move(mismatch));
  }

  Result<void> fill_unverified(uint64_t offset, std::span<std::byte> out, Earlier earlier) const {
    if (fill_from_cache(offset, out)) return {};
    if (const auto found = copy_.peek(); found && !found->is_cached) return read_exact(*found->bytes, offset, out);
    const auto copies = find_local_copies(*store_, ref_).found;
    const auto fits = std::find_if(copies.begin(), copies.end(), [&](const LocalCopy& each) {
      return each.bytes->size() == size_ && may_match(*store_, each, ref_.digest);
    });
    if (fits == copies.end()) {
      if (TRY(fill_from_local(offset, out))) return {};
      const DownloadPtr remote = TRY(needed_remote());
      if (remote->is_served_as_received()) {
        TRY(remote->source()->read(offset, out));
        unverified_reads_.record(offset, out);
        return {};
      }
      if (earlier == Earlier::verified && remote->source()->has_earlier_bytes())
        return fill_verified(*remote, offset, out);
      return fill_before_verification(*remote->source(), offset, out);
    }
    TRY_VOID(read_exact(*fits->bytes, offset, out));
    unverified_reads_.record(offset, out);
    return {};
  }

  bool needs_download() const {
    return is_fetchable(*store_, origins_) && !find_cached() && find_local_copies(*store_, ref_).found.empty();
  }

  store::BlobHandle find_cached() const {
    store::BlobHandle handle = store_->backend().find_open(name_);
    if (!handle) handle = held();
    if (!handle) handle = store_->backend().find(name_, size_);
    return handle;
  }

  // A copy outside of the cache that is verified, or can be at once.
  std::optional<LocalCopy> find_verified_copy() const {
    if (!copy_.peek()) {
      const auto copies = find_local_copies(*store_, ref_).found;
      if (copies.empty() || !is_known_to_match(*store_, copies.front(), ref_.digest)) return std::nullopt;
    }
    const auto found = copy_.get();
    if (!found || found->is_cached || found->bytes->size() != size_) return std::nullopt;
    return *found;
  }

  bool fill_from_cache(uint64_t offset, std::span<std::byte> out) const {
    return fill_from(find_cached(), offset, out);
  }
  // If the blob is open already.
  bool fill_from_open(uint64_t offset, std::span<std::byte> out) const {
    return fill_from(store_->backend().find_open(name_), offset, out);
  }
  bool fill_from(const store::BlobHandle& handle, uint64_t offset, std::span<std::byte> out) const {
    if (!handle || !read_exact(*handle.range, offset, out)) return false;
    set_held(handle.range);
    if (!has_names_.exchange(true)) add_names();
    store_->stats().record_local(ref_.digest, size_, "cache");
    return true;
  }

  store::BlobHandle held() const {
    const std::scoped_lock lock(mutex_);
    return {held_, ref_.digest};
  }
  void set_held(store::FileRangePtr range) const {
    const std::scoped_lock lock(mutex_);
    if (holders_ > 0) held_ = std::move(range);
  }

  // False when ranges or a download are necessary.
  Result<bool> fill_from_local(uint64_t offset, std::span<std::byte> out) const {
    for (int changed = 0;; ++changed) {
      const bool is_found = copy_.peek().has_value();
      if (!is_found && fill_from_cache(offset, out)) return true;
      // During a download, do not search for copies at every read.
      if (!is_found && is_downloading()) return false;
      const auto found = copy_.get();
      if (!found) {
        TRY_VOID(store_->check_open());
        if (is_fetchable(*store_, origins_) || remote().value_or(nullptr) != nullptr) return false;
        return tl::unexpected(not_available(*store_, ref_, found.error()));
      }
      if (found->is_cached && fill_from_cache(offset, out)) return true;
      Result<void> done = failure(Code::io, fmt::format("{}: evicted from the cache", ref_.name));
      if (!found->is_cached) done = read_exact(*found->bytes, offset, out);
      if (done) {
        store_->stats().record_local(ref_.digest, size_, found->origin);
        return true;
      }
      // The copy changed: search for another one.
      if (changed > 0) return tl::unexpected(done.error());
      store_->external_stores().invalidate();
      copy_.forget();
    }
  }

  bool is_downloading() const {
    const Download* const remote = in_use_;
    return remote != nullptr && remote->is_running();
  }

  Result<void> fill_verified(Download& download, uint64_t offset, std::span<std::byte> out) const {
    const auto verified = download.wait();
    if (!verified) return tl::unexpected(verified.error());
    if (!*verified) return read_exact(*download.source(), offset, out);  // no version: verified, but not published
    TRY_VOID(read_exact(*verified->range, offset, out));
    if (!has_names_.exchange(true)) add_names();
    set_held(verified->range);
    return {};
  }

  // As the server sends them, for a parser, which may find corrected bytes.
  Result<void> fill_before_verification(const RemoteSource& source, uint64_t offset, std::span<std::byte> out) const {
    source.accept();
    const auto read = source.read(offset, out);
    if (!read && read.error().code == Code::mismatch)
      return failure(with_message(read.error(), fmt::format("{}: {}", ref_.name, read.error().message)));
    TRY(read);
    unverified_reads_.record(offset, out);
    return {};
  }

  Result<void> check_consistent() const {
    const std::scoped_lock lock(mutex_);
    return mismatch_ ? Result<void>(tl::unexpected(*mismatch_)) : Result<void>();
  }

  // After verification, compares all earlier unverified reads; concurrent readers may compare the same ones.
  // A mismatch is set before its read is removed, so it is looked for after the reads.
  Result<void> check_unverified_reads() const {
    for (;;) {
      const auto earlier = unverified_reads_.next();
      TRY_VOID(check_consistent());
      if (!earlier) return {};
      if (!TRY(is_same(*earlier))) {
        const std::scoped_lock lock(mutex_);
        mismatch_ = Error{
            Code::mismatch,
            fmt::format("{}: metadata read before verification does not match the verified file; remount", ref_.name)};
      }
      unverified_reads_.remove(*earlier);
    }
  }

  SourcePtr direct(SourcePtr bytes) const {
    has_served_copy_ = true;
    return std::make_shared<DirectBlob>(std::move(bytes), shared_from_this());
  }

  // Before a reader gets bytes of a verified copy, which may be evicted or removed before it has all.
  Result<void> check_served_copy() const {
    if (!has_served_copy_) has_served_copy_ = true;
    return check_unverified_reads();
  }

  Result<bool> is_same(const UnverifiedReads::Read& earlier) const {
    std::string bytes(earlier.size, '\0');
    if (!TRY(fill_from_local(earlier.offset, std::as_writable_bytes(std::span(bytes))))) {
      const DownloadPtr remote = TRY(needed_remote());
      TRY_VOID(fill_verified(*remote, earlier.offset, std::as_writable_bytes(std::span(bytes))));
    }
    return sha256(bytes) == earlier.digest;
  }

  const LiveBlobsPtr live_;
  const std::shared_ptr<StoreCore> store_;
  BlobRef ref_;
  uint64_t size_;
  std::vector<download::Origin> origins_;
  store::BlobName name_;
  Later<DownloadPtr> remote_;
  Later<LocalCopy> copy_;
  mutable std::atomic<Download*> in_use_ = nullptr;  // that of remote_, once it is open
  mutable std::atomic<bool> has_names_ = false;
  mutable std::atomic<bool> has_served_copy_ = false;  // since ranges were served
  mutable UnverifiedReads unverified_reads_;
  mutable std::mutex mutex_;  // guards the rest
  mutable std::optional<Error> mismatch_;
  mutable size_t holders_ = 0;
  mutable store::FileRangePtr held_;  // set while there are holders
};

// Ranges are served without waiting. A header that the same server sent before costs no request, and no download of
// all; one of another server is verified first.
SourcePtr DigestBlob::unverified() const {
  if (size_ <= kSmallFile || may_be_ranged(*store_, size_, origins_)) return nullptr;
  Earlier earlier = Earlier::verified;
  if (is_header_of_server(*store_, ref_, origins_))
    earlier = Earlier::used;
  else if (const auto remote = this->remote(); remote && *remote && !(*remote)->source()->has_earlier_bytes())
    save_server_of_header(*store_, ref_, origins_);
  return std::make_shared<UnverifiedSource<DigestBlob>>(shared_from_this(), earlier);
}

}  // namespace

ResolvedBlob digest_blob(LiveBlobsPtr live, const BlobRef& ref, uint64_t size, std::vector<download::Origin> origins) {
  const auto blob = std::make_shared<const DigestBlob>(std::move(live), ref, size, std::move(origins));
  return {blob, std::make_shared<UnverifiedSource<DigestBlob>>(blob, Earlier::verified)};
}

}  // namespace weightfs::blobs
