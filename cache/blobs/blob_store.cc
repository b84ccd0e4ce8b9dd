#include "cache/blob_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/digest_verifier.h"
#include "base/files/leaf.h"
#include "base/files/no_passthrough.h"
#include "base/text.h"
#include "cache/blobs/direct_blob.h"
#include "cache/blobs/live_blobs.h"
#include "cache/blobs/local_copies.h"
#include "cache/blobs/resolve.h"
#include "cache/blobs/saved_texts.h"
#include "cache/core/store_core.h"
#include "cache/store/disk_backend.h"
#include "cache/store/temp_file_backend.h"

namespace weightfs {
namespace {

using namespace blobs;
using StoreCorePtr = std::shared_ptr<StoreCore>;
using Phase = InFlightBlob::Phase;

// Reads within this many first bytes do not materialize the blob: they only detect its format.
constexpr uint64_t kHeadSize = 32 * 1024;

// The depth of the blob that the calling thread decodes.
thread_local int decoded_depth = std::numeric_limits<int>::max();

class DepthScope {
 public:
  explicit DepthScope(int depth) : outer_(std::exchange(decoded_depth, depth)) {}
  ~DepthScope() { decoded_depth = outer_; }
  DepthScope(const DepthScope&) = delete;
  DepthScope& operator=(const DepthScope&) = delete;

 private:
  int outer_;
};

// Fails if the calling thread decodes a blob that must not depend on this one: it may be decoded from itself.
Result<void> check_depth(const BlobProducer& producer) {
  if (producer.depth < decoded_depth) return {};
  return failure(Code::corrupt, fmt::format("{}: a blob of depth {} cannot be decoded from one of depth {}",
                                            producer.name, decoded_depth, producer.depth));
}

// A stream that fails after shut_down(), and during whose calls the thread is known to decode a blob of that depth.
class StoreStream final : public Stream {
 public:
  StoreStream(StoreCorePtr store, int depth, StreamPtr stream)
      : store_(std::move(store)), depth_(depth), stream_(std::move(stream)) {}
  Result<size_t> next(std::span<std::byte> out) override {
    TRY_VOID(store_->check_open());
    const DepthScope scope(depth_);
    return stream_->next(out);
  }

 private:
  StoreCorePtr store_;
  int depth_;
  StreamPtr stream_;
};

// The producer, with each of its streams in a StoreStream.
BlobProducer for_store(const StoreCorePtr& store, BlobProducer producer) {
  producer.start = [store, depth = producer.depth, start = std::move(producer.start)]() -> Result<StreamPtr> {
    TRY_VOID(store->check_open());
    const DepthScope scope(depth);
    return std::make_unique<StoreStream>(store, depth, TRY(start()));
  };
  return producer;
}

class ProducedBlob final : public Leaf, public std::enable_shared_from_this<ProducedBlob> {
 public:
  ProducedBlob(StoreCorePtr store, BlobProducer producer, uint64_t size)
      : store_(std::move(store)), producer_(std::move(producer)), size_(size), name_(store_->name_of(producer_)) {}

  uint64_t size() const override { return size_; }
  // Keeps the decoding alive while the file is open, also between slow reads.
  std::shared_ptr<const void> keep_cached() const override {
    if (size_ <= kSmallBlob) return nullptr;
    const std::scoped_lock lock(mutex_);
    auto sources = sources_.lock();
    if (sources == nullptr) sources_ = sources = std::make_shared<HeldSources>();
    return std::make_shared<std::pair<std::shared_ptr<const void>, decltype(sources)>>(store_->decodings().hold(name_),
                                                                                       sources);
  }
  // A declared digest identifies the bytes only after verification.
  std::string identity() const override { return is_verified() ? "sha256 " + producer_.digest->hex() : producer_.key; }

  SourcePtr verified_file() const override {
    if (size_ <= kSmallBlob) return nullptr;
    const store::BlobHandle handle = store_->backend().find_open(name_);
    return handle ? std::make_shared<DirectBlob>(handle.range, shared_from_this()) : nullptr;
  }

  Result<Descriptor> open_whole_file() const override {
    const store::BlobHandle handle =
        size_ > kSmallBlob ? store_->find_cached(known_name(), size_) : store::BlobHandle{};
    if (!handle) return failure(NoPassthrough::not_cached);
    return handle.range->open_whole_file();
  }

