#include "cache/store/recheck.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/cancel.h"
#include "base/text.h"

namespace weightfs::store {
namespace {

constexpr size_t kBufferSize = 1 << 20;
constexpr uint64_t kBits = 64;
constexpr std::chrono::milliseconds kCancelCheck{100};

}  // namespace

RecheckedFile::RecheckedFile(const Digest& digest, uint64_t size, Recheck policy, Hooks hooks,
                             std::optional<BlockSums> sums)
    : digest_(digest), size_(size), policy_(policy), hooks_(std::move(hooks)) {
  if (!sums || sums->size() != size) return;
  sums_ = std::move(*sums);
  verified_blocks_ = std::make_unique<std::atomic<uint64_t>[]>(sums_.blocks() / kBits + 1);
  prepared_ = true;
}

Result<void> RecheckedFile::read(int fd, uint64_t offset, std::span<std::byte> out) {
  if (out.empty()) return {};
  if (offset > size_ || out.size() > size_ - offset) return failure(Code::io, "a cached blob is truncated");
  if (!prepared_.load(std::memory_order_acquire)) TRY_VOID(prepare(fd));
  TRY_VOID(read_fully(fd, offset, out));
  const auto last = static_cast<size_t>((offset + out.size() - 1) / BlockSums::kBlock);
  for (auto block = static_cast<size_t>(offset / BlockSums::kBlock); block <= last; ++block)
    if ((verified_blocks_[block / kBits].load(std::memory_order_relaxed) >> block % kBits & 1) == 0)
      TRY_VOID(check(fd, block, offset, out));
  return {};
}

// Serves exactly the compared bytes.
Result<void> RecheckedFile::check(int fd, size_t block, uint64_t offset, std::span<std::byte> out) {
  const uint64_t begin = block * BlockSums::kBlock;
  const uint64_t end = std::min(size_, begin + BlockSums::kBlock);
  uint32_t sum = 0;
  if (offset <= begin && end <= offset + out.size()) {
    sum = crc32(0, out.subspan(static_cast<size_t>(begin - offset), static_cast<size_t>(end - begin)));
  } else {
    thread_local std::vector<std::byte> buffer(BlockSums::kBlock);
    const auto block_bytes = std::span(buffer).first(static_cast<size_t>(end - begin));
    TRY_VOID(read_fully(fd, begin, block_bytes));
    sum = crc32(0, block_bytes);
    const uint64_t from = std::max(begin, offset);
    const uint64_t to = std::min(end, offset + out.size());
    std::memcpy(out.data() + (from - offset), block_bytes.data() + (from - begin), static_cast<size_t>(to - from));
  }
  if (sum != sums_.sum(block)) return tl::unexpected(damage(fmt::format("the block at byte {} is damaged", begin)));
  verified_blocks_[block / kBits].fetch_or(uint64_t{1} << block % kBits, std::memory_order_relaxed);
  return {};
}

// One thread prepares; waiting threads can be cancelled.
Result<void> RecheckedFile::prepare(int fd) {
  std::unique_lock lock(mutex_, std::defer_lock);
  while (!lock.try_lock_for(kCancelCheck))
    if (is_cancelled()) return failure(Code::resource, "cancelled while a cached blob was verified");
  if (prepared_) return {};
  std::optional<BlockSums> saved = hooks_.load();
  const bool verify = policy_ == Recheck::full || !saved;
  BlockSums sums = verify ? TRY(verify_all(fd)) : std::move(*saved);
  if (!saved) hooks_.save(sums);
  const size_t words = sums.blocks() / kBits + 1;
  verified_blocks_ = std::make_unique<std::atomic<uint64_t>[]>(words);
  for (size_t i = 0; verify && i < words; ++i) verified_blocks_[i] = UINT64_MAX;
  sums_ = std::move(sums);
  prepared_.store(true, std::memory_order_release);
  return {};
}

Result<BlockSums> RecheckedFile::verify_all(int fd) {
  std::vector<std::byte> buffer(static_cast<size_t>(std::min<uint64_t>(kBufferSize, size_)));
  Sha256 hash;
  BlockSums sums;
  while (sums.size() < size_) {
    if (is_cancelled() || hooks_.stopped())
      return failure(Code::resource, "cancelled while a cached blob was verified");
    const auto part =
        std::span(buffer).first(static_cast<size_t>(std::min<uint64_t>(kBufferSize, size_ - sums.size())));
    TRY_VOID(read_fully(fd, sums.size(), part));
    hash.update(part);
    sums.add(part);
  }
  const Digest found = hash.finish();
  if (found != digest_) return tl::unexpected(damage(fmt::format("digest mismatch: found {}", found.hex())));
  return sums;
}

Error RecheckedFile::damage(const std::string& what) {
  hooks_.report_damage(what);
  return {Code::io, fmt::format("cached blob {}: {}", digest_.hex(), what)};
}

}  // namespace weightfs::store
