#include "cache/core/store_core.h"

#include <fmt/core.h>

#include <chrono>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace weightfs::blobs {
namespace {

constexpr size_t kMaxUnverified = 100'000;  // identities of blocks that are noted

// For threads that may outlive the store.
DecodeSlots::OnCached on_decoded(const BlobNames& names) {
  return [names](const Digest& blob, const std::string& member) { names.add_member(blob, member); };
}

DecodeSlots::Limits limits_of(const StoreOptions& options) {
  return {
      .decodings = options.max_decodings, .idle = options.times.idle_decoding, .unused = options.times.unused_decoding};
}

}  // namespace

StoreCore::StoreCore(store::BlobBackendPtr backend, StoreOptions options)
    : fetching_(with_mirror_reports(std::move(options.fetching))),
      times_(options.times),
      keeps_packed_(options.keeps_packed),
      external_stores_(std::move(options.blob_directories)),
      backend_(std::move(backend)),
      names_(backend_, std::move(options.model)),
      decodings_(std::make_shared<DecodeSlots>(backend_, limits_of(options), on_decoded(names_))),
      log_(std::move(options.log)),
      name_prefix_(random_hex()) {}

FetchSettings StoreCore::with_mirror_reports(FetchSettings fetching) {
  fetching.options.on_mirror_failure = [this](const download::Origin& mirror, const Error& error) {
    // Log once per mirror, not per blob.
    const std::string url = http::printable_url(mirror.url);
    const size_t host = url.find("://");
    const std::string server = url.substr(0, host == url.npos ? host : url.find('/', host + 3));
    log_once("mirror " + server,
             fmt::format("the mirror {} failed, other servers are used: {}", server, error.message));
  };
  return fetching;
}

// Bytes are served before verification, so only producers with the same key, size and declared digest share an
// in-flight blob: a container's false digest must not affect readers of another container. They also have the same
// depth, so that no reader waits for slots of a greater depth.
store::BlobName StoreCore::name_of(const BlobProducer& producer) {
  const std::string identity = fmt::format("{} {} {}", producer.size ? std::to_string(*producer.size) : "",
                                           producer.digest ? producer.digest->hex() : "", producer.depth);
  if (!producer.key.empty())
    return {"key-" + sha256(fmt::format("{} {}", identity, producer.key)).hex(), producer.key, producer.digest};
  if (producer.digest) return {"digest-" + sha256(identity).hex(), "", producer.digest};
  return {fmt::format("own-{}-{}", name_prefix_, next_name_++), "", {}};
}

store::BlobName StoreCore::name_of(const Digest& digest, std::optional<uint64_t> size) {
  const std::string identity = fmt::format("fetched {} {}", size ? std::to_string(*size) : "", digest.hex());
  return {"digest-" + sha256(identity).hex(), "", digest};
}

store::BlobHandle StoreCore::find_cached(const store::BlobName& name, std::optional<uint64_t> size) {
  store::BlobHandle handle = backend_->find_open(name);
  return handle ? handle : backend_->find(name, size);
}

void StoreCore::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
  }
  decodings_->stop();
}

void StoreCore::shut_down() {
  stop_.request_stop();
  backend_->stop();
}

// A process that downloads blocks may be stopped, and blocks that it has claimed cannot be written by others.
std::chrono::milliseconds StoreCore::max_wait_for_others() const {
  const http::ClientPtr& http = fetching().http;
  if (http == nullptr) return 4 * http::Options().stall_timeout;
  return 4 * http->options().stall_timeout + http->patience();  // the other one may wait for the network as long
}

Result<void> StoreCore::check_open() const {
  if (stop_.stop_requested()) return failure(Code::resource, "the mount is shutting down");
  return {};
}

void StoreCore::note_unverified(const std::string& identity) noexcept {
  std::ignore = exceptions_to_errors([&]() -> Result<void> {
    const std::scoped_lock lock(mutex_);
    if (unverified_.size() < kMaxUnverified) unverified_.insert(identity);
    return {};
  });
}

std::set<std::string> StoreCore::take_unverified() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(unverified_, {});
}

void StoreCore::log_once(const std::string& key, const std::string& line) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopped_ || !logged_.insert(key).second) return;
  }
  if (log_) log_(line);
}

void StoreCore::log_uncached(const Error& reason) {
  log_once(fmt::format("cannot cache decoded data: {}; each reader decodes it again", reason.message));
}

}  // namespace weightfs::blobs
