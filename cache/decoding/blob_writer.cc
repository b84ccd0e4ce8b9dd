#include "cache/decoding/blob_writer.h"

#include <algorithm>
#include <utility>

namespace weightfs::blobs {
namespace {

using namespace store;

constexpr uint64_t kMinStep = 1 << 20;  // of reservations, if the size is unknown

}  // namespace

std::unique_ptr<BlobWriter> BlobWriter::claim(BlobBackend& backend, BlobName name, const BlobProducer& producer,
                                              Eviction eviction, BlockFilePtr file) {
  auto claim = BlockFile::claim(file, {0, file->block_count()});
  if (claim == nullptr) return nullptr;
  std::unique_ptr<BlobWriter> writer(
      new BlobWriter(backend, std::move(name), producer, eviction, std::move(file), std::move(claim)));
  // The last one that had the claim may have published the blob just before.
  if (!writer->file_->has_blocks() && !backend.find(writer->name_, producer.size)) return writer;
  return nullptr;
}

// A file that is not current has been published, and its name may be that of another one.
BlobWriter::~BlobWriter() {
  if (is_published_ || !file_->is_current()) return;
  std::ignore = exceptions_to_errors([&]() -> Result<void> {
    file_->release();
    backend_.remove_blocks(file_->identity(), BlockFile::Evict::unheld);
    return {};
  });
}

Result<void> BlobWriter::reserve() {
  TRY_VOID(file_->hold_first(size_.value_or(0), eviction_));
  reserved_ = size_.value_or(0);
  return {};
}

Result<void> BlobWriter::add(std::span<const std::byte> bytes) {
  TRY_VOID(verifier_.add(bytes));
  if (size() > reserved_) TRY_VOID(grow());
  return append(bytes);
}

// In growing steps: at most a sixteenth too much.
Result<void> BlobWriter::grow() {
  reserved_ = size() + std::max(kMinStep, size() / 16);
  if (file_->hold_first(reserved_, eviction_)) return {};
  reserved_ = size();
  return file_->hold_first(reserved_, eviction_);
}

Result<void> BlobWriter::append(std::span<const std::byte> bytes) {
  if (!pending_.empty()) {
    const auto rest = bytes.first(static_cast<size_t>(std::min<uint64_t>(bytes.size(), kBlock - pending_.size())));
    pending_.insert(pending_.end(), rest.begin(), rest.end());
    bytes = bytes.subspan(rest.size());
  }
  if (bytes.empty()) return {};
  TRY_VOID(write(pending_));
  const auto whole = bytes.first(static_cast<size_t>((bytes.size() - 1) / kBlock * kBlock));
  TRY_VOID(write(whole));
  pending_.assign(bytes.begin() + static_cast<std::ptrdiff_t>(whole.size()), bytes.end());
  return {};
}

Result<void> BlobWriter::write(std::span<const std::byte> blocks) {
  if (blocks.empty()) return {};
  TRY_VOID(file_->write(written_ / kBlock, blocks));
  written_ += blocks.size();
  return {};
}

Result<Digest> BlobWriter::finish() {
  const Digest digest = TRY(verifier_.finish());
  TRY_VOID(size_ ? write(pending_) : file_->set_end(size(), pending_));
  return digest;
}

Result<BlobHandle> BlobWriter::publish(const Digest& digest) {
  TRY_VOID(file_->flush());
  BlobHandle handle = TRY(backend_.publish_blocks(file_, name_, digest));
  is_published_ = true;
  return handle;
}

}  // namespace weightfs::blobs
