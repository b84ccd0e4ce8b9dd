#include "serve/mirror/for_client.h"

#include <utility>

#include "base/cancel.h"

namespace weightfs::mirror {
namespace {

using Clock = std::chrono::steady_clock;

class ClientBytes final : public Source {
 public:
  ClientBytes(SourcePtr bytes, std::function<bool()> has_left, std::chrono::milliseconds within)
      : bytes_(std::move(bytes)), has_left_(std::move(has_left)), within_(within) {}

  uint64_t size() const override { return bytes_->size(); }
  uint64_t occupied() const override { return bytes_->occupied(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    return in_time([&] { return bytes_->read(offset, out); });
  }
  Result<size_t> read_ahead(uint64_t offset, std::span<std::byte> out, ByteRange expected) const override {
    return in_time([&] { return bytes_->read_ahead(offset, out, expected); });
  }
  Result<void> prefetch(ByteRange range) const override {
    return in_time([&] { return bytes_->prefetch(range); });
  }
  Result<CachedBytes> cached(ByteRange range) const override {
    return in_time([&] { return bytes_->cached(range); });
  }
  Result<Place> place(uint64_t offset, Opens opens) const override {
    return in_time([&] { return bytes_->place(offset, opens); });
  }
  std::shared_ptr<const void> keep_cached() const override { return bytes_->keep_cached(); }
  std::string identity() const override { return bytes_->identity(); }
  VerifiedBy verification() const override { return bytes_->verification(); }
  SourcePtr verified_file() const override { return bytes_->verified_file(); }

 private:
  // A client that has only closed its sending end gets what comes at once.
  template <class Work>
  auto in_time(Work work) const -> decltype(work()) {
    const auto begun = Clock::now();
    const CancelScope scope([this, begun] {
      const auto now = Clock::now();
      return now >= begun + within_ || (has_left_ && now >= begun + kCancelCheck && has_left_());
    });
    auto done = work();
    const bool is_cut = !done && is_cancelled();
    if (is_cut && Clock::now() >= begun + within_) return failure(timeout("the origin does not respond"));
    return done;
  }

  const SourcePtr bytes_;
  const std::function<bool()> has_left_;
  const std::chrono::milliseconds within_;
};

}  // namespace

SourcePtr for_client(SourcePtr bytes, std::function<bool()> has_left, std::chrono::milliseconds within) {
  return std::make_shared<ClientBytes>(std::move(bytes), std::move(has_left), within);
}

}  // namespace weightfs::mirror
