#include "cache/blobs/digest_blob.h"

#include <fmt/core.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "base/cancel.h"
#include "base/text.h"
#include "cache/blobs/local_copies.h"
#include "cache/blobs/remote_source.h"

namespace weightfs::blobs {
namespace {

using StoreCorePtr = std::shared_ptr<StoreCore>;
using Phase = InFlightBlob::Phase;
using ReadMode = InFlightBlob::ReadMode;

bool is_fetchable(const StoreCore& store, const std::vector<download::Origin>& origins) {
  return store.fetching().http != nullptr && !origins.empty();
}

// The error when nothing can be downloaded; `reason` says why there is no local copy.
Error not_available(StoreCore& store, const BlobRef& ref, const Error& reason) {
  if (reason.code != Code::not_found) return reason;
  const bool offline = store.fetching().http == nullptr;
  return {Code::network,
          fmt::format("{}: not cached, and {}", ref.name,
                      offline ? "downloads are disabled by --offline" : "the container has no URL for it")};
}

// A new download, which tries all origins.
download::FetchPtr new_fetch(const StoreCore& store, const BlobRef& ref, std::optional<uint64_t> size,
                             const std::vector<download::Origin>& origins) {
  return std::make_shared<download::Fetch>(store.fetching().http, ref.name, size, origins, store.fetching().options);
}

// Whether a download started by another reader used other origins, so that its failure means nothing for these.
bool has_other_origins(const download::Fetch& fetch, const std::vector<download::Origin>& origins) {
  const auto same = [](const download::Origin& a, const download::Origin& b) {
    return a.url == b.url && a.credentials == b.credentials;
  };
  return !std::equal(fetch.origins().begin(), fetch.origins().end(), origins.begin(), origins.end(), same);
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
        copy_(search()) {}

  uint64_t size() const override { return size_; }
  std::string identity() const override {
    const bool is_verified =
        copy().peek() || store_->backend().find_open(name_) || store_->backend().find(name_, size_);
    return is_verified ? "sha256 " + ref_.digest.hex() : "";
  }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return read(offset, out, ReadMode::served);
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return read(offset, out, ReadMode::served, expected);
  }
  // Of a part only its ranges; the whole blob is downloaded and verified.
  Result<void> fetch(ByteRange range) const override {
    const bool is_part = range.from > 0 || range.to < size_;
    if (is_part && find_cached()) return {};
    if (const auto ranges = this->ranges()) return is_part ? ranges->fetch(range) : verify(ranges, {});
    return Source::fetch(range);
  }
  // A verified copy; without a search that would hash a file.
  Result<Descriptor> open_whole_file() const override {
    TRY_VOID(check_consistent());
    const store::BlobHandle handle = find_cached();
    const std::optional<LocalCopy> external = handle ? std::nullopt : find_verified_copy();
    if (!handle && !external) return failure(Code::unsupported, "not cached or not verified yet");
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
  Result<size_t> read(uint64_t offset, std::span<std::byte> out, ReadMode mode,
                      const std::optional<ByteRange>& expected = {}) const {
    if (offset >= size_ || out.empty()) return size_t{0};
    const auto target = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - offset)));
    TRY_VOID(mode == ReadMode::served ? read_served(offset, target, expected) : read_unverified(offset, target));
    return target.size();
  }

 private:
  // Bytes returned before verification. `in_flight` is the download they came from, if any.
  struct UnverifiedRead {
    uint64_t offset;
    size_t size;
    Digest digest;
    StoreCore::InFlightBlobPtr in_flight;
  };

  // Whether bytes were verified before they were read.
  enum class Verification { verified, unverified };

  Result<void> read_served(uint64_t offset, std::span<std::byte> out, const std::optional<ByteRange>& expected) const {
    TRY_VOID(check_consistent());
    if (TRY(fill_from_local(offset, out))) return check_unverified_reads();
    if (const auto ranges = this->ranges()) return read_range(ranges, offset, out, expected);
    if (TRY(fill_from_fetch(offset, out, ReadMode::served)) == Verification::verified) return check_unverified_reads();
    return {};
  }

  // ---- reading by ranges

  // Blobs up to this size are verified before their first byte is served.
  static constexpr uint64_t kMaxVerifiedFirst = 8 << 20;

  // The ranges of a large blob on a server of the user; null if it is downloaded as a whole: the server sends no
  // ranges, or has a file of another size.
  RemoteSourcePtr ranges() const {
    const FetchSettings& fetching = store_->fetching();
    const bool may_be_ranged = size_ > kMaxVerifiedFirst && !fetching.verify_whole && !fetching.stream &&
                               is_fetchable(*store_, origins_) && origins_.front().trust == http::Trust::user &&
                               store_->find_in_flight(name_) == nullptr;
    if (!may_be_ranged) return nullptr;
    const auto opened = ranges_.get();
    return opened ? *opened : nullptr;
  }

  Result<RemoteSourcePtr> open_ranges() const {
    const FetchSettings& fetching = store_->fetching();
    auto remote =
        TRY(download::RemoteFile::open(fetching.http, origins_.front(), fetching.options, {}, store_->stop_token()));
    if (!remote->has_ranges() || remote->version().size != size_) return nullptr;
    store_->stats().record_miss(ref_.digest);
    const auto ranges = std::make_shared<const RemoteSource>(std::move(remote), store_);
    store_->add_remote(ranges);
    return ranges;
  }

  // The bytes are as trustworthy as the connection. Once all are cached, their digest is compared.
  Result<void> read_range(const RemoteSourcePtr& ranges, uint64_t offset, std::span<std::byte> out,
                          const std::optional<ByteRange>& expected) const {
    TRY(expected ? ranges->read_ahead(offset, out, *expected) : ranges->read(offset, out));
    if (!ranges->is_complete()) return {};
    const std::scoped_lock lock(mutex_);
    if (!verifier_.joinable())
      verifier_ = std::jthread([this, ranges](const std::stop_token& stop) { std::ignore = verify(ranges, stop); });
    return {};
  }

  // Publishes the blob; if the digest differs, drops all blocks, and reads fail from then on.
  Result<void> verify(const RemoteSourcePtr& ranges, const std::stop_token& stop) const {
    if (find_cached()) return {};
    auto [digest, sums] = TRY(ranges->digest(stop));
    if (digest == ref_.digest) {
      TRY_VOID(ranges->publish(digest, std::move(sums)));
      return {};
    }
    Error mismatch{Code::mismatch, fmt::format("{}: the ranges from {} do not match the digest: SHA-256 is {}",
                                               ref_.name, ranges->remote().printable(), digest.hex())};
    {
      const std::scoped_lock lock(mutex_);
      mismatch_ = mismatch;
    }
    ranges->drop_blocks();
    return tl::unexpected(std::move(mismatch));
  }

  // Also accepts unverified bytes: of the first local copy, or of the running download.
  Result<void> read_unverified(uint64_t offset, std::span<std::byte> out) const {
    if (fill_from_cache(offset, out)) return {};
    if (const auto found = copy().peek(); found && !found->is_cached) return read_exact(*found->bytes, offset, out);
    const auto copies = find_local_copies(*store_, ref_).found;
    const auto fits = std::find_if(copies.begin(), copies.end(), [&](const LocalCopy& each) {
      return each.bytes->size() == size_ && may_match(*store_, each, ref_.digest);
    });
    if (fits == copies.end()) {
      if (TRY(fill_from_local(offset, out))) return {};
      if (const auto ranges = this->ranges()) {
        TRY(ranges->read(offset, out));
        record_unverified_read(offset, out, nullptr);
        return {};
      }
      TRY(fill_from_fetch(offset, out, ReadMode::unverified));
      return {};
    }
    TRY_VOID(read_exact(*fits->bytes, offset, out));
    record_unverified_read(offset, out, nullptr);
    return {};
  }

  store::BlobHandle find_cached() const {
    store::BlobHandle handle = store_->backend().find_open(name_);
    if (!handle) handle = held();
    if (!handle) handle = store_->backend().find(name_, size_);
    return handle;
  }

  // A copy outside of the cache that is verified, or can be at once.
  std::optional<LocalCopy> find_verified_copy() const {
    const Later<LocalCopy> searched = copy();
    if (!searched.peek()) {
      const auto copies = find_local_copies(*store_, ref_).found;
      if (copies.empty() || !is_known_to_match(*store_, copies.front(), ref_.digest)) return std::nullopt;
    }
    const auto found = searched.get();
    if (!found || found->is_cached || found->bytes->size() != size_) return std::nullopt;
    return *found;
  }

  bool fill_from_cache(uint64_t offset, std::span<std::byte> out) const {
    const store::BlobHandle handle = find_cached();
    if (!handle || !handle.range->read(offset, out)) return false;
    set_held(handle.range);
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

  // False when a download is necessary.
  Result<bool> fill_from_local(uint64_t offset, std::span<std::byte> out) const {
    for (int changed = 0;; ++changed) {
      const Later<LocalCopy> searched = copy();
      if (!searched.peek() && fill_from_cache(offset, out)) return true;
      // During a download, do not search for copies at every read.
      if (!searched.peek() && is_fetchable(*store_, origins_) && store_->find_in_flight(name_) != nullptr) return false;
      const auto found = searched.get();
      if (!found) {
        TRY_VOID(store_->check_open());
        if (is_fetchable(*store_, origins_)) return false;
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
      search_again();
    }
  }

  Result<Verification> fill_from_fetch(uint64_t offset, std::span<std::byte> out, ReadMode mode) const {
    if (!is_fetchable(*store_, origins_)) return tl::unexpected(not_available(*store_, ref_, {Code::not_found, ""}));
    store_->stats().record_miss(ref_.digest);
    const InFlightBlob::ScopedRelease release;
    const BlobProducer producer{.name = ref_.name, .size = size_, .digest = ref_.digest};
    for (;;) {
      const auto in_flight = TRY(store_->find_or_start(producer, name_, new_fetch(*store_, ref_, size_, origins_)));
      auto read = in_flight->read(offset, out, mode);
      if (read.phase == Phase::cancelled) continue;
      if (read.result) {
        if (auto range = in_flight->verified_range()) set_held(std::move(range));
        if (read.phase != Phase::producing) return Verification::verified;
        record_unverified_read(offset, out, in_flight);
        return Verification::unverified;
      }
      // The download of another reader may have used other origins.
      if (read.phase == Phase::failed && has_other_origins(*in_flight->fetch(), origins_) && !is_cancelled()) continue;
      return tl::unexpected(failed(read.phase, read.result.error()));
    }
  }

  Error failed(Phase phase, const Error& error) const {
    if (phase == Phase::uncacheable)
      return {Code::io, fmt::format("{}: download cannot be stored: {}; use --no-cache or a larger --cache-size",
                                    ref_.name, error.message)};
    // The file exists in the mount; only its content is missing.
    const Error out{error.code == Code::not_found ? Code::io : error.code, error.message};
    const std::scoped_lock lock(mutex_);
    // Wrong bytes were served with --stream: do not mix them with correct ones.
    if (store_->fetching().stream && is_about_the_bytes(out) && !unverified_reads_.empty()) mismatch_ = out;
    return out;
  }

  void record_unverified_read(uint64_t offset, std::span<const std::byte> out,
                              StoreCore::InFlightBlobPtr in_flight) const {
    Sha256 hash;
    hash.update(out);
    const std::scoped_lock lock(mutex_);
    unverified_reads_.push_back({offset, out.size(), hash.finish(), std::move(in_flight)});
  }

  Result<void> check_consistent() const {
    const std::scoped_lock lock(mutex_);
    if (mismatch_) return tl::unexpected(*mismatch_);
    return {};
  }

  // After verification, compares all earlier unverified reads. Concurrent readers wait.
  Result<void> check_unverified_reads() const {
    const std::scoped_lock comparing(comparing_);
    for (;;) {
      UnverifiedRead earlier;
      {
        const std::scoped_lock lock(mutex_);
        if (mismatch_) return tl::unexpected(*mismatch_);
        if (unverified_reads_.empty()) return {};
        earlier = unverified_reads_.back();
      }
      const bool single_attempt = earlier.in_flight != nullptr && earlier.in_flight->was_single_attempt();
      const bool same = single_attempt || TRY(is_same(earlier));
      const std::scoped_lock lock(mutex_);
      if (!same)
        mismatch_ = Error{
            Code::mismatch,
            fmt::format("{}: metadata read before verification does not match the verified file; remount", ref_.name)};
      std::erase_if(unverified_reads_, [&](const UnverifiedRead& each) {
        return single_attempt
                   ? each.in_flight == earlier.in_flight
                   : each.offset == earlier.offset && each.size == earlier.size && each.digest == earlier.digest;
      });
    }
  }

  Result<bool> is_same(const UnverifiedRead& earlier) const {
    std::vector<std::byte> bytes(earlier.size);
    if (!TRY(fill_from_local(earlier.offset, bytes))) TRY(fill_from_fetch(earlier.offset, bytes, ReadMode::verified));
    Sha256 hash;
    hash.update(bytes);
    return hash.finish() == earlier.digest;
  }

  Later<LocalCopy> search() const {
    return Later<LocalCopy>([store = store_, ref = ref_] { return verified_copy(*store, ref); });
  }
  Later<LocalCopy> copy() const {
    const std::scoped_lock lock(mutex_);
    return copy_;
  }
  void search_again() const {
    store_->external_stores().invalidate();
    Later<LocalCopy> restarted = search();
    const std::scoped_lock lock(mutex_);
    copy_ = std::move(restarted);
  }

  StoreCorePtr store_;
  BlobRef ref_;
  uint64_t size_;
  std::vector<download::Origin> origins_;
  store::BlobName name_;
  Later<RemoteSourcePtr> ranges_;
  mutable std::mutex comparing_;  // locked before mutex_
  mutable std::mutex mutex_;      // guards the rest
  mutable Later<LocalCopy> copy_;
  mutable std::vector<UnverifiedRead> unverified_reads_;
  mutable std::optional<Error> mismatch_;
  mutable size_t holders_ = 0;
  mutable store::FileRangePtr held_;  // set while there are holders
  mutable std::jthread verifier_;     // of complete ranges; ends before the others are destroyed
};

class UnverifiedSource final : public Source {
 public:
  explicit UnverifiedSource(std::shared_ptr<const DigestBlob> blob) : blob_(std::move(blob)) {}
  uint64_t size() const override { return blob_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return blob_->read(offset, out, ReadMode::unverified);
  }
  std::string identity() const override { return blob_->identity(); }

 private:
  std::shared_ptr<const DigestBlob> blob_;
};

store::BlobHandle cached_blob(StoreCore& store, const BlobRef& ref) {
  return store.backend().find(StoreCore::name_of(ref.digest, ref.size), ref.size);
}

// Scheme, host and port of the first origin.
std::string server_of(const std::vector<download::Origin>& origins) {
  if (origins.empty()) return "";
  const std::string& url = origins.front().url;
  const size_t scheme = url.find("://");
  return url.substr(0, scheme == url.npos ? scheme : url.find_first_of("/?#", scheme + 3));
}

// The size of a blob that must be downloaded: as reported by servers, or measured.
Result<uint64_t> fetched_size(StoreCore& store, const BlobRef& ref, const std::vector<download::Origin>& origins) {
  const store::BlobName name = StoreCore::name_of(ref.digest, std::nullopt);
  const bool wants_size_only = SizeQuery::is_active();
  const std::string server = server_of(origins);
  if (wants_size_only && store.is_too_large_for_size(name, server)) return tl::unexpected(too_large_for_size(ref.name));
  const download::FetchPtr fetch = new_fetch(store, ref, std::nullopt, origins);
  if (const auto reported = TRY(fetch->size(store.stop_token()))) return *reported;
  store.stats().record_miss(ref.digest);
  const BlobProducer producer{.name = ref.name, .digest = ref.digest};
  const InFlightBlob::ScopedRelease release;
  for (;;) {
    const auto in_flight = TRY(store.find_or_start(producer, name, fetch));
    if (!wants_size_only) in_flight->allow_any_size();
    const Phase phase = TRY(in_flight->wait());
    if (phase == Phase::finished) return in_flight->handle().range->size();
    if (phase == Phase::cancelled) continue;
    if (phase == Phase::failed && has_other_origins(*in_flight->fetch(), origins) && !is_cancelled()) continue;
    const Error error = in_flight->error();
    if (in_flight->is_too_large() && !wants_size_only) continue;  // started by a thread that only measured the size
    if (in_flight->is_too_large()) store.set_too_large_for_size(name, server);
    return failure(phase == Phase::uncacheable || error.code == Code::not_found ? Code::io : error.code, error.message);
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
  store->stats().add(ref, ref.size);
  if (!is_fetchable(*store, origins) && !cached_blob(*store, ref)) {
    const LocalCopies copies = find_local_copies(*store, ref);
    if (copies.found.empty())
      return tl::unexpected(not_available(*store, ref, copies.mismatch.value_or(Error{Code::not_found, ""})));
  }
  const auto size = size_of(*store, ref, origins);
  if (!size) {
    store->stats().record_failure(ref.digest, size.error());
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
