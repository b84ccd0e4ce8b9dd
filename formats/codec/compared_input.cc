#include "formats/codec/compared_input.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "formats/codec/codec_meter.h"

namespace weightfs::codec {
namespace {

constexpr size_t kRestStep = 256 << 10;  // bytes after the compressed data that are read at a time

// Hashes bytes as a decoder reads them: all decoders read in order, from the first byte on.
class HashedInput final : public Source {
 public:
  explicit HashedInput(SourcePtr bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_->size(); }
  std::string identity() const override { return bytes_->identity(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return hashed(offset, out, bytes_->read(offset, out));
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return hashed(offset, out, bytes_->read_ahead(offset, out, expected));
  }

  uint64_t bytes_left() const { return size() - next_; }
  const Source& whole() const { return *bytes_; }

  // Hashes the bytes that the decoder has not read. To be called once.
  Result<Digest> finish() {
    std::vector<std::byte> buffer(static_cast<size_t>(std::min<uint64_t>(kRestStep, bytes_left())));
    while (bytes_left() > 0 && is_in_order_) {
      const auto out = std::span(buffer).first(static_cast<size_t>(std::min<uint64_t>(buffer.size(), bytes_left())));
      if (TRY(read_ahead(next_, out, {next_, size()})) == 0)
        return failure(Code::io, fmt::format("ends at byte {} of {}", next_, size()));
    }
    if (!is_in_order_) return failure(Code::io, "the compressed data were not read in order");
    return hash_.finish();
  }

 private:
  Result<size_t> hashed(uint64_t offset, std::span<const std::byte> out, Result<size_t> got) const {
    if (!got || *got == 0) return got;
    is_in_order_ = is_in_order_ && offset == next_;
    hash_.update(out.first(*got));
    next_ += *got;
    return got;
  }

  SourcePtr bytes_;
  // One reader, one thread at a time: Stream's rule.
  mutable Sha256 hash_;
  mutable uint64_t next_ = 0;  // offset of the first byte that is not hashed
  mutable bool is_in_order_ = true;
};

class ComparedStream final : public Stream {
 public:
  ComparedStream(SourcePtr compressed, const Digest& digest, std::function<void()> on_match)
      : input_(std::make_shared<HashedInput>(std::move(compressed))), digest_(digest), on_match_(std::move(on_match)) {}

  Result<void> start(const std::function<Result<StreamPtr>(SourcePtr)>& decode) {
    decoder_ = TRY(decode(input_).map_error([this](const Error& error) { return after_comparison(error); }));
    return {};
  }

  Result<size_t> next(std::span<std::byte> out) override {
    const auto got = decoder_->next(out);
    if (!got) return tl::unexpected(after_comparison(got.error()));
    output_ += *got;
    if (*got == 0) TRY_VOID(compare());
    return got;
  }

 private:
  Error after_comparison(const Error& error) const { return compared_error(input_->whole(), error); }

  Result<void> compare() {
    if (const uint64_t left = input_->bytes_left(); left > kFreeInput + kInputPerOutput * output_)
      return failure(after_comparison({Code::corrupt, fmt::format("{} bytes follow the compressed data", left)}));
    const Digest found = TRY(input_->finish());
    if (found != digest_)
      return failure(Code::mismatch, fmt::format("digest mismatch: found {}, expected {}", found.hex(), digest_.hex()));
    if (on_match_) on_match_();
    return {};
  }

  const std::shared_ptr<HashedInput> input_;
  const Digest digest_;
  const std::function<void()> on_match_;
  StreamPtr decoder_;  // reads input_
  uint64_t output_ = 0;
};

// The blob may be in the middle of its publication, which cannot be ended: prefetch() waits for it. It would download
// what was evicted meanwhile.
void release_input(Blobs& blobs, const Source& compressed, const Digest& digest) {
  const auto cached = compressed.cached({0, compressed.size()});
  if (cached && cached->now == compressed.size() && !compressed.prefetch({0, compressed.size()})) return;
  blobs.release(digest);
}

}  // namespace

std::string key_of_decoded(const Digest& input, std::string_view compression) {
  return fmt::format("sha256 {} decoded from {}", input.hex(), compression);
}

Error compared_error(const Source& compressed, const Error& error) {
  if (!is_about_the_bytes(error)) return error;
  const auto whole = compressed.prefetch({0, compressed.size()});
  return !whole && whole.error().code == Code::mismatch ? whole.error() : error;
}

Result<StreamPtr> compare_input(SourcePtr compressed, const Digest& digest,
                                const std::function<Result<StreamPtr>(SourcePtr)>& decode,
                                std::function<void()> on_match) {
  auto stream = std::make_unique<ComparedStream>(std::move(compressed), digest, std::move(on_match));
  TRY_VOID(stream->start(decode));
  return stream;
}

Result<SourcePtr> materialize_compared(Blobs& blobs, BlobProducer producer, const SourcePtr& compressed,
                                       const Digest& digest, std::function<Result<StreamPtr>(SourcePtr)> decode) {
  const auto is_compared = std::make_shared<std::atomic<bool>>(false);
  producer.start = [=, decode = std::move(decode)] {
    return compare_input(compressed, digest, decode, [is_compared] { *is_compared = true; });
  };
  const BlobProducer wanted = producer;
  SourcePtr decoded = TRY(blobs.materialize(std::move(producer)));
  if (*is_compared && blobs.is_decoded(wanted)) release_input(blobs, *compressed, digest);
  return decoded;
}

}  // namespace weightfs::codec
