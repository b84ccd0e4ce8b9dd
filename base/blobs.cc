#include "base/blobs.h"

#include <fmt/core.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "base/digest_verifier.h"
#include "base/text.h"

namespace weightfs {
namespace {

constexpr size_t kBufferSize = 256 * 1024;

// Reads a stream as a source: a read at the current position continues the stream, any other read restarts it.
class StreamSource final : public Source {
 public:
  StreamSource(BlobProducer producer, uint64_t size) : producer_(std::move(producer)), size_(size) {}

  uint64_t size() const override { return size_; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size_) return size_t{0};
    const auto target = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - offset)));
    const std::scoped_lock lock(mutex_);
    auto done = fill(offset, target);
    if (done) return target.size();
    stream_ = nullptr;
    return tl::unexpected(std::move(done).error());
  }

  std::string identity() const override { return producer_.key; }

 private:
  Result<void> fill(uint64_t offset, std::span<std::byte> out) const {
    if (stream_ == nullptr || offset < at_) {
      stream_ = TRY(producer_.start());
      at_ = 0;
    }
    std::vector<std::byte> skipped(offset > at_ ? kBufferSize : 0);
    while (at_ < offset)
      TRY_VOID(read_next(std::span(skipped).first(static_cast<size_t>(std::min<uint64_t>(kBufferSize, offset - at_)))));
    while (!out.empty()) {
      const size_t got = TRY(read_next(out));
      out = out.subspan(got);
    }
    // The last byte is valid only if the stream confirms its end.
    if (at_ < size_) return {};
    std::byte more;
    const size_t extra = TRY(stream_->next(std::span(&more, 1)));
    stream_ = nullptr;
    if (extra > 0)
      return failure(Code::corrupt, fmt::format("{}: longer than the {} declared bytes", producer_.name, size_));
    return {};
  }

  Result<size_t> read_next(std::span<std::byte> out) const {
    const size_t got = TRY(stream_->next(out));
    if (got == 0) return failure(Code::corrupt, fmt::format("{}: ends at byte {} of {}", producer_.name, at_, size_));
    at_ += got;
    return got;
  }

  BlobProducer producer_;
  uint64_t size_;
  mutable std::mutex mutex_;  // guards the next two
  mutable StreamPtr stream_;
  mutable uint64_t at_ = 0;  // position in the stream
};

// Reads a source as a stream.
class SourceStream final : public Stream {
 public:
  explicit SourceStream(SourcePtr source) : source_(std::move(source)) {}
  Result<size_t> next(std::span<std::byte> out) override {
    const size_t got = TRY(source_->read(at_, out));
    at_ += got;
    return got;
  }

 private:
  SourcePtr source_;
  uint64_t at_ = 0;
};

// Hashes all bytes, which may take long.
Result<SourcePtr> verify_digest(const BlobRef& ref, SourcePtr bytes) {
  const Digest digest = TRY(sha256(*bytes));
  if (digest == ref.digest) return bytes;
  return failure(Code::mismatch,
                 fmt::format("{}: digest mismatch: found {}, expected {}", ref.name, digest.hex(), ref.digest.hex()));
}

class UncachedBlobs final : public Blobs {
 public:
  SourcePtr blob(BlobProducer producer) override {
    const uint64_t size = producer.size.value_or(0);
    return std::make_shared<StreamSource>(
        producer.digest ? with_verification(std::move(producer)) : std::move(producer), size);
  }

  Result<SourcePtr> materialize(BlobProducer producer) override {
    std::vector<std::byte> buffer(kBufferSize);
    uint64_t size = 0;
    const StreamPtr stream = TRY(producer.start());
    while (const size_t got = TRY(stream->next(buffer))) size += got;
    return std::make_shared<StreamSource>(std::move(producer), size);
  }
};

}  // namespace

StreamPtr stream_of(SourcePtr source) { return std::make_unique<SourceStream>(std::move(source)); }

Result<SourcePtr> open_local_copy(const BlobRef& ref) {
  if (!ref.local_copy) return failure(Code::not_found, fmt::format("{}: no local copy", ref.name));
  SourcePtr bytes = TRY(ref.local_copy());
  if (ref.size && bytes->size() != *ref.size)
    return failure(Code::mismatch, fmt::format("{}: has {} bytes, not {}", ref.name, bytes->size(), *ref.size));
  return bytes;
}

Result<ResolvedBlob> Blobs::resolve(const BlobRef& ref) {
  const auto opened = open_local_copy(ref);
  if (!opened && opened.error().code == Code::not_found)
    return failure(Code::network, fmt::format("{}: no local copy, and downloads are disabled", ref.name));
  const SourcePtr bytes = TRY(opened);
  return ResolvedBlob{lazy(bytes->size(), Later<SourcePtr>([=] { return verify_digest(ref, bytes); })), bytes};
}

bool Blobs::is_local(const BlobRef& ref) { return open_local_copy(ref).has_value(); }

BlobsPtr uncached_blobs() {
  static const BlobsPtr unstored = std::make_shared<UncachedBlobs>();
  return unstored;
}

}  // namespace weightfs