  Result<CachedBytes> cached(ByteRange range) const override {
    if (size_ <= kSmallBlob || !store_->find_cached(known_name(), size_)) return CachedBytes{};
    const uint64_t to = std::min(range.to, size_);
    const uint64_t all = to - std::min(range.from, to);
    return CachedBytes{all, all};
  }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size_ || out.empty()) return size_t{0};
    TRY_VOID(check_depth(producer_));
    const auto target = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - offset)));
    TRY_VOID(size_ <= kSmallBlob ? read_small(offset, target) : read_large(offset, target));
    return target.size();
  }

 private:
  // Small blobs are verified by every read.
  bool is_verified() const { return producer_.digest && (size_ <= kSmallBlob || store_->find_cached(name_, size_)); }

  Result<void> read_small(uint64_t offset, std::span<std::byte> out) const {
    std::vector<std::byte> all(static_cast<size_t>(size_) + 1);
    const StreamPtr stream = TRY(with_verification(producer_).start());
    TRY(gather(*stream, all, all.size()));
    std::memcpy(out.data(), all.data() + offset, out.size());
    return {};
  }

  Result<void> read_large(uint64_t offset, std::span<std::byte> out) const {
    if (const store::BlobHandle handle = store_->backend().find_open(name_);
        handle && read_exact(*handle.range, offset, out))
      return {};
    HeldSources::add_to_current(name_.text, [this] { return keep_cached(); });
    if (const SourcePtr fallback_source = fallback(offset, out.size())) return read_from(*fallback_source, offset, out);
    const store::BlobName name = known_name();
    auto in_flight = store_->decodings().find_in_flight(name);
    if (in_flight == nullptr) {
      if (const store::BlobHandle handle = store_->backend().find(name, size_);
          handle && read_exact(*handle.range, offset, out)) {
        if (!has_name_.exchange(true)) store_->names().add_member(handle.digest, producer_.name);
        return {};
      }
      const auto failure = store_->decodings().known_failure(name);
      if (failure && !name.key.empty()) return tl::unexpected(*failure);
      const bool is_head = offset <= kHeadSize && out.size() <= kHeadSize - offset;
      if (!failure && is_head && !producer_.costly_start) return read_head(offset, out);
    }
    return read_in_flight(std::move(in_flight), name, offset, out);
  }

  Result<void> read_head(uint64_t offset, std::span<std::byte> out) const {
    std::vector<std::byte> head(static_cast<size_t>(offset) + out.size());
    const StreamPtr stream = TRY(producer_.start());
    if (const size_t got = TRY(gather(*stream, head, head.size())); got < head.size())
      return failure(Code::corrupt, fmt::format("{}: ends at byte {} of {}", producer_.name, got, size_));
    std::memcpy(out.data(), head.data() + offset, out.size());
    return {};
  }

  Result<void> read_in_flight(DecodeSlots::InFlightBlobPtr in_flight, const store::BlobName& name, uint64_t offset,
                              std::span<std::byte> out) const {
    for (;; in_flight = nullptr) {
      if (in_flight == nullptr) {
        auto started = store_->decodings().find_or_start(producer_, name);
        if (!started) return read_uncached(started.error(), offset, out);
        in_flight = std::move(*started);
      }
      const auto [phase, error, handle] = in_flight->read(offset, out);
      if (phase == Phase::cancelled) continue;
      if (phase == Phase::failed) return tl::unexpected(error);
      if (phase == Phase::uncacheable) return read_uncached(error, offset, out);
      if (phase == Phase::finished) set_known_digest(handle.digest);
      return {};
    }
  }

  Result<void> read_uncached(const Error& reason, uint64_t offset, std::span<std::byte> out) const {
    // Do not start anything for a killed reader, or in a cancelled producer.
    if (is_cancelled()) return tl::unexpected(reason);
    store_->log_uncached(reason);
    return read_from(*start_fallback(offset, out.size()), offset, out);
  }

  // Decoding started by this read continues while a file of this blob is open.
  Result<void> read_from(const Source& fallback_source, uint64_t offset, std::span<std::byte> out) const {
    const auto sources = current_sources();
    const HeldSources::Scope holding(sources.get());
    return read_exact(fallback_source, offset, out);
  }

  std::shared_ptr<HeldSources> current_sources() const {
    const std::scoped_lock lock(mutex_);
    return sources_.lock();
  }

  // The uncached source, as long as reads are sequential. Before it would restart, caching is tried again, since there
  // may be space now.
  SourcePtr fallback(uint64_t offset, size_t size) const {
    const std::scoped_lock lock(mutex_);
    if (offset < fallback_end_) fallback_ = nullptr;
    fallback_end_ = fallback_ == nullptr ? 0 : offset + size;
    return fallback_;
  }

  SourcePtr start_fallback(uint64_t offset, size_t size) const {
    const std::scoped_lock lock(mutex_);
    if (fallback_ == nullptr) fallback_ = uncached_blobs()->blob(producer_);
    fallback_end_ = offset + size;
    return fallback_;
  }

  // The name of a blob without key and digest does not identify it; its digest does, after the first materialization.
  store::BlobName known_name() const {
    const std::scoped_lock lock(mutex_);
    store::BlobName name = name_;
    if (!name.digest && name.key.empty()) name.digest = known_digest_;
    return name;
  }

  void set_known_digest(const Digest& digest) const {
    const std::scoped_lock lock(mutex_);
    known_digest_ = digest;
  }

  StoreCorePtr store_;
  BlobProducer producer_;
  uint64_t size_;
  store::BlobName name_;
  mutable std::atomic<bool> has_name_ = false;  // a blob that was cached before got its name
  mutable std::mutex mutex_;                    // guards the rest
  mutable std::weak_ptr<HeldSources> sources_;  // sources of an uncached decoding, while a file is open
  mutable SourcePtr fallback_;
  mutable uint64_t fallback_end_ = 0;  // end of its last read
  mutable std::optional<Digest> known_digest_;
};

