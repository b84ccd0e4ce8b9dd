#include "cache/blobs/digest_blob.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <thread>

#include "base/cancel.h"
#include "base/download_scope.h"
#include "base/files/no_passthrough.h"
#include "base/text.h"
#include "cache/blobs/direct_blob.h"
#include "cache/blobs/download.h"
#include "cache/blobs/local_copies.h"
#include "cache/blobs/remote_source.h"
#include "cache/blobs/saved_texts.h"
#include "cache/download/mirror_scheduler.h"

namespace weightfs::blobs {
namespace {

using StoreCorePtr = std::shared_ptr<StoreCore>;
using Clock = std::chrono::steady_clock;

bool is_fetchable(const StoreCore& store, const std::vector<download::Origin>& origins) {
  return store.fetching().http != nullptr && !origins.empty();
}

// The first origin that is not a mirror; null if there is none.
const download::Origin* server_in(const std::vector<download::Origin>& origins) {
  const auto found = std::ranges::find(origins, false, &download::Origin::is_mirror);
  return found == origins.end() ? nullptr : &*found;
}

// Whether a blob is read by ranges, if its server sends any.
bool may_be_ranged(const StoreCore& store, const BlobRef& ref, uint64_t size,
                   const std::vector<download::Origin>& origins) {
  const FetchSettings& fetching = store.fetching();
  const download::Origin* const server = server_in(origins);
  const bool is_streamed = fetching.stream && ref.block_list == nullptr;
  return size > kMaxVerifiedFirst && !fetching.verify_whole && !is_streamed && server != nullptr &&
         server->trust == http::Trust::user;
}

// Whether ranges of a blob may be cached, although nothing can be downloaded: the version on its server is known.
bool has_known_ranges(StoreCore& store, const BlobRef& ref, const std::vector<download::Origin>& origins) {
  return ref.size && may_be_ranged(store, ref, *ref.size, origins) &&
         open_remote_file(store, *server_in(origins), ref.name, ref.size).has_value();
}

// The error when nothing can be downloaded; `reason` says why there is no local copy.
Error not_available(StoreCore& store, const BlobRef& ref, const Error& reason) {
  if (reason.code != Code::not_found) return reason;
  const bool offline = store.fetching().http == nullptr;
  return {offline ? Code::network : Code::not_found,
          fmt::format("{}: not cached, and {}", ref.name,
                      offline ? "downloads are disabled by --offline" : "the container has no URL for it")};
}

class DigestBlob final : public Source, public std::enable_shared_from_this<DigestBlob> {
 public:
  DigestBlob(StoreCorePtr store, BlobRef ref, uint64_t size, std::vector<download::Origin> origins)
      : store_(std::move(store)),
        ref_(std::move(ref)),
        size_(size),
        origins_(std::move(origins)),
        name_(StoreCore::name_of(ref_.digest, size)),
        ranges_([this] { return open_ranges(); }),
        download_([this] { return store_->download(ref_, size_, origins_); }),
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
    if (const auto ranges = ranges_.peek(); ranges && *ranges != nullptr) return (*ranges)->verification();
    return is_streamed() ? VerifiedBy::unpinned : VerifiedBy::unknown;
  }
  SourcePtr direct() const override {
    if (!check_consistent() || has_read_before_verification()) return nullptr;
    if (const store::BlobHandle handle = store_->backend().find_open(name_))
      return std::make_shared<DirectBlob>(handle.range, shared_from_this());
    const auto external = copy_.peek();
    if (!external || external->is_cached || external->bytes->size() != size_) return nullptr;
    return std::make_shared<DirectBlob>(external->bytes, shared_from_this());
  }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return read_served(offset, inside(offset, out), {});
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return read_served(offset, inside(offset, out), expected);
  }
  // Also accepts unverified bytes: of the first local copy, or of the running download.
  Result<size_t> read_unverified(uint64_t offset, std::span<std::byte> out) const {
    out = inside(offset, out);
    if (!out.empty()) TRY_VOID(fill_unverified(offset, out));
    return out.size();
  }
  // Downloads only the ranges of a part; the whole blob is downloaded and verified.
  Result<void> fetch(ByteRange range) const override {
    const bool is_part = range.from > 0 || range.to < size_;
    if (is_part && find_cached()) return {};
    if (DownloadScope::is_active() && !needs_download()) return {};
    const auto ranges = this->ranges();
    if (ranges && *ranges != nullptr) return is_part ? (*ranges)->fetch(range) : verify(*ranges);
    if (!ranges && !weightfs::blobs::is_local(*store_, ref_)) return tl::unexpected(ranges.error());
    if (!DownloadScope::is_active()) return Source::fetch(range);
    if (is_part || size_ == 0) return {};
    TRY_VOID(DownloadScope::charge(size_));
    std::byte last;
    TRY(read(size_ - 1, std::span(&last, 1)));
    return {};
  }
  // Also those in a store of another program, if it is known to match.
  Result<CachedBytes> cached(ByteRange range) const override {
    range.to = std::min(range.to, size_);
    const uint64_t all = range.to - std::min(range.from, range.to);
    if (find_cached()) return CachedBytes{all, store_->stats().is_downloaded(ref_.digest) ? 0 : all};
    if (const auto open = ranges_.peek(); open && *open != nullptr) return (*open)->cached(range);
    if (find_verified_copy()) return CachedBytes{all, all};
    const auto ranges = this->ranges();
    if (ranges && *ranges != nullptr) return (*ranges)->cached(range);
    if (!ranges && !weightfs::blobs::is_local(*store_, ref_)) return tl::unexpected(ranges.error());
    if (!needs_download()) return CachedBytes{};
    return TRY(download_.get())->source()->cached(range);
  }
  // A verified copy; without a search that would hash a file.
  Result<Descriptor> open_whole_file() const override {
    TRY_VOID(check_consistent());
    const store::BlobHandle handle = find_cached();
    const std::optional<LocalCopy> external = handle ? std::nullopt : find_verified_copy();
    if (!handle && !external) return failure(NoPassthrough::not_verified);
    Descriptor file = TRY(handle ? handle.range->open_whole_file() : external->bytes->open_whole_file());
    TRY_VOID(check_unverified_reads());
    store_->stats().record_local(ref_.digest, size_, handle ? "cache" : external->origin);
    return file;
  }
  // An open file keeps reading the same cached file, even after eviction.
  std::shared_ptr<const void> hold() const override {
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
  // Bytes returned before verification.
  struct UnverifiedRead {
    uint64_t offset;
    size_t size;
    Digest digest;
    std::optional<uint64_t> generation = {};  // of the download they came from
  };

  // The part of `out` for which there are bytes.
  std::span<std::byte> inside(uint64_t offset, std::span<std::byte> out) const {
    return out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - std::min(size_, offset))));
  }

  Result<size_t> read_served(uint64_t offset, std::span<std::byte> out,
                             const std::optional<ByteRange>& expected) const {
    if (!out.empty()) TRY_VOID(fill_served(offset, out, expected));
    return out.size();
  }

  // With bytes that the store serves, which depends on its settings.
  Result<void> fill_served(uint64_t offset, std::span<std::byte> out, const std::optional<ByteRange>& expected) const {
    TRY_VOID(check_consistent());
    if (TRY(fill_from_local(offset, out))) return check_unverified_reads();
    if (const auto ranges = TRY(this->ranges())) return read_range(ranges, offset, out, expected);
    const DownloadPtr download = TRY(needed_download());
    const bool has_last_byte = offset + out.size() == size_;
    if (store_->fetching().stream && !has_last_byte && is_same_stream(*download)) {
      download->source()->set_served_unverified();
      download->start(has_read_before_verification());
      return fill_before_verification(*download, offset, out);
    }
    TRY_VOID(fill_verified(*download, offset, out));
    return check_unverified_reads();
  }

  // ---- reading by ranges

  // The ranges of a large blob on a server of the user; null if it is downloaded as a whole: a mirror has it, whose
  // bytes must be verified first; the server sends no ranges, or has a file of another size.
  // Fails if its server does not respond and no other one has the blob: a later read must not wait for a whole
  // download.
  Result<RemoteSourcePtr> ranges() const {
    if (!may_be_ranged(*store_, ref_, size_, origins_)) return nullptr;
    auto opened = ranges_.get();
    if (opened || (may_pass(opened.error()) && origins_.size() == 1)) return opened;
    return nullptr;
  }

  // Whether a mirror has a file of this size.
  bool has_mirror_copy() const {
    std::vector<download::Origin> mirrors = origins_;
    std::erase_if(mirrors, [](const download::Origin& origin) { return !origin.is_mirror; });
    if (mirrors.empty() || store_->fetching().http == nullptr) return false;
    download::RetryPolicy once = store_->fetching().options;
    once.retries = 0;
    once.waits_for_network = false;
    download::RemoteFile file(store_->fetching().http, ref_.name, std::move(mirrors), std::nullopt, once);
    const auto reported = file.query_size(store_->stop_token());
    return reported.has_value() && *reported == size_;
  }

  // The file on its server when that has begun to send ranges; null after FetchSettings::wait_for_ranges.
  Result<download::RemoteFilePtr> wait_for_ranges() const {
    const auto until = std::chrono::steady_clock::now() + store_->fetching().wait_for_ranges;
    download::RetryPolicy policy = store_->fetching().options;
    policy.retries = std::numeric_limits<int>::max();
    for (download::Backoff backoff(policy, *store_->fetching().http);;) {
      const auto pause = TRY(backoff.pause({Code::resource, "no ranges"}, {}));
      if (std::chrono::steady_clock::now() + pause >= until) return nullptr;
      if (!download::interruptible_sleep(pause, store_->stop_token())) return failure(Code::resource, "cancelled");
      auto remote = TRY(open_remote_file(*store_, *server_in(origins_), ref_.name, size_));
      if (remote->has_ranges() != false) return remote;
    }
  }

  Result<RemoteSourcePtr> open_ranges() const {
    if (has_mirror_copy()) return nullptr;
    // Ranges come from one server: another one may have other bytes, and the digest verifies only all of them.
    auto remote = TRY(open_remote_file(*store_, *server_in(origins_), ref_.name, size_));
    if (remote->has_ranges() == false) remote = TRY(wait_for_ranges());
    if (remote == nullptr) return nullptr;
    store_->stats().record_miss(ref_.digest);
    const auto identity = RemoteSource::identity_of(remote->url(), remote->version(), ref_.digest, ref_.block_list);
    const auto ranges =
        std::make_shared<const RemoteSource>(std::move(remote), store_, identity, name_, ref_.block_list);
    ranges->set_served_unverified();
    // Under a key of its own: the bytes of one blob may not match, and those of another one may.
    return store_->share_remote(fmt::format("{} at {}", ranges->remote().url(), static_cast<const void*>(ranges.get())),
                                ranges);
  }

  // Without a block list, the bytes are as trustworthy as the connection. Once all are cached, their digest is
  // compared.
  Result<void> read_range(const RemoteSourcePtr& ranges, uint64_t offset, std::span<std::byte> out,
                          const std::optional<ByteRange>& expected) const {
    const auto read = expected ? ranges->read_ahead(offset, out, *expected) : ranges->read(offset, out);
    if (!read && ranges->is_refused()) return set_mismatch(*ranges, read.error());
    TRY(read);
    if (!ranges->is_complete()) return {};
    std::ignore = exceptions_to_errors([&] { return start_verifier(ranges); });  // a later read tries again
    return {};
  }

  // Unless it runs, or has failed just before: a full disk, or another process that is still writing.
  Result<void> start_verifier(const RemoteSourcePtr& ranges) const {
    const std::scoped_lock lock(mutex_);
    if (Clock::now() < next_verification_ || verified_ == ranges->generation()) return {};
    verifier_ = std::jthread([this, ranges](const std::stop_token& stop) {
      const CancelScope scope([&] { return stop.stop_requested(); });
      const uint64_t generation = ranges->generation();
      const auto verified = exceptions_to_errors([&] { return verify(ranges); });
      const std::scoped_lock ending(mutex_);
      if (verified) verified_ = generation;
      next_verification_ = Clock::now() + store_->times().next_verification;
    });
    next_verification_ = Clock::time_point::max();
    return {};
  }

  // For listings of the cache.
  void add_names() const {
    std::vector<Name> names;
    const download::Origin* const server = server_in(origins_);
    if (server != nullptr) names.push_back({NameKind::url, http::printable_url(server->url)});
    store_->add_names(ref_.digest, std::move(names));
  }

  // Publishes the blob; if the digest differs, all blocks are dropped, and reads fail from then on.
  Result<void> verify(const RemoteSourcePtr& ranges) const {
    if (find_cached()) {
      store_->stats().record_local(ref_.digest, size_, "cache");
      return {};
    }
    const auto verified = ranges->verify();
    if (verified) {
      store_->stats().record_download(ref_.digest, size_, ranges->remote().printable());
      add_names();
      store_->enable_verity(ref_.digest);
    }
    if (verified || !ranges->is_refused()) return verified.map([](const auto&) {});
    return set_mismatch(*ranges, verified.error());
  }

  tl::unexpected<Error> set_mismatch(const RemoteSource& ranges, const Error& error) const {
    Error mismatch{Code::mismatch, fmt::format("{}: the ranges from {} do not match: {}", ref_.name,
                                               ranges.remote().printable(), error.message)};
    const std::scoped_lock lock(mutex_);
    mismatch_ = mismatch;
    return tl::unexpected(std::move(mismatch));
  }

  Result<void> fill_unverified(uint64_t offset, std::span<std::byte> out) const {
    if (fill_from_cache(offset, out)) return {};
    if (const auto found = copy_.peek(); found && !found->is_cached) return read_exact(*found->bytes, offset, out);
    const auto copies = find_local_copies(*store_, ref_).found;
    const auto fits = std::find_if(copies.begin(), copies.end(), [&](const LocalCopy& each) {
      return each.bytes->size() == size_ && may_match(*store_, each, ref_.digest);
    });
    if (fits == copies.end()) {
      if (TRY(fill_from_local(offset, out))) return {};
      if (const auto ranges = TRY(this->ranges())) {
        TRY(ranges->read(offset, out));
        record_unverified_read(offset, out);
        return {};
      }
      const DownloadPtr download = TRY(needed_download());
      // What an earlier process received may be wrong, and the server correct by now.
      if (download->source()->has_earlier_bytes()) return fill_verified(*download, offset, out);
      return fill_before_verification(*download, offset, out);
    }
    TRY_VOID(read_exact(*fits->bytes, offset, out));
    record_unverified_read(offset, out);
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
    const store::BlobHandle handle = find_cached();
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
      if (!is_found && is_fetchable(*store_, origins_) && is_downloading()) return false;
      const auto found = copy_.get();
      if (!found) {
        TRY_VOID(store_->check_open());
        if (is_fetchable(*store_, origins_) || ranges().value_or(nullptr) != nullptr) return false;
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

  bool is_streamed() const { return store_->fetching().stream && download_.peek(); }
  bool is_downloading() const {
    const auto download = download_.peek();
    return download && (*download)->is_running();
  }

  Result<DownloadPtr> needed_download() const {
    if (!is_fetchable(*store_, origins_)) return tl::unexpected(not_available(*store_, ref_, {Code::not_found, ""}));
    store_->stats().record_miss(ref_.digest);
    return download_.get();
  }

  Result<void> fill_verified(Download& download, uint64_t offset, std::span<std::byte> out) const {
    const auto verified = download.wait();
    if (!verified) return refused(verified.error());
    TRY_VOID(read_exact(*verified->range, offset, out));
    if (!has_names_.exchange(true)) add_names();
    set_held(verified->range);
    return {};
  }

  // If wrong bytes were served with --stream, reads fail from now on: they are not mixed with correct ones.
  tl::unexpected<Error> refused(const Error& error) const {
    const std::scoped_lock lock(mutex_);
    if (store_->fetching().stream && is_about_the_bytes(error) && !unverified_reads_.empty()) mismatch_ = error;
    return tl::unexpected(error);
  }

  // As the server sends them.
  Result<void> fill_before_verification(Download& download, uint64_t offset, std::span<std::byte> out) const {
    const RemoteSource& source = *download.source();
    const bool in_order = store_->fetching().stream;
    if (!in_order) source.accept();                                      // a parser may find corrected bytes
    const uint64_t before = std::max<uint64_t>(source.generation(), 1);  // 0 before the blocks are first opened
    const auto read = in_order ? source.read_ahead(offset, out, {0, size_}) : source.read(offset, out);
    if (!read) {
      const Error& error = read.error();
      if (error.code != Code::mismatch) return failure(error);
      return refused(with_message(error, fmt::format("{}: {}", ref_.name, error.message)));
    }
    const bool is_of_one = before == source.generation();
    record_unverified_read(offset, out, is_of_one ? std::optional(before) : std::nullopt);
    return {};
  }

  bool has_read_before_verification() const {
    const std::scoped_lock lock(mutex_);
    return !unverified_reads_.empty();
  }

  // Whether the bytes that were streamed before are those of the running download.
  bool is_same_stream(const Download& download) const {
    const std::scoped_lock lock(mutex_);
    return unverified_reads_.empty() || unverified_reads_.back().generation == download.source()->generation();
  }

  void record_unverified_read(uint64_t offset, std::span<const std::byte> out,
                              std::optional<uint64_t> generation = {}) const {
    Sha256 hash;
    hash.update(out);
    const std::scoped_lock lock(mutex_);
    unverified_reads_.push_back({offset, out.size(), hash.finish(), generation});
  }

  Result<void> check_consistent() const {
    const std::scoped_lock lock(mutex_);
    if (mismatch_) return tl::unexpected(*mismatch_);
    return {};
  }

  // After verification, compares all earlier unverified reads; concurrent readers may compare the same ones.
  Result<void> check_unverified_reads() const {
    for (;;) {
      UnverifiedRead earlier;
      {
        const std::scoped_lock lock(mutex_);
        if (mismatch_) return tl::unexpected(*mismatch_);
        if (unverified_reads_.empty()) return {};
        earlier = unverified_reads_.back();
      }
      const uint64_t generation = verified_generation();
      const bool was_verified = generation > 0 && earlier.generation == generation;
      const bool same = was_verified || TRY(is_same(earlier));
      const std::scoped_lock lock(mutex_);
      if (!same)
        mismatch_ = Error{
            Code::mismatch,
            fmt::format("{}: metadata read before verification does not match the verified file; remount", ref_.name)};
      std::erase_if(unverified_reads_, [&](const UnverifiedRead& each) {
        return was_verified
                   ? each.generation == generation
                   : each.offset == earlier.offset && each.size == earlier.size && each.digest == earlier.digest;
      });
    }
  }

  uint64_t verified_generation() const {
    const auto download = download_.peek();
    return download ? (*download)->source()->verified_generation() : 0;
  }

  Result<bool> is_same(const UnverifiedRead& earlier) const {
    std::vector<std::byte> bytes(earlier.size);
    if (!TRY(fill_from_local(earlier.offset, bytes))) {
      const DownloadPtr download = TRY(needed_download());
      TRY_VOID(fill_verified(*download, earlier.offset, bytes));
    }
    Sha256 hash;
    hash.update(bytes);
    return hash.finish() == earlier.digest;
  }

  StoreCorePtr store_;
  BlobRef ref_;
  uint64_t size_;
  std::vector<download::Origin> origins_;
  store::BlobName name_;
  Later<RemoteSourcePtr> ranges_;
  Later<DownloadPtr> download_;
  Later<LocalCopy> copy_;
  mutable std::atomic<bool> has_names_ = false;
  mutable std::mutex mutex_;  // guards the rest
  mutable std::vector<UnverifiedRead> unverified_reads_;
  mutable std::optional<Error> mismatch_;
  mutable size_t holders_ = 0;
  mutable store::FileRangePtr held_;             // set while there are holders
  mutable Clock::time_point next_verification_;  // of complete ranges; max() while it runs
  mutable uint64_t verified_ = 0;                // their generation; a blob without a strong ETag is not published
  mutable std::jthread verifier_;                // ends before the others are destroyed
};

class UnverifiedSource final : public Source {
 public:
  explicit UnverifiedSource(std::shared_ptr<const DigestBlob> blob) : blob_(std::move(blob)) {}
  uint64_t size() const override { return blob_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return blob_->read_unverified(offset, out);
  }
  std::string identity() const override { return blob_->identity(); }

 private:
  std::shared_ptr<const DigestBlob> blob_;
};

store::BlobHandle cached_blob(StoreCore& store, const BlobRef& ref) {
  return store.backend().find(StoreCore::name_of(ref.digest, ref.size), ref.size);
}

// The size of a blob that must be downloaded: as reported by servers, or measured.
Result<uint64_t> fetched_size(StoreCore& store, const BlobRef& ref, const std::vector<download::Origin>& origins) {
  const store::BlobName name = StoreCore::name_of(ref.digest, std::nullopt);
  const bool wants_size_only = SizeQuery::is_active();
  const std::string server = http::origin_of(origins.front().url);
  if (wants_size_only && store.is_too_large_for_size(name)) return tl::unexpected(too_large_for_size(ref.name));
  download::RemoteFile remote(store.fetching().http, ref.name, origins, std::nullopt, store.fetching().options);
  if (const auto reported = TRY(remote.query_size(store.stop_token()))) return *reported;
  if (wants_size_only && store.has_too_large_blobs(server)) return tl::unexpected(too_large_for_size(ref.name));
  store.stats().record_miss(ref.digest);
  const DownloadPtr download = store.download(ref, std::nullopt, origins);
  for (;;) {
    if (!wants_size_only) download->allow_any_size();
    const auto verified = download->wait();
    if (verified) return verified->range->size();
    if (download->is_too_large() && !wants_size_only && !is_cancelled()) continue;  // started to measure the size
    if (download->is_too_large()) store.set_too_large_for_size(name, server);
    return tl::unexpected(verified.error());
  }
}

Result<uint64_t> size_of(StoreCore& store, const BlobRef& ref, const std::vector<download::Origin>& origins) {
  if (ref.size) return *ref.size;
  if (const store::BlobHandle handle = cached_blob(store, ref)) return handle.range->size();
  const auto copy = verified_copy(store, ref);
  if (copy) return copy->bytes->size();
  if (is_fetchable(store, origins)) return fetched_size(store, ref, origins);
  return tl::unexpected(not_available(store, ref, copy.error()));
}

}  // namespace

