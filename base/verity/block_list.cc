#include "base/verity/block_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace weightfs {
namespace {

constexpr size_t kDigestsPerBlock = kVerityBlockSize / sizeof(Digest);
constexpr std::array<std::byte, kVerityBlockSize> kZeros{};

using DescriptorBytes = std::array<std::byte, kVerityDescriptorSize>;

// The offsets of struct fsverity_descriptor. The root hash and the salt have space for longer ones; the fields that are
// not named here are zero.
constexpr size_t kVersionAt = 0, kAlgorithmAt = 1, kLogBlockSizeAt = 2, kSaltSizeAt = 3, kDataSizeAt = 8, kRootAt = 16;
constexpr auto kVersion = std::byte{1}, kAlgorithmSha256 = std::byte{1}, kLogBlockSize = std::byte{12};

uint64_t blocks_of(uint64_t bytes) { return bytes / kVerityBlockSize + (bytes % kVerityBlockSize == 0 ? 0 : 1); }

DescriptorBytes descriptor_of(uint64_t data_size, const Digest& root) {
  DescriptorBytes bytes{};
  bytes[kVersionAt] = kVersion;
  bytes[kAlgorithmAt] = kAlgorithmSha256;
  bytes[kLogBlockSizeAt] = kLogBlockSize;
  for (size_t i = 0; i < sizeof data_size; ++i) bytes[kDataSizeAt + i] = static_cast<std::byte>(data_size >> (8 * i));
  std::copy(root.bytes.begin(), root.bytes.end(), bytes.begin() + kRootAt);
  return bytes;
}

Digest digest_of(const DescriptorBytes& descriptor) {
  Sha256 hash;
  hash.update(descriptor);
  return hash.finish();
}

// The digest of a block, whose end is padded with zeros. `hash` was just created or restarted, and so it is afterwards.
Digest digest_of_block(Sha256& hash, std::span<const std::byte> bytes) {
  hash.update(bytes);
  hash.update(std::span(kZeros).first(kVerityBlockSize - bytes.size()));
  const Digest digest = hash.finish();
  hash.restart();
  return digest;
}

Result<void> check_parameters(const DescriptorBytes& bytes) {
  struct Parameter {
    std::string_view name;
    size_t at;
    std::byte expected;
  };
  constexpr auto kParameters = std::to_array<Parameter>({{"version", kVersionAt, kVersion},
                                                         {"hash algorithm", kAlgorithmAt, kAlgorithmSha256},
                                                         {"log2 of the block size", kLogBlockSizeAt, kLogBlockSize},
                                                         {"salt size", kSaltSizeAt, std::byte{0}}});
  for (const Parameter& parameter : kParameters)
    if (bytes[parameter.at] != parameter.expected)
      return failure(Code::unsupported,
                     fmt::format("block list: {} is {}, expected {}", parameter.name,
                                 std::to_integer<int>(bytes[parameter.at]), std::to_integer<int>(parameter.expected)));
  return {};
}

}  // namespace

BlockListLayout::BlockListLayout(uint64_t data_size) : data_size_(data_size) {
  for (uint64_t below = blocks_of(data_size); below > 1; ++levels_) {
    below = (below - 1) / kDigestsPerBlock + 1;
    blocks_[levels_] = below;
  }
  for (size_t level = levels_; level-- > 0; list_size_ += blocks_[level] * kVerityBlockSize)
    offsets_[level] = list_size_;
}

BlockListBuilder::BlockListBuilder(uint64_t size, Write write)
    : layout_(size), write_(std::move(write)), levels_(layout_.levels()) {}

Result<void> BlockListBuilder::add(std::span<const std::byte> bytes) {
  if (bytes.size() > layout_.data_size() - bytes_added_)
    return failure(Code::corrupt,
                   fmt::format("block list: the file exceeds its size of {} bytes", layout_.data_size()));
  bytes_added_ += bytes.size();
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kVerityBlockSize - data_block_used_);
    data_hash_.update(bytes.first(count));
    data_block_used_ += count;
    bytes = bytes.subspan(count);
    if (data_block_used_ == kVerityBlockSize) TRY_VOID(finish_data_block());
  }
  return {};
}

Result<Digest> BlockListBuilder::finish() {
  if (bytes_added_ < layout_.data_size())
    return failure(Code::corrupt,
                   fmt::format("block list: the file ends at byte {} of {}", bytes_added_, layout_.data_size()));
  if (data_block_used_ > 0) TRY_VOID(finish_data_block());
  for (size_t level = 0; level < levels_.size(); ++level)
    if (levels_[level].used > 0) TRY_VOID(write_tree_block(level));
  const DescriptorBytes descriptor = descriptor_of(layout_.data_size(), root_);
  TRY_VOID(write_(0, descriptor));
  return digest_of(descriptor);
}

Result<void> BlockListBuilder::finish_data_block() {
  data_hash_.update(std::span(kZeros).first(kVerityBlockSize - data_block_used_));
  data_block_used_ = 0;
  const Digest digest = data_hash_.finish();
  data_hash_.restart();
  return add_digest(0, digest);
}

