#include "formats/tensorflow/checkpoint/table.h"

#include <fmt/core.h>

#include "base/digest.h"
#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/codec/snappy.h"

namespace weightfs::tensorflow {
namespace {

using protobuf::Range;
using protobuf::Scanner;
using protobuf::WireType;

constexpr uint64_t kFooter = 48;
constexpr uint64_t kTrailer = 5;  // the compression, and the checksum
constexpr uint64_t kMaxKey = 1 << 20;
constexpr uint64_t kMaxSizeBytes = 5;  // of the size in a block of Snappy

enum Compression : uint8_t { kNone = 0, kSnappy = 1 };

Result<BlockHandle> read_handle(Scanner& scanner, uint64_t& at, uint64_t end) {
  BlockHandle handle;
  handle.offset = TRY(scanner.number(at, end, WireType::varint));
  handle.size = TRY(scanner.number(at, end, WireType::varint));
  return handle;
}

tl::unexpected<Error> differs(const BlockHandle& handle) {
  return failure(Code::corrupt, fmt::format("the checksum of the block at {} differs", handle.offset));
}

// A block with its trailer; the block alone is returned if the checksum matches.
Result<std::string> verified_block(const Source& file, const BlockHandle& handle) {
  std::string block = TRY(read_text(file, handle.offset, handle.size + kTrailer));
  const auto stored = static_cast<uint32_t>(little_endian(std::string_view(block).substr(handle.size + 1)));
  block.resize(handle.size + 1);
  if (crc32c(std::as_bytes(std::span(block))) != unmasked_crc32c(stored)) return differs(handle);
  block.pop_back();
  return block;
}

// The bytes of a block of Snappy, which are decoded at once. The memory is charged while they are read.
class DecodedBlock final : public Stream {
 public:
  DecodedBlock(Loan loan, std::string bytes) : loan_(std::move(loan)), bytes_(std::move(bytes)) {}

  Result<size_t> next(std::span<std::byte> out) override {
    const size_t count = std::min(out.size(), bytes_.size() - at_);
    std::copy_n(std::as_bytes(std::span(bytes_)).begin() + static_cast<ptrdiff_t>(at_), count, out.begin());
    at_ += count;
    return count;
  }