Result<ResolvedBlob> resolve_blob(const StoreCorePtr& store, const BlobRef& ref,
                                  std::vector<download::Origin> origins) {
  for (const std::string& url : ref.urls) origins.push_back({url, http::Trust::container});
  const std::string hex = ref.digest.hex();
  for (const std::string& cache : store->fetching().cache_mirrors)
    origins.insert(origins.begin(), {.url = fmt::format("{}/{}/{}", cache, hex.substr(0, 2), hex), .is_mirror = true});
  store->stats().add(ref, ref.size);
  if (!is_fetchable(*store, origins) && !cached_blob(*store, ref) && !has_known_ranges(*store, ref, origins)) {
    const LocalCopies copies = find_local_copies(*store, ref);
    if (copies.found.empty())
      return tl::unexpected(not_available(*store, ref, copies.mismatch.value_or(Error{Code::not_found, ""})));
  }
  const auto size = size_of(*store, ref, origins);
  if (!size) {
    if (!is_cancelled()) store->stats().record_failure(ref.digest, size.error());
    return tl::unexpected(size.error());
  }
  store->stats().add(ref, *size);
  const auto blob = std::make_shared<const DigestBlob>(store, ref, *size, std::move(origins));
  return ResolvedBlob{blob, std::make_shared<UnverifiedSource>(blob)};
}

bool is_local(StoreCore& store, const BlobRef& ref) {
  return cached_blob(store, ref) || !find_local_copies(store, ref).found.empty();
}

}  // namespace weightfs::blobs
