// The file: "weightfs sums 1\n", the digest (32 bytes), the blob's size (8), a CRC-32 for each block (4 each), and the
// CRC-32 of all that (4). Numbers are little-endian.
#include "cache/store/block_sums.h"

#include <algorithm>

#include "base/values/little_endian.h"

namespace weightfs::store {
namespace {

constexpr std::string_view kMagic = "weightfs sums 1\n";
constexpr size_t kSumBytes = sizeof(uint32_t);
constexpr uint64_t kOverhead = kMagic.size() + sizeof(Digest::bytes) + sizeof(uint64_t) + kSumBytes;

uint32_t sum_at(std::string_view bytes, size_t offset) {
  return static_cast<uint32_t>(little_endian(bytes.substr(offset, kSumBytes)));
}

std::string header(const Digest& digest, uint64_t size) {
  std::string out(kMagic);
  out.append(reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size());
  append_little_endian(out, size, sizeof size);
  return out;
}

uint32_t crc_of(std::string_view text) { return crc32(0, std::as_bytes(std::span(text))); }

}  // namespace

void BlockSums::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const uint64_t within = size_ % kBlock;
    if (within == 0) sums_.push_back(0);
    const auto part = bytes.first(static_cast<size_t>(std::min<uint64_t>(bytes.size(), kBlock - within)));
    sums_.back() = crc32(sums_.back(), part);
    size_ += part.size();
    bytes = bytes.subspan(part.size());
  }
}

uint64_t BlockSums::encoded_size(uint64_t size) {
  return kOverhead + (size / kBlock + (size % kBlock == 0 ? 0 : 1)) * kSumBytes;
}

std::string BlockSums::encode(const Digest& digest) const {
  std::string out = header(digest, size_);
  out.reserve(encoded_size(size_));
  for (const uint32_t sum : sums_) append_little_endian(out, sum, kSumBytes);
  append_little_endian(out, crc_of(out), kSumBytes);
  return out;
}

std::optional<BlockSums> BlockSums::decode(std::string_view file, const Digest& digest, uint64_t size) {
  if (file.size() != encoded_size(size) || !file.starts_with(header(digest, size))) return std::nullopt;
  const size_t end = file.size() - kSumBytes;
  if (crc_of(file.substr(0, end)) != sum_at(file, end)) return std::nullopt;
  BlockSums out;
  out.size_ = size;
  for (size_t at = kOverhead - kSumBytes; at < end; at += kSumBytes) out.sums_.push_back(sum_at(file, at));
  return out;
}

}  // namespace weightfs::store
