#include "cache/store/recheck.h"

#include <fmt/core.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/cancel.h"
#include "base/files/file_io.h"
#include "base/files/no_passthrough.h"
#include "base/text.h"

namespace weightfs::store {
namespace {

constexpr size_t kBufferSize = 1 << 20;
constexpr std::chrono::milliseconds kCancelCheck{100};
constexpr std::chrono::milliseconds kMaxCheckTime{1000};  // of check_all()

// Fills `out` without waiting for a disk; false if pages are not in the page cache.
bool read_cached_pages(int fd, uint64_t offset, std::span<std::byte> out) {
  const iovec part{out.data(), out.size()};
  return ::preadv2(fd, &part, 1, static_cast<off_t>(offset), RWF_NOWAIT) == static_cast<ssize_t>(out.size());
}

}  // namespace

RecheckedFile::RecheckedFile(BlobKeeper keeper, const Digest& digest, uint64_t size, std::optional<BlockSums> sums)
    : keeper_(std::move(keeper)), digest_(digest), size_(size) {
  if (!sums || sums->size() != size) return;
  sums_ = std::move(*sums);
  checked_ = BlockSet(sums_.blocks());
  prepared_ = true;
}

Result<void> RecheckedFile::read(int fd, uint64_t offset, std::span<std::byte> out) {
  if (out.empty()) return {};
  if (offset > size_ || out.size() > size_ - offset) return failure(Code::io, "a cached blob is truncated");
  if (!prepared_.load(std::memory_order_acquire)) TRY_VOID(prepare(fd));
  TRY_VOID(read_stored(fd, offset, out));
  const auto last = static_cast<size_t>((offset + out.size() - 1) / BlockSums::kBlock);
  for (auto block = static_cast<size_t>(offset / BlockSums::kBlock); block <= last; ++block)
    if (!checked_.contains(block)) TRY_VOID(check(fd, block, offset, out));
  return {};
}

// Reads what is in the page cache only, and not for long: an open(2) waits for it.
Result<void> RecheckedFile::check_all(int fd) {
  const bool is_prompt =
      keeper_.policy == Recheck::full || size_ <= BlockSums::kWorthAFile || prepared_ || keeper_.saved_sums();
  if (!is_prompt) return failure(NoPassthrough::not_compared);
  if (size_ > 0 && !prepared_.load(std::memory_order_acquire)) TRY_VOID(prepare(fd));
  const auto end = std::chrono::steady_clock::now() + kMaxCheckTime;
  std::vector<std::byte> buffer(static_cast<size_t>(std::min<uint64_t>(BlockSums::kBlock, size_)));
  for (size_t block = 0; block < sums_.blocks(); ++block) {
    if (checked_.contains(block)) continue;
    const uint64_t begin = block * BlockSums::kBlock;
    const auto bytes = std::span(buffer).first(static_cast<size_t>(std::min(size_ - begin, BlockSums::kBlock)));
    if (std::chrono::steady_clock::now() > end || !read_cached_pages(fd, begin, bytes))
      return failure(NoPassthrough::not_compared);
    if (is_stopped()) return failure(Code::resource, "cancelled");
    TRY_VOID(compare(block, bytes));
  }
  return {};
}

bool RecheckedFile::is_stopped() const { return is_cancelled() || keeper_.stop.stop_requested(); }

// The kernel does not return a damaged block of a file with fs-verity, nor one that the disk cannot read.
Result<void> RecheckedFile::read_stored(int fd, uint64_t offset, std::span<std::byte> out) {
  errno = 0;
  auto read = read_fully(fd, offset, out, "a cached blob");
  if (!read && errno == EIO) return tl::unexpected(damage(read.error().message));
  return read;
}

Result<void> RecheckedFile::compare(size_t block, std::span<const std::byte> bytes) {
  if (crc32(0, bytes) != sums_.sum(block))
    return tl::unexpected(damage(fmt::format("the block at byte {} is damaged", block * BlockSums::kBlock)));
  checked_.add(block);
  return {};
}

// Serves exactly the compared bytes.
Result<void> RecheckedFile::check(int fd, size_t block, uint64_t offset, std::span<std::byte> out) {
  const uint64_t begin = block * BlockSums::kBlock;
  const uint64_t end = std::min(size_, begin + BlockSums::kBlock);
  if (offset <= begin && end <= offset + out.size())
    return compare(block, out.subspan(static_cast<size_t>(begin - offset), static_cast<size_t>(end - begin)));
  thread_local std::vector<std::byte> buffer(BlockSums::kBlock);
  const auto block_bytes = std::span(buffer).first(static_cast<size_t>(end - begin));
  TRY_VOID(read_stored(fd, begin, block_bytes));
  const uint64_t from = std::max(begin, offset);
  const uint64_t to = std::min(end, offset + out.size());
  std::memcpy(out.data() + (from - offset), block_bytes.data() + (from - begin), static_cast<size_t>(to - from));
  return compare(block, block_bytes);
}

// One thread prepares; waiting threads can be cancelled.
Result<void> RecheckedFile::prepare(int fd) {
  std::unique_lock lock(mutex_, std::defer_lock);
  while (!lock.try_lock_for(kCancelCheck))
    if (is_cancelled()) return failure(Code::resource, "cancelled while a cached blob was verified");
  if (prepared_) return {};
  std::optional<BlockSums> saved = keeper_.saved_sums();
  const bool verify = keeper_.policy == Recheck::full || !saved;
  BlockSums sums = verify ? TRY(verify_all(fd)) : std::move(*saved);
  if (!saved) keeper_.save_sums(sums);
  checked_ = BlockSet(sums.blocks());
  if (verify) checked_.add({0, sums.blocks()});
  sums_ = std::move(sums);
  prepared_.store(true, std::memory_order_release);
  return {};
}

Result<BlockSums> RecheckedFile::verify_all(int fd) {
  std::vector<std::byte> buffer(static_cast<size_t>(std::min<uint64_t>(kBufferSize, size_)));
  Sha256 hash;
  BlockSums sums;
  while (sums.size() < size_) {
    if (is_stopped()) return failure(Code::resource, "cancelled while a cached blob was verified");
    const auto part =
        std::span(buffer).first(static_cast<size_t>(std::min<uint64_t>(kBufferSize, size_ - sums.size())));
    TRY_VOID(read_stored(fd, sums.size(), part));
    hash.update(part);
    sums.add(part);
  }
  const Digest found = hash.finish();
  if (found != digest_) return tl::unexpected(damage(fmt::format("digest mismatch: found {}", found.hex())));
  return sums;
}

Error RecheckedFile::damage(const std::string& what) {
  keeper_.remove_damaged(what);
  return {Code::io, fmt::format("cached blob {}: {}", digest_.hex(), what)};
}

}  // namespace weightfs::store