class CachingBlobStore final : public BlobStore {
 public:
  CachingBlobStore(store::BlobBackendPtr backend, StoreOptions options)
      : store_(std::make_shared<StoreCore>(std::move(backend), std::move(options))),
        live_(std::make_shared<LiveBlobs>(store_)) {}
  ~CachingBlobStore() override { live_->stop(); }

  void stop() override {
    store_->shut_down();
    live_->stop();
  }
  std::stop_token stop_token() const override { return store_->stop_token(); }

  SourcePtr blob(BlobProducer producer) override {
    const uint64_t size = producer.size.value_or(0);
    return std::make_shared<ProducedBlob>(store_, for_store(store_, std::move(producer)), size);
  }

  Result<SourcePtr> materialize(BlobProducer producer) override {
    TRY_VOID(check_depth(producer));
    producer.size = std::nullopt;
    producer = for_store(store_, std::move(producer));
    const store::BlobName name = store_->name_of(producer);
    if (const store::BlobHandle handle = store_->find_cached(name, std::nullopt))
      return with_known_digest(std::move(producer), handle.range->size(), handle.digest);
    // What a producer has downloaded may match the next time.
    const auto failure = store_->decodings().known_failure(name);
    if (failure && failure->code != Code::mismatch && !name.key.empty()) return tl::unexpected(*failure);
    if (auto small = TRY(materialize_small(producer))) return small;
    const auto [phase, error, handle] = store_->decodings().produce(producer, name);
    if (phase == Phase::failed) return tl::unexpected(error);
    if (phase == Phase::uncacheable) return materialize_uncached(error, producer);
    return with_known_digest(std::move(producer), handle.range->size(), handle.digest);
  }

  bool is_decoded(const BlobProducer& producer) override {
    return !producer.key.empty() && store_->find_cached(store_->name_of(producer), producer.size);
  }

  void release(const Digest& blob) override {
    if (!store_->keeps_packed() && store_->stats().take_downloaded(blob)) store_->backend().remove_blob(blob);
  }

  void release_ranges(const std::string& identity) override {
    if (!store_->keeps_packed()) live_->release_ranges(identity);
  }

  Result<ResolvedBlob> resolve(const BlobRef& ref) override { return resolve_blob(live_, ref, {}); }
  Result<ResolvedBlob> resolve_from(const BlobRef& ref, std::vector<download::Origin> origins) override {
    return resolve_blob(live_, ref, std::move(origins));
  }
  bool is_local(const BlobRef& ref) override { return weightfs::blobs::is_local(*store_, ref); }

