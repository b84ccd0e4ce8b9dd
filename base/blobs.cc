#include "base/blobs.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "base/proof.h"
#include "base/text.h"

namespace weightfs {
namespace {

constexpr size_t kStep = 256 * 1024;

thread_local bool asks_for_size = false;

// A stream as a source: it goes on where the last read ended, or starts anew.
class Streamed final : public Source {
 public:
  Streamed(Recipe recipe, uint64_t size) : recipe_(std::move(recipe)), size_(size) {}

  uint64_t size() const override { return size_; }

  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size_) return size_t{0};
    const auto wanted = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - offset)));
    const std::scoped_lock lock(mutex_);
    auto done = fill(offset, wanted);
    if (done) return wanted.size();
    stream_ = nullptr;
    return tl::unexpected(std::move(done).error());
  }

  std::string identity() const override { return recipe_.key; }

 private:
  Result<void> fill(uint64_t offset, std::span<std::byte> out) const {
    if (stream_ == nullptr || offset < at_) {
      stream_ = TRY(recipe_.start());
      at_ = 0;
    }
    std::vector<std::byte> passed(offset > at_ ? kStep : 0);
    while (at_ < offset)
      TRY_VOID(take(std::span(passed).first(static_cast<size_t>(std::min<uint64_t>(kStep, offset - at_)))));
    while (!out.empty()) {
      const size_t got = TRY(take(out));
      out = out.subspan(got);
    }
    // The last byte is right only if the stream says that it was.
    if (at_ < size_) return {};
    std::byte more;
    const size_t beyond = TRY(stream_->next(std::span(&more, 1)));
    stream_ = nullptr;
    if (beyond > 0)
      return failure(Code::corrupt, str(recipe_.name, ": longer than the ", size_, " bytes that it should have"));
    return {};
  }

  Result<size_t> take(std::span<std::byte> out) const {
    const size_t got = TRY(stream_->next(out));
    if (got == 0) return failure(Code::corrupt, str(recipe_.name, ": ends at byte ", at_, " of ", size_));
    at_ += got;
    return got;
  }

  Recipe recipe_;
  uint64_t size_;
  mutable std::mutex mutex_;  // guards the next two
  mutable StreamPtr stream_;
  mutable uint64_t at_ = 0;  // the next byte that it gives
};

// The digest of all of it, which somebody may not want to wait for.
Result<SourcePtr> checked(const Wanted& wanted, SourcePtr bytes) {
  const Digest digest = TRY(sha256(*bytes));
  if (digest == wanted.digest) return bytes;
  return failure(Code::mismatch,
                 str(wanted.name, ": the digest of its bytes is ", digest.hex(), ", not ", wanted.digest.hex()));
}

class Unstored final : public Blobs {
 public:
  SourcePtr blob(Recipe recipe) override {
    const uint64_t size = recipe.size.value_or(0);
    return std::make_shared<Streamed>(recipe.digest ? proving(std::move(recipe)) : std::move(recipe), size);
  }

  Result<SourcePtr> made(Recipe recipe) override {
    std::vector<std::byte> buffer(kStep);
    uint64_t size = 0;
    const StreamPtr stream = TRY(recipe.start());
    while (const size_t got = TRY(stream->next(buffer))) size += got;
    return std::make_shared<Streamed>(std::move(recipe), size);
  }
};

}  // namespace

SizeQuery::SizeQuery() : outer_(std::exchange(asks_for_size, true)) {}

SizeQuery::~SizeQuery() { asks_for_size = outer_; }

bool SizeQuery::is_active() { return asks_for_size; }

Result<SourcePtr> here_of(const Wanted& wanted) {
  if (!wanted.here) return failure(Code::not_found, str(wanted.name, ": not here"));
  SourcePtr bytes = TRY(wanted.here());
  if (wanted.size && bytes->size() != *wanted.size)
    return failure(Code::mismatch, str(wanted.name, ": has ", bytes->size(), " bytes, not ", *wanted.size));
  return bytes;
}

Result<Found> Blobs::named(const Wanted& wanted) {
  const auto bytes = here_of(wanted);
  if (!bytes && bytes.error().code == Code::not_found)
    return failure(Code::network, str(wanted.name, ": not here, and nothing is fetched"));
  const SourcePtr there = TRY(bytes);
  return Found{lazy(there->size(), Later<SourcePtr>([=] { return checked(wanted, there); })), there};
}

bool Blobs::is_at_hand(const Wanted& wanted) { return here_of(wanted).has_value(); }

BlobsPtr unstored_blobs() {
  static const BlobsPtr unstored = std::make_shared<Unstored>();
  return unstored;
}

}  // namespace weightfs
