#include "base/digest_verifier.h"

#include <fmt/core.h>

#include "base/text.h"

namespace weightfs {
namespace {

class VerifyingStream final : public Stream {
 public:
  VerifyingStream(const BlobProducer& producer, StreamPtr stream) : verifier_(producer), stream_(std::move(stream)) {}

  Result<size_t> next(std::span<std::byte> out) override {
    const size_t got = TRY(stream_->next(out));
    if (got > 0)
      TRY_VOID(verifier_.add(out.first(got)));
    else
      TRY(verifier_.finish());
    return got;
  }

 private:
  DigestVerifier verifier_;
  StreamPtr stream_;
};

}  // namespace

Result<void> DigestVerifier::add(std::span<const std::byte> bytes) {
  if (size_ && bytes.size() > *size_ - bytes_added_)
    return failure(Code::corrupt, fmt::format("{}: longer than the {} declared bytes", name_, *size_));
  bytes_added_ += bytes.size();
  hash_.update(bytes);
  return {};
}

Result<Digest> DigestVerifier::finish() {
  if (size_ && bytes_added_ < *size_)
    return failure(Code::corrupt, fmt::format("{}: ends at byte {} of {}", name_, bytes_added_, *size_));
  const Digest digest = hash_.finish();
  if (digest_ && *digest_ != digest)
    return failure(Code::mismatch,
                   fmt::format("{}: digest mismatch: found {}, expected {}", name_, digest.hex(), digest_->hex()));
  return digest;
}

BlobProducer with_verification(BlobProducer producer) {
  BlobProducer out = producer;
  out.start = [producer = std::move(producer)]() -> Result<StreamPtr> {
    return std::make_unique<VerifyingStream>(producer, TRY(producer.start()));
  };
  return out;
}

}  // namespace weightfs
