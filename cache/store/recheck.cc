#include "cache/store/recheck.h"

#include <fmt/core.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
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
constexpr std::chrono::milliseconds kMaxCheckTime{1000};  // of check_all()

// Fills `out` without waiting for a disk; false if pages are not in the page cache.
bool read_cached_pages(int fd, uint64_t offset, std::span<std::byte> out) {
  const iovec part{out.data(), out.size()};
  return ::preadv2(fd, &part, 1, static_cast<off_t>(offset), RWF_NOWAIT) == static_cast<ssize_t>(out.size());
}

}  // namespace

RecheckedFile::RecheckedFile(BlobKeeper keeper, const Digest& digest, uint64_t size, Origin origin)
    : keeper_(std::move(keeper)),
      digest_(digest),
      size_(size),
      must_hash_(origin == Origin::unknown && (keeper_.compares_digest || size <= kWorthAMap)),
      checked_(blocks_in(size)) {
  if (origin == Origin::unknown || size > kWorthAMap) return;
  checked_.add({0, blocks_in(size)});
  hashed_ = true;
}

Result<void> RecheckedFile::read(const CachedFiles& files, uint64_t offset, std::span<std::byte> out) {
  if (out.empty()) return {};
  if (offset > size_ || out.size() > size_ - offset) return failure(Code::io, "a cached blob is truncated");
  if (needs_hash(files)) TRY_VOID(hash_once(files));
  TRY_VOID(read_stored(files.data->number(), offset, out));
  Blocks rest = {offset / kBlock, blocks_in(offset + out.size())};
  rest.first = checked_.first_missing(rest);
  if (rest.empty() || TRY(compare(files, rest, offset, out))) return {};
  TRY_VOID(hash_once(files));
  return read_stored(files.data->number(), offset, out);
}

// Reads what is in the page cache only, and not for long: an open(2) waits for it.
Result<void> RecheckedFile::check_all(const CachedFiles& files) {
  if (must_hash_ && needs_hash(files)) TRY_VOID(hash_once(files));
  const auto end = std::chrono::steady_clock::now() + kMaxCheckTime;
  std::vector<std::byte> buffer(static_cast<size_t>(std::min<uint64_t>(kBufferSize, size_)));
  Blocks rest = {0, blocks_in(size_)};
  while (!(rest.first = checked_.first_missing(rest), rest.empty())) {
    const uint64_t begin = rest.first * kBlock;
    const auto bytes = std::span(buffer).first(static_cast<size_t>(std::min<uint64_t>(size_ - begin, buffer.size())));
    if (files.map == nullptr || std::chrono::steady_clock::now() > end ||
        !read_cached_pages(files.data->number(), begin, bytes))
      return failure(NoPassthrough::not_compared);
    if (is_stopped()) return failure(Code::resource, "cancelled");
    if (!TRY(compare(files, {rest.first, blocks_in(begin + bytes.size())}, begin, bytes)))
      return failure(NoPassthrough::not_compared);
  }
  return {};
}

// Whether no block may be used before the digest of all bytes was compared.
bool RecheckedFile::needs_hash(const CachedFiles& files) const {
  return !hashed_.load(std::memory_order_acquire) && (must_hash_ || files.map == nullptr);
}

bool RecheckedFile::is_stopped() const { return is_cancelled() || keeper_.stop.stop_requested(); }

// The kernel does not return a block that the disk cannot read, nor a damaged one of a file with fs-verity.
Result<void> RecheckedFile::read_stored(int fd, uint64_t offset, std::span<std::byte> out) {
  errno = 0;
  auto read = read_fully(fd, offset, out, "a cached blob");
  if (!read && errno == EIO) return tl::unexpected(damage(read.error().message));
  return read;
}

Result<void> RecheckedFile::compare(uint64_t block, const MapEntry& entry, std::span<const std::byte> bytes) {
  if (entry_of(bytes) != entry)
    return tl::unexpected(damage(fmt::format("the block at byte {} is damaged", block * kBlock)));
  checked_.add(block);
  return {};
}

// Compares blocks, of which `out`, read from `offset` on, has all or a part. The compared bytes of such a part are
// copied to `out`, so that it has no others. False if the map lacks a block.
Result<bool> RecheckedFile::compare(const CachedFiles& files, Blocks blocks, uint64_t offset,
                                    std::span<std::byte> out) {
  std::array<std::byte, kBlock> buffer;
  while (!blocks.empty()) {
    const auto entries =
        read_entries(files.map->number(), blocks.first, std::min(blocks.last - blocks.first, kEntriesPerRead));
    if (!entries) return false;
    for (const MapEntry& entry : *entries) {
      const uint64_t block = blocks.first++;
      if (checked_.contains(block)) continue;
      if (!entry.is_present()) return false;
      const uint64_t begin = block * kBlock;
      const uint64_t end = std::min(size_, begin + kBlock);
      const uint64_t from = std::max(begin, offset);
      const auto part = out.subspan(static_cast<size_t>(from - offset),
                                    static_cast<size_t>(std::min(end, offset + out.size()) - from));
      if (part.size() == end - begin) {
        TRY_VOID(compare(block, entry, part));
        continue;
      }
      const auto whole = std::span(buffer).first(static_cast<size_t>(end - begin));
      TRY_VOID(read_stored(files.data->number(), begin, whole));
      std::memcpy(part.data(), whole.data() + (from - begin), part.size());
      TRY_VOID(compare(block, entry, whole));
    }
  }
  return true;
}

// One thread hashes; waiting threads can be cancelled.
Result<void> RecheckedFile::hash_once(const CachedFiles& files) {
  std::unique_lock lock(mutex_, std::defer_lock);
  while (!lock.try_lock_for(kCancelCheck))
    if (is_cancelled()) return failure(Code::resource, "cancelled while a cached blob was verified");
  if (hashed_) return {};
  TRY_VOID(hash_all(files));
  checked_.add({0, blocks_in(size_)});
  hashed_.store(true, std::memory_order_release);
  return {};
}

// Saves a map, unless the present one was not even asked.
Result<void> RecheckedFile::hash_all(const CachedFiles& files) {
  std::vector<std::byte> buffer(static_cast<size_t>(std::min<uint64_t>(kBufferSize, size_)));
  Sha256 hash;
  const auto map = files.map == nullptr || !must_hash_ ? keeper_.start_map() : nullptr;
  for (uint64_t at = 0; at < size_; at += buffer.size()) {
    if (is_stopped()) return failure(Code::resource, "cancelled while a cached blob was verified");
    const auto part = std::span(buffer).first(static_cast<size_t>(std::min<uint64_t>(buffer.size(), size_ - at)));
    TRY_VOID(read_stored(files.data->number(), at, part));
    hash.update(part);
    if (map != nullptr) map->add(part);
  }
  const Digest found = hash.finish();
  if (found != digest_) return tl::unexpected(damage(fmt::format("digest mismatch: found {}", found.hex())));
  if (map != nullptr) keeper_.publish_map(*map);
  return {};
}

Error RecheckedFile::damage(const std::string& what) {
  keeper_.remove_damaged(what);
  return {Code::io, fmt::format("cached blob {}: {}", digest_.hex(), what)};
}

}  // namespace weightfs::store