 private:
  Loan loan_;
  std::string bytes_;
  size_t at_ = 0;
};

}  // namespace

Result<BlockEntries> BlockEntries::of(SourcePtr block, Budget* budget) {
  constexpr uint64_t kCount = 4;
  BlockEntries entries(std::move(block), budget);
  const uint64_t size = entries.block_->size();
  if (size < kCount) return failure(Code::corrupt, fmt::format("a block of {} bytes", size));
  uint64_t at = size - kCount;
  const uint64_t restarts = TRY(entries.scanner_->number(at, size, WireType::fixed32));
  if (restarts > size / kCount - 1)
    return failure(Code::corrupt, fmt::format("{} restarts in a block of {} bytes", restarts, size));
  entries.end_ = restarts == 0 ? 0 : size - kCount * (restarts + 1);
  return entries;
}

Result<uint64_t> BlockEntries::length() { return scanner_->number(at_, end_, WireType::varint); }

Result<bool> BlockEntries::next() {
  if (at_ == end_) return false;
  const uint64_t shared = TRY(length());
  const uint64_t own = TRY(length());
  const uint64_t size = TRY(length());
  if (shared > key_.size())
    return failure(Code::corrupt, fmt::format("a key shares {} bytes with one of {}", shared, key_.size()));
  if (own > end_ - at_ || size > end_ - at_ - own)
    return failure(Code::corrupt, fmt::format("an entry of {} and {} bytes, {} left", own, size, end_ - at_));
  if (own > kMaxKey || shared + own > kMaxKey) return failure(Code::unsupported, "a key of more than 1 MiB");
  const std::string tail = TRY(scanner_->text({at_, at_ + own}, own));
  const bool ascends = is_first_ || std::string_view(key_).substr(shared) < tail;
  key_.resize(shared);
  key_ += tail;
  if (!ascends) return failure(Code::corrupt, fmt::format("the key {} is not in order", quoted(key_)));
  is_first_ = false;
  value_ = {at_ + own, at_ + own + size};
  at_ = value_.end;
  return true;
}

Result<Table> Table::open(const Container& container) {
  Table table(container);
  TRY_VOID(table.read_index());
  return table;
}

Result<BlockHandle> Table::index_handle() const {
  if (file_->size() < kFooter) return failure(Code::corrupt, "no footer of a table");
  const uint64_t begin = file_->size() - kFooter;
  const uint64_t end = file_->size() - kTableMagic.size();
  if (TRY(read_text(*file_, end, kTableMagic.size())) != kTableMagic)
    return failure(Code::corrupt, "no table: its magic number is missing");
  Scanner scanner(*file_, budget_.get());
  uint64_t at = begin;
  TRY(read_handle(scanner, at, end));  // of the metaindex, which has no entries
  return read_handle(scanner, at, end);
}

Result<void> Table::check_inside(const BlockHandle& handle) const {
  const uint64_t size = file_->size();
  if (size >= kTrailer && handle.offset <= size - kTrailer && handle.size <= size - kTrailer - handle.offset) return {};
  return failure(Code::corrupt,
                 fmt::format("a block of {} bytes at {}, the file has {}", handle.size, handle.offset, size));
}

Result<void> Table::read_index() {
  const BlockHandle index = TRY(index_handle());
  Charges charges(*budget_);
  BlockEntries found = TRY(entries(index, charges));
  uint64_t end = 0;
  while (TRY(found.next())) {
    uint64_t at = found.value().begin;
    const BlockHandle handle = TRY(read_handle(found.scanner(), at, found.value().end));
    TRY_VOID(check_inside(handle));
    if (handle.offset < end)
      return failure(Code::corrupt,
                     fmt::format("the block at {} begins before {}, where the one before ends", handle.offset, end));
    end = handle.offset + handle.size + kTrailer;
    TRY_VOID(budget_->charge(Cost::value));
    TRY_VOID(budget_->charge(Cost::kept, found.key().size()));
    blocks_.push_back({found.key(), handle});
  }
  return {};
}

Result<bool> Table::is_compressed(const BlockHandle& handle) const {
  const std::string type = TRY(read_text(*file_, handle.offset + handle.size, 1));
  const auto compression = static_cast<uint8_t>(type.front());
  if (compression == kNone || compression == kSnappy) return compression == kSnappy;
  return failure(Code::unsupported, fmt::format("compression {} of the block at {}", compression, handle.offset));
}

Result<BlockEntries> Table::entries(const BlockHandle& handle, Charges& charges) const {
  TRY_VOID(check_inside(handle));
  const bool compressed = TRY(is_compressed(handle));
  TRY_VOID(charges.charge(Cost::input, handle.size));
  TRY_VOID(charges.charge(Cost::kept, handle.size));
  std::string block = TRY(verified_block(*file_, handle));
  if (compressed) {
    const uint64_t size = TRY(codec::snappy_size(block, block.size()));
    TRY_VOID(charges.charge(Cost::output, size));
    TRY_VOID(charges.charge(Cost::kept, size));
    block = TRY(codec::snappy_decode(block));
  }
  return BlockEntries::of(in_memory(std::move(block)), budget_.get());
}

Result<void> Table::check(const BlockHandle& handle) const {
  TRY_VOID(budget_->charge(Cost::input, handle.size));
  const Slice block = TRY(slice(file_, handle.offset, handle.size + 1));
  const std::string behind = TRY(read_text(*file_, handle.offset + handle.size + 1, kTrailer - 1));
  const auto stored = static_cast<uint32_t>(little_endian(behind));
  return TRY(crc32c_of(block, RangeSum())) == unmasked_crc32c(stored) ? Result<void>() : differs(handle);
}

Result<FileCheck> Table::checked_blocks(std::string name) const {
  RangeChecksums stored{.is_table = true};
  TRY_VOID(budget_->charge(Cost::kept, sizeof(RangeChecksum) * blocks_.size()));
  stored.ranges.reserve(blocks_.size());
  for (const Block& block : blocks_)
    stored.ranges.push_back({.offset = block.handle.offset, .size = block.handle.size + 1});  // and its compression
  return FileCheck{std::move(name), Later<SourcePtr>::of(file_), std::move(stored)};
}

Result<SourcePtr> Table::bytes(const BlockHandle& handle) const {
  const Slice block = TRY(slice(file_, handle.offset, handle.size));
  if (!TRY(is_compressed(handle))) return std::make_shared<const Slice>(block);
  const std::string begin = TRY(read_text(block, 0, std::min(handle.size, kMaxSizeBytes)));
  const uint64_t size = TRY(codec::snappy_size(begin, handle.size));
  const std::string identity = file_->identity();
  BlobProducer producer{.name = fmt::format("block at {}", handle.offset), .size = size, .depth = depth_ + 1};
  if (!identity.empty()) producer.key = fmt::format("{} Snappy block {}", identity, handle.offset);
  producer.costly_start = true;
  producer.start = [file = file_, handle, size, budget = budget_]() -> Result<StreamPtr> {
    Loan loan = TRY(Loan::take(budget, size + handle.size));
    const std::string stored = TRY(verified_block(*file, handle));
    std::string decoded = TRY(codec::snappy_decode(stored));
    return std::make_unique<DecodedBlock>(std::move(loan), std::move(decoded));
  };
  return blobs_->blob(std::move(producer));
}

}  // namespace weightfs::tensorflow
