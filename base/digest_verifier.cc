#include "base/proof.h"

#include "base/text.h"

namespace weightfs {
namespace {

class Proving final : public Stream {
 public:
  Proving(const Recipe& recipe, StreamPtr stream) : proof_(recipe), stream_(std::move(stream)) {}

  Result<size_t> next(std::span<std::byte> out) override {
    const size_t got = TRY(stream_->next(out));
    if (got > 0)
      TRY_VOID(proof_.add(out.first(got)));
    else
      TRY(proof_.end());
    return got;
  }

 private:
  Proof proof_;
  StreamPtr stream_;
};

}  // namespace

Result<void> Proof::add(std::span<const std::byte> bytes) {
  if (size_ && bytes.size() > *size_ - seen_)
    return failure(Code::corrupt, str(name_, ": longer than the ", *size_, " bytes that it should have"));
  seen_ += bytes.size();
  hash_.update(bytes);
  return {};
}

Result<Digest> Proof::end() {
  if (size_ && seen_ < *size_) return failure(Code::corrupt, str(name_, ": ends at byte ", seen_, " of ", *size_));
  const Digest digest = hash_.finish();
  if (digest_ && *digest_ != digest)
    return failure(Code::mismatch, str(name_, ": the digest of its bytes is ", digest.hex(), ", not ", digest_->hex()));
  return digest;
}

Recipe proving(Recipe recipe) {
  Recipe proved = recipe;
  proved.start = [recipe = std::move(recipe)]() -> Result<StreamPtr> {
    return std::make_unique<Proving>(recipe, TRY(recipe.start()));
  };
  return proved;
}

}  // namespace weightfs
