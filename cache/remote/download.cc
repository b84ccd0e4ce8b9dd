#include "cache/remote/download.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/cancel.h"
#include "base/text.h"
#include "cache/core/store_core.h"
#include "cache/remote/verify.h"

namespace weightfs::blobs {
namespace {

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
      source_(source_of(store_, ref_, size, remote_)),
      job_(ref_.name, store_->times().unused_download, [this](const std::stop_token& stop) { return run(stop); }) {}

Download::Download(std::shared_ptr<StoreCore> store, BlobRef ref, RemoteSourcePtr ranges)
    : store_(std::move(store)),
      ref_(std::move(ref)),
      name_(StoreCore::name_of(ref_.digest, ranges->size())),
      source_(std::move(ranges)),
      job_(ref_.name, store_->times().unused_download, [this](const std::stop_token&) { return verify_ranges(); }) {}

Result<void> Download::wait_for_match() {
  const auto has_matched = [this] { return source_->verification() == VerifiedBy::whole; };
  if (has_matched() || TRY(compare_delivered(*source_))) return {};
  if (source_->is_complete()) job_.start();  // it needs no download, so it does not end with the reader
  const auto matched = job_.wait(has_matched);
  if (!matched && source_->awaits_comparison()) return tl::unexpected(matched.error());
  return {};
}

void Download::verify_if_complete() {
  if (!source_->is_complete() || verified_ == source_->generation() || Clock::now() < next_verification_.load()) return;
  job_.start();
}

StoreStatus::Blob Download::status() const {
  StoreStatus::Blob status;
  status.digest = ref_.digest;
  status.fetched = source_ == nullptr ? received_.load() : source_->received();
  status.from = source_ == nullptr ? remote_->printable() : source_->remote().printable();
  return status;
}

// A failure may be of a full disk, or of another process that is still writing.
Result<store::BlobHandle> Download::verify_ranges() {
  const uint64_t generation = source_->generation();
  auto verified = verify(*source_, [this] { job_.notify(); });
  if (verified) store_->stats().record_download(ref_.digest, source_->size(), source_->remote().printable());
  if (verified) verified_ = generation;
  next_verification_ = Clock::now() + store_->times().next_verification;
  if (verified || verified.error().code != Code::resource || is_cancelled()) return verified;
  source_->serve_uncompared();
  store_->log_once(fmt::format("no space for {}", ref_.digest.hex()),
                   fmt::format("{}: the cache has no space for it, so its digest is compared only if it is read in "
                               "order; use a larger --cache-size",
                               ref_.name));
  return failure(Code::io, verified.error().message);
}

Result<store::BlobHandle> Download::run(const std::stop_token& stop) {
  auto downloaded = source_ != nullptr ? download() : download_unsized(stop);
  if (downloaded) {
    store_->stats().record_download(ref_.digest, downloaded->range->size(), remote_->printable());
    return downloaded;
  }
  if (is_cancelled()) return downloaded;
  remote_->reset();  // the server may be corrected before the next run
  const Error error = for_readers(ref_.name, downloaded.error());
  store_->stats().record_failure(ref_.digest, error);
  return tl::unexpected(error);
}

Result<store::BlobHandle> Download::download() {
  source_->accept();
  auto verified = verify(*source_);
  if (verified || verified.error().code != Code::mismatch) return verified;
  return failure(Code::mismatch, fmt::format("{}: {}", ref_.name, verified.error().message));
}

// The bytes are written in order, and nothing of them is kept after a failure: resuming could not find the end sooner.
Result<store::BlobHandle> Download::download_unsized(const std::stop_token& stop) {
  store::BlobBackend& backend = store_->backend();
  const BlobProducer producer{.name = ref_.name, .digest = ref_.digest};
  uint64_t last_written = 0;  // by another process
  auto last_progress = Clock::now();
  for (;;) {
    if (is_cancelled()) return tl::unexpected(cancelled_error());
    if (auto cached = backend.find(name_, std::nullopt)) return cached;
    const auto file = backend.open_blocks(store::new_blob_identity(name_.text), std::nullopt);
    if (!file) return failure(Code::io, file.error().message);
    // It may be endless, so it never evicts other blobs.
    const auto writer = BlobWriter::claim(backend, name_, producer, store::Eviction::forbidden, *file);
    if (writer != nullptr) {
      if (auto written = TRY(write_unsized(*writer, stop))) return std::move(*written);
      continue;
    }
    if (const uint64_t written = (*file)->last_written(); written != last_written) {
      last_written = written;
      last_progress = Clock::now();
    }
    if (Clock::now() - last_progress > store_->max_wait_for_others())
      return failure(Code::io, "the process that downloads it makes no progress");
    std::this_thread::sleep_for(store::kOtherProcessCheck);
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