  // Readers of one URL share a source.
  Result<SourcePtr> open_url(const std::string& url, const BlockListPtr& list) override {
    std::string key = list == nullptr ? url : fmt::format("{} {}", list->digest().hex(), url);
    if (const uint64_t forgotten = times_forgotten_; forgotten > 0) key += fmt::format(" {}", forgotten);
    if (auto open = live_->find_remote(key)) return open;
    download::Origin origin{.url = url};
    if (const http::ClientPtr& http = store_->fetching().http)
      origin.credentials = TRY(http->credentials_of_source(url));
    download::RemoteFilePtr remote = TRY(open_remote_file(*store_, origin, "", std::nullopt));
    if (list != nullptr && list->size() != remote->size())
      return failure(Code::mismatch, fmt::format("{}: has {} bytes, but the block list is of a file of {}",
                                                 http::printable_url(url), remote->size(), list->size()));
    const auto identity = download::identity_of(url, remote->version(), list);
    std::optional<store::BlobName> blob;
    if (const auto digest = list == nullptr ? stated_digest(*store_, *remote, identity) : std::nullopt)
      blob = StoreCore::name_of(*digest, remote->size());
    return live_->share_remote(
        key, std::make_shared<const RemoteSource>(std::move(remote), store_, identity, std::move(blob), list));
  }

  void forget_urls() override { ++times_forgotten_; }

  // Readers of one version share a source.
  Result<SourcePtr> open_version(const download::Origin& origin, const download::FileVersion& version,
                                 std::string head) override {
    TRY_VOID(store_->check_open());
    const std::string key = fmt::format("{} {}", origin.url, download::version_text(version));
    if (auto open = live_->find_remote(key)) return open;
    const FetchSettings& fetching = store_->fetching();
    return live_->share_remote(
        key, std::make_shared<const RemoteSource>(
                 download::RemoteFile::of_version(fetching.http, origin, version, std::move(head), fetching.options),
                 store_, download::identity_of(origin.url, version)));
  }

  void remove_bytes(const std::string& identity) override {
    if (!identity.empty()) store_->backend().remove_blocks(identity, store::BlockFile::Evict::all);
  }

  void save_text(const std::string& key, std::string_view text) override { blobs::save_text(*store_, key, text); }
  std::optional<std::string> load_text(const std::string& key) override { return blobs::load_text(*store_, key); }

  Result<void> verify_complete() override { return live_->verify_complete(); }
  void drop_unverified() override { live_->drop_unverified(); }

  StoreStatus status() override { return live_->status(); }
  StoreStatus in_progress_status() override { return live_->in_progress_status(); }

 private:
  // Null when the blob is not small.
  Result<SourcePtr> materialize_small(const BlobProducer& producer) {
    std::vector<std::byte> all(kSmallBlob + 1);
    const StreamPtr stream = TRY(producer.start());
    const auto bytes = std::span<const std::byte>(all).first(TRY(gather(*stream, all, all.size())));
    if (bytes.size() > kSmallBlob) return SourcePtr();
    DigestVerifier verifier(producer);
    TRY_VOID(verifier.add(bytes));
    const Digest digest = TRY(verifier.finish());
    return with_known_digest(producer, bytes.size(), digest);
  }

  Result<SourcePtr> materialize_uncached(const Error& reason, const BlobProducer& producer) {
    store_->log_uncached(reason);
    return uncached_blobs()->materialize(producer.digest ? with_verification(producer) : producer);
  }

  SourcePtr with_known_digest(BlobProducer producer, uint64_t size, const Digest& digest) {
    producer.size = size;
    producer.digest = digest;
    return std::make_shared<ProducedBlob>(store_, std::move(producer), size);
  }

  const StoreCorePtr store_;
  const LiveBlobsPtr live_;
  std::atomic<uint64_t> times_forgotten_ = 0;
};

}  // namespace

BlobStorePtr blob_store(StoreOptions options) {
  store::BlobBackendPtr backend;
  if (options.directory.empty())
    backend = std::make_shared<store::TempFileBackend>(options.quota);
  else
    backend =
        std::make_shared<store::DiskBackend>(options.directory, options.quota, options.compares_digests, options.log);
  return std::make_shared<CachingBlobStore>(std::move(backend), std::move(options));
}

}  // namespace weightfs