// The digest of the only block of the last level is the root.
Result<void> BlockListBuilder::add_digest(size_t level, const Digest& digest) {
  if (level == levels_.size()) {
    root_ = digest;
    return {};
  }
  Level& to = levels_[level];
  std::memcpy(&to.bytes[to.used], digest.bytes.data(), sizeof digest.bytes);
  to.used += sizeof digest.bytes;
  return to.used == kVerityBlockSize ? write_tree_block(level) : Result<void>();
}

Result<void> BlockListBuilder::write_tree_block(size_t level) {
  Level& full = levels_[level];
  TRY_VOID(write_(layout_.offset(level, full.written), full.bytes));
  const Digest digest = digest_of_block(tree_hash_, full.bytes);
  full.bytes.fill(std::byte{0});
  full.used = 0;
  ++full.written;
  return add_digest(level + 1, digest);
}

Result<std::unique_ptr<const BlockList>> BlockList::open(SourcePtr list) {
  DescriptorBytes bytes{};
  if (list->size() < bytes.size())
    return failure(Code::corrupt, fmt::format("block list: {} bytes, at least {} needed", list->size(), bytes.size()));
  TRY_VOID(read_exact(*list, 0, bytes));
  TRY_VOID(check_parameters(bytes));
  uint64_t data_size = 0;
  for (size_t i = 0; i < sizeof data_size; ++i)
    data_size |= std::to_integer<uint64_t>(bytes[kDataSizeAt + i]) << (8 * i);
  Digest root;
  std::copy_n(bytes.begin() + kRootAt, root.bytes.size(), root.bytes.begin());
  if (bytes != descriptor_of(data_size, root) || (data_size == 0 && root != Digest()))
    return failure(Code::corrupt, "block list: a field of the descriptor that must be zero is not");
  const BlockListLayout layout(data_size);
  if (list->size() != layout.list_size())
    return failure(Code::corrupt, fmt::format("block list: {} bytes, expected {} for a file of {} bytes", list->size(),
                                              layout.list_size(), data_size));
  return std::unique_ptr<const BlockList>(new BlockList(std::move(list), layout, root, digest_of(bytes)));
}

Result<void> BlockList::verify(uint64_t offset, std::span<const std::byte> bytes) const {
  if (offset > size() || bytes.size() > size() - offset)
    return failure(Code::mismatch, fmt::format("{} bytes at byte {} exceed the {} bytes of the block list",
                                               bytes.size(), offset, size()));
  const uint64_t end = offset + bytes.size();
  if (offset % kVerityBlockSize != 0 || (end % kVerityBlockSize != 0 && end != size()))
    return failure(Code::unsupported,
                   fmt::format("the bytes from {} to {} are not whole blocks of {}", offset, end, kVerityBlockSize));
  Sha256 hash;
  std::array<Digest, kDigestsPerBlock> expected;
  for (uint64_t block = offset / kVerityBlockSize; !bytes.empty();) {
    const size_t first = block % kDigestsPerBlock;
    const auto count = static_cast<size_t>(std::min<uint64_t>(kDigestsPerBlock - first, blocks_of(bytes.size())));
    const auto digests = std::span(expected).first(count);
    if (layout_.levels() == 0)
      digests.front() = root_;
    else
      TRY_VOID(read_tree(0, block / kDigestsPerBlock, first * sizeof(Digest), std::as_writable_bytes(digests)));
    for (const Digest& digest : digests) {
      const auto data = bytes.first(std::min(bytes.size(), kVerityBlockSize));
      if (const Digest found = digest_of_block(hash, data); found != digest)
        return failure(Code::mismatch, fmt::format("the block at byte {} has the digest {}, expected {}",
                                                   block * kVerityBlockSize, found.hex(), digest.hex()));
      bytes = bytes.subspan(data.size());
      ++block;
    }
  }
  return {};
}

// Copies bytes of a verified tree block.
Result<void> BlockList::read_tree(size_t level, uint64_t block, size_t offset, std::span<std::byte> out) const {
  const uint64_t index = layout_.offset(level, block) / kVerityBlockSize;  // unique, as all offsets differ by blocks
  return tree_blocks_.read(
      index, kVerityBlockSize,
      [this, level, block](std::span<std::byte> bytes) { return read_tree_block(level, block, bytes); }, offset, out);
}

Result<void> BlockList::read_tree_block(size_t level, uint64_t block, std::span<std::byte> out) const {
  Digest expected = root_;
  if (level + 1 < layout_.levels())
    TRY_VOID(read_tree(level + 1, block / kDigestsPerBlock, block % kDigestsPerBlock * sizeof(Digest), expected.bytes));
  TRY_VOID(read_exact(*list_, layout_.offset(level, block), out));
  Sha256 hash;
  if (const Digest found = digest_of_block(hash, out); found != expected)
    return failure(Code::mismatch, fmt::format("block list: tree block {} of level {} has the digest {}, expected {}",
                                               block, level, found.hex(), expected.hex()));
  return {};
}

}  // namespace weightfs
