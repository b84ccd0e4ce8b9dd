// Decodes the first bytes of a member of a zip, for format detection.
#include <algorithm>

#include "formats/archive/zip.h"
#include "formats/codec/codec.h"
#include "formats/format.h"

namespace weightfs::archive {
namespace {

// Reads little at a time, so that the input read is the input decoded.
class SmallReads final : public Source {
 public:
  SmallReads(std::string bytes, size_t sip) : bytes_(in_memory(std::move(bytes))), sip_(sip) {}
  uint64_t size() const override { return bytes_->size(); }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const size_t got = TRY(bytes_->read(offset, out.first(std::min(out.size(), sip_))));
    read_ += got;
    return got;
  }
  uint64_t read() const { return read_; }
  uint64_t sip() const { return sip_; }

 private:
  SourcePtr bytes_;
  size_t sip_;
  mutable uint64_t read_ = 0;  // one decoder, in one thread
};

}  // namespace

Result<void> charge_head(Budget& budget, const HeadCost& cost) {
  constexpr uint64_t kSteps = 4;  // a decoder is made
  TRY_VOID(budget.charge(Cost::step, kSteps + codec::steps_of_empty_input(cost.empty)));
  TRY_VOID(budget.charge(Cost::input, cost.input));
  return budget.charge(Cost::output, cost.output);
}

Result<std::string> read_head(const StoredRange& range, size_t most, HeadCost& cost) {
  // zstd decodes whole blocks of at most 128 KiB; then its input is compared with its output.
  constexpr uint64_t kZstdBlock = 128 << 10;
  const bool blocks = range.method == kZstd;
  const uint64_t input = std::min<uint64_t>(range.bytes.size(), blocks ? kZstdBlock + 4096 : 2 * most + 4096);
  if (range.method == kStored) {
    cost.input = std::min<uint64_t>(range.bytes.size(), most);
    return read_text(range.bytes, 0, cost.input);
  }
  cost.input = input;
  // The limits of a decoder count what it asks for: of a longer head many small reads would exceed them.
  constexpr size_t kSip = 512;
  std::string head = TRY(read_text(range.bytes, 0, input));
  const auto stored = std::make_shared<const SmallReads>(std::move(head), most <= kHeadSize ? kSip : most);
  std::string out(blocks ? std::max<size_t>(most, kZstdBlock) : most, '\0');
  const auto decode = [&]() -> Result<size_t> {
    const StreamPtr stream = TRY((blocks ? codec::zstd_stream : codec::inflate_stream)(stored));
    while (cost.output < most) {
      const size_t got = TRY(stream->next(std::as_writable_bytes(std::span(out)).subspan(cost.output)));
      if (got == 0) break;
      cost.output += got;
    }
    return cost.output;
  };
  const auto size = decode();
  const uint64_t useful = cost.output + stored->sip();
  cost.empty = stored->read() - std::min(stored->read(), useful);
  out.resize(std::min<size_t>(TRY(size), most));
  return out;
}

Result<std::string> member_head(const Source& member, size_t most, Budget& budget) {
  constexpr uint64_t kSteps = 20;  // libzip reads a local header
  TRY_VOID(budget.charge(Cost::step, kSteps));
  HeadCost cost;
  const auto range = TRY(stored_range_of(member));
  if (!range) cost.input = std::min<uint64_t>(member.size(), most);
  auto head = range ? read_head(*range, most, cost) : read_text(member, 0, cost.input);
  TRY_VOID(charge_head(budget, cost));
  return head;
}

}  // namespace weightfs::archive
