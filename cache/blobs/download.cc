#include "cache/blobs/download.h"

#include <fmt/core.h>

#include <algorithm>
#include <system_error>
#include <tuple>

#include "base/cancel.h"
#include "base/text.h"
#include "cache/blobs/store_core.h"

namespace weightfs::blobs {
namespace {

// A waiting reader polls at this interval whether it was killed.
constexpr std::chrono::milliseconds kKilledCheck{100};

constexpr std::chrono::milliseconds kOtherWriterCheck{20};

// The error for readers.
Error for_readers(const std::string& name, const Error& error) {
  if (error.code != Code::io && error.code != Code::resource) return error;
  return {Code::io, fmt::format("{}: download cannot be stored: {}; use --no-cache or a larger --cache-size", name,
                                error.message)};
}

RemoteSourcePtr source_of(const std::shared_ptr<StoreCore>& store, const BlobRef& ref, std::optional<uint64_t> size,
                          const download::RemoteFilePtr& remote) {
  if (!size) return nullptr;
  return std::make_shared<const RemoteSource>(remote, store, store::blob_identity(ref.digest, *size),
                                              StoreCore::name_of(ref.digest, size));
}

}  // namespace

Download::Download(std::shared_ptr<StoreCore> store, BlobRef ref, std::optional<uint64_t> size,
                   download::RemoteFilePtr remote)
    : store_(std::move(store)),
      ref_(std::move(ref)),
      remote_(std::move(remote)),
      name_(StoreCore::name_of(ref_.digest, size)),
      source_(source_of(store_, ref_, size, remote_)) {}

Download::~Download() { stop(); }

void Download::start_locked() {
  last_wanted_ = Clock::now();
  if (is_running_ || is_stopped_) return;
  if (thread_.joinable()) thread_.join();  // it has ended
  result_ = store::BlobHandle{};
  is_running_ = true;
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error&) {
    is_running_ = false;
    result_ = failure(Code::network, fmt::format("{}: cannot start a download thread", ref_.name));
  }
}

Result<store::BlobHandle> Download::wait() {
  if (is_cancelled()) return tl::unexpected(cancelled_error());
  const InFlightBlob::WaitScope waiting;
  std::unique_lock lock(mutex_);
  ++waiting_;
  start_locked();
  bool cancelled = false;
  while (!cancelled && (is_running_ || (result_ && !*result_))) {
    if (is_stopped_) break;
    if (!is_running_) start_locked();  // it ended as unused just before
    lock.unlock();
    cancelled = is_cancelled();
    lock.lock();
    if (is_running_ && !cancelled) changed_.wait_for(lock, kKilledCheck);
  }
  --waiting_;
  last_wanted_ = Clock::now();
  auto result = is_running_ ? Result<store::BlobHandle>() : result_;
  // The store keeps the blob open, not this object: an evicted blob must free its space.
  if (waiting_ == 0 && !is_running_) result_ = store::BlobHandle{};
  if (result && !*result) return tl::unexpected(cancelled_error());
  return result;
}

void Download::stop() {
  std::jthread ending;
  {
    const std::scoped_lock lock(mutex_);
    is_stopped_ = true;
    ending = std::move(thread_);
  }
  changed_.notify_all();
  ending.request_stop();
  if (ending.joinable()) ending.join();
}

bool Download::is_running() const {
  const std::scoped_lock lock(mutex_);
  return is_running_;
}

StoreStatus::Blob Download::status() const {
  StoreStatus::Blob status;
  status.digest = ref_.digest;
  status.fetched = source_ == nullptr ? received_.load() : source_->received();
  status.from = remote_->printable();
  return status;
}

bool Download::is_unused() const {
  const std::scoped_lock lock(mutex_);
  return waiting_ == 0 && Clock::now() - last_wanted_ > store_->times().unused_download;
}

void Download::run(const std::stop_token& stop) noexcept {
  bool is_ended = false;  // stays true, also if a reader comes
  const CancelScope scope([&] { return is_ended = is_ended || stop.stop_requested() || is_unused(); });
  auto result = exceptions_to_errors([&]() -> Result<store::BlobHandle> {
    auto downloaded = source_ != nullptr ? download() : download_unsized(stop);
    if (!downloaded && is_cancelled()) downloaded = store::BlobHandle{};
    if (downloaded && *downloaded)
      store_->stats().record_download(ref_.digest, downloaded->range->size(), remote_->printable());
    if (!downloaded) remote_->reset();  // the server may be corrected before the next run
    if (!downloaded) {
      downloaded = tl::unexpected(for_readers(ref_.name, downloaded.error()));
      store_->stats().record_failure(ref_.digest, downloaded.error());
    }
    return downloaded;
  });
  const bool is_cached = result && *result;
  {
    const std::scoped_lock lock(mutex_);
    result_ = std::move(result);
    is_running_ = false;
    changed_.notify_all();
  }
  if (is_cached) store_->enable_verity(ref_.digest);  // the readers do not wait for it
}

Result<store::BlobHandle> Download::download() {
  source_->accept();
  auto verified = source_->verify();
  if (verified || verified.error().code != Code::mismatch) return verified;
  return failure(Code::mismatch, fmt::format("{}: {}", ref_.name, verified.error().message));
}

// The bytes are written in order, and nothing of them is kept after a failure: resuming could not find the end sooner.
Result<store::BlobHandle> Download::download_unsized(const std::stop_token& stop) {
  store::BlobBackend& backend = store_->backend();
  const BlobProducer producer{.name = ref_.name, .digest = ref_.digest};
  for (;;) {
    if (is_cancelled()) return tl::unexpected(cancelled_error());
    if (auto cached = backend.find(name_, std::nullopt)) return cached;
    const auto file = backend.open_blocks(store::new_blob_identity(name_.text), std::nullopt);
    if (!file) return failure(Code::io, file.error().message);
    // It may be endless, so it never evicts other blobs.
    const auto writer = BlobWriter::claim(backend, name_, producer, store::Eviction::forbidden, *file);
    if (writer == nullptr)
      std::this_thread::sleep_for(kOtherWriterCheck);  // another process downloads it
    else if (auto written = TRY(write_unsized(*writer, stop)))
      return std::move(*written);
  }
}

// Nothing if the bytes were wrong, and another origin may have the right ones.
Result<std::optional<store::BlobHandle>> Download::write_unsized(BlobWriter& writer, const std::stop_token& stop) {
  if (const auto reserved = writer.reserve(); !reserved) {
    if (reserved.error().code == Code::not_found) return std::nullopt;
    return tl::unexpected(reserved.error());
  }
  const auto sink = [&](uint64_t offset, std::span<const std::byte> bytes) -> Result<bool> {
    if (is_cancelled()) return tl::unexpected(cancelled_error());
    if (bytes.empty()) return true;
    store_->stats().record_received(bytes.size());
    const uint64_t known = writer.size() - std::min(writer.size(), offset);
    bytes = bytes.subspan(static_cast<size_t>(std::min<uint64_t>(bytes.size(), known)));
    TRY_VOID(writer.add(bytes));
    received_ = writer.size();
    return true;
  };
  TRY_VOID(remote_->fetch({0, UINT64_MAX}, sink, stop));
  const auto found = writer.finish();
  if (found) return TRY(writer.publish(*found));
  received_ = 0;
  if (is_about_the_bytes(found.error()) && remote_->reject(false)) return std::nullopt;
  return tl::unexpected(found.error());
}

}  // namespace weightfs::blobs
