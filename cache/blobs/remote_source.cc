#include "cache/blobs/remote_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "base/cancel.h"
#include "base/digest.h"
#include "base/download_scope.h"
#include "base/os/memory.h"
#include "base/parallel.h"

namespace weightfs::blobs {
namespace {

using namespace store;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

constexpr int kMaxEvictions = 8;
constexpr int kMaxAttempts = 4;  // transfers that end without the wanted blocks

// Publishing waits this long for the last transfers of other processes.
constexpr std::chrono::seconds kMaxClaimWait{10};

// More reads at a time (of all files) that are larger than this get their bytes when all of them are present.
constexpr int kFewReads = 8;
constexpr uint64_t kLargeRead = 256 * kKiB;

// The most bytes that drop_unverified() drops: a header, not the hours of a download.
constexpr uint64_t kMaxDropped = 16 << 20;

constexpr uint64_t kStep = 1 * kMiB;  // bytes that are hashed or fetched at a time
}  // namespace

RemoteSource::RemoteSource(download::RemoteFilePtr remote, std::shared_ptr<StoreCore> store,
                           std::optional<std::string> identity, std::optional<BlobName> blob, BlockListPtr list)
    : remote_(std::move(remote)),
      store_(std::move(store)),
      identity_(std::move(identity)),
      blob_(std::move(blob)),
      list_(std::move(list)),
      bytes_fetched_(remote_->head().size()),
      verified_(verification_by_server()) {
  store_->stats().record_received(bytes_fetched_);
}

RemoteSource::~RemoteSource() {
  for (const TransferPtr& transfer : transfers_) transfer->thread.request_stop();
  for (const TransferPtr& transfer : transfers_)
    if (transfer->thread.joinable()) transfer->thread.join();
  if (may_drop()) store_->note_unverified(*identity_);
}

Result<size_t> RemoteSource::read_blocks(uint64_t offset, std::span<std::byte> out,
                                         const std::optional<ByteRange>& expected) const {
  if (offset >= size() || out.empty()) return size_t{0};
  const uint64_t end = offset + std::min<uint64_t>(out.size(), size() - offset);
  const auto target = out.first(static_cast<size_t>(end - offset));
  uint64_t ahead_end = 0;
  {
    const std::scoped_lock lock(mutex_);
    ahead_end = std::min(size(), read_ahead_.end_for(offset, end, expected));
  }
  bytes_read_ += target.size();
  return read_with(offset, target, ahead_end);
}

StoreStatus::Remote RemoteSource::status() const {
  const VerifiedBy verified = verified_;
  const bool is_whole = verified == VerifiedBy::whole;
  const uint64_t present = std::min(present_.load(), block_count());
  std::optional<uint64_t> verified_blocks;
  if (blob_ && blob_->digest) verified_blocks = is_whole ? block_count() : 0;
  if (list_ != nullptr) verified_blocks = present;
  return {.url = remote_->printable(),
          .size = size(),
          .requests = remote_->requests(),
          .bytes_fetched = bytes_fetched_,
          .bytes_read = bytes_read_,
          .verified = to_text(verified),
          .blocks = block_count(),
          .present = present,
          .verified_blocks = verified_blocks};
}

uint64_t RemoteSource::block_count() const { return blocks_in(size()); }

// For blocks that were not hashed as a whole.
VerifiedBy RemoteSource::verification_by_server() const {
  if (list_ != nullptr) return VerifiedBy::blocks;
  return identity_ ? VerifiedBy::transport : VerifiedBy::unpinned;
}

std::atomic<int>* RemoteSource::counter_of(size_t size) { return size > kLargeRead ? &large_reads_ : nullptr; }

// Reads all of `target`, and requests the bytes up to `ahead_end`.
Result<size_t> RemoteSource::read_with(uint64_t offset, std::span<std::byte> target, uint64_t ahead_end) const {
  const uint64_t end = offset + target.size();
  size_t done = 0;
  uint64_t absent = 0;  // the first absent block that was found
  auto last_progress = Clock::now();
  uint64_t last_written = 0;
  TransferPtr transfer;  // that was waited for last
  const CountScope counted(counter_of(target.size()));
  int evictions = -1;  // without progress in between
  BlockFilePtr last_file;
  for (int attempts = 0; attempts < kMaxAttempts;) {
    const auto [file, blob] = TRY(open());
    if (file != last_file && ++evictions > kMaxEvictions)
      return failure(Code::io, fmt::format("{}: its bytes are evicted before they are read: the cache is too small for "
                                           "what is read at a time; use a larger --cache-size",
                                           remote_->printable()));
    last_file = file;
    if (blob != nullptr) {
      TRY_VOID(read_exact(*blob, offset, target));
      return target.size();
    }
    ahead_end = std::min(ahead_end, end + max_ahead_);
    const auto got = read_present(*file, offset + done, target.subspan(done));
    if (!got && !file->is_current()) continue;
    if (TRY(got).bytes > 0 || got->absent > absent) {
      attempts = 0;
      evictions = 0;
      last_progress = Clock::now();
    }
    absent = std::max(absent, got->absent);
    done += got->bytes;
    if (done == target.size() && ahead_end <= end) return done;
    const Blocks wanted = file->blocks_of(offset + done, end);
    const auto started = request(file, wanted, file->blocks_of(offset + done, ahead_end), transfer);
    if (done == target.size()) return done;  // a failure to read ahead is reported by a later read
    if (!started && !file->is_current()) continue;
    transfer = TRY(started);
    if (transfer != nullptr || has_transfers() || last_written != file->last_written()) last_progress = Clock::now();
    last_written = file->last_written();
    if (Clock::now() - last_progress > store_->max_wait_for_others())
      return failure(Code::io,
                     fmt::format("{}: another process is downloading it, and makes no progress", remote_->printable()));
    const auto ended = wait(transfer, wanted.last);
    if (!ended && !file->is_current()) continue;
    attempts += TRY(ended);
  }
  return failure(Code::io, fmt::format("{}: the cache does not return what was written", remote_->printable()));
}

// Reads the present bytes. If many readers wait, only if all of them are present: their memory is not used before.
Result<RemoteSource::PresentBytes> RemoteSource::read_present(BlockFile& file, uint64_t offset,
                                                              std::span<std::byte> target) {
  if (target.size() <= kLargeRead || large_reads_ <= kFewReads) return PresentBytes{TRY(file.read(offset, target)), 0};
  const Blocks wanted = file.blocks_of(offset, offset + target.size());
  if (const auto absent = TRY(file.first_absent(wanted))) return PresentBytes{0, absent->first};
  MemoryTurn::take();
  return PresentBytes{TRY(file.read(offset, target)), wanted.last};
}

Result<void> RemoteSource::prefetch(ByteRange range) const {
  range.to = std::min(range.to, size());
  if (range.from >= range.to) return {};
  TRY_VOID(DownloadScope::charge(range.to - range.from));
  std::vector<std::byte> ignored(static_cast<size_t>(std::min(range.to - range.from, kStep)));
  for (uint64_t at = range.from; at < range.to;) {
    const auto [file, blob] = TRY(open());
    if (blob != nullptr) return {};
    const auto found = file->first_absent(file->blocks_of(at, range.to));
    if (!found && !file->is_current()) continue;
    const auto absent = TRY(found);
    if (!absent) return {};
    at = std::max(at, absent->first * kBlock);
    const auto out = std::span(ignored).first(static_cast<size_t>(std::min<uint64_t>(ignored.size(), range.to - at)));
    TRY(read_with(at, out, std::min(range.to, at + ReadAhead::kMaxWindow)));
    at += out.size();
  }
  return {};
}

// By the map: blocks are compared when they are read.
Result<CachedBytes> RemoteSource::cached(ByteRange range) const {
  range.to = std::min(range.to, size());
  if (range.from >= range.to) return CachedBytes{};
  const auto [file, blob] = TRY(open());
  uint64_t now = range.to - range.from;
  if (blob == nullptr) {
    const auto present = file->present_bytes(range.from, range.to);
    if (!present && !file->is_current()) return CachedBytes{};
    now = TRY(present);
  }
  uint64_t own = 0;
  const std::scoped_lock lock(mutex_);
  if (generation_ == 0) return CachedBytes{now, now};  // no blocks were opened
  for (uint64_t block = range.from / kBlock; block < blocks_in(range.to); ++block)
    if (written_.contains(block))
      own += std::min(range.to, (block + 1) * kBlock) - std::max(range.from, block * kBlock);
  return CachedBytes{now, now - std::min(now, own)};
}

bool RemoteSource::is_complete() const {
  const auto opened = open();
  return opened && (opened->blob != nullptr || opened->blocks->is_complete().value_or(false));
}

Result<BlobHandle> RemoteSource::verify() const {
  const auto not_stored = [](const Error& error) { return failure(Code::io, error.message); };
  for (int dropped = 0; dropped < kMaxAttempts;) {
    if (auto held = hold_space(); !held) {
      remove_if_empty();
      return not_stored(held.error());
    }
    const uint64_t generation = generation_;
    auto hashed = hash();
    const auto [file, blob] = TRY(open());
    if (blob != nullptr) return BlobHandle{blob, *blob_->digest};
    if (!hashed) {
      release_space(file);
      remove_if_empty();
      return tl::unexpected(hashed.error());
    }
    // Another process found that they do not match, and dropped them: not all of the hashed bytes are in this file.
    if (generation != generation_) {
      ++dropped;
      continue;
    }
    auto& [digest, list] = *hashed;
    if (digest != *blob_->digest) {
      Error mismatch{Code::mismatch,
                     fmt::format("digest mismatch: found {}, expected {}", digest.hex(), blob_->digest->hex())};
      list = nullptr;  // its file is removed before the readers see the mismatch
      const bool repeats = !served_unverified_ && remote_->reject(has_blocks_of_others());
      drop_blocks(repeats ? std::nullopt : std::optional(mismatch));
      if (!repeats) return tl::unexpected(std::move(mismatch));
      dropped = 0;
      continue;
    }
    verified_ = VerifiedBy::whole;
    auto published = publish(file, digest);
    file->release();
    if (published) {
      if (list != nullptr) list->publish(digest);
      return published;
    }
    if (published.error().code == Code::unsupported) return BlobHandle{};
    if (BlobHandle others = store_->backend().find(*blob_, size())) return others;  // another process was faster
    return not_stored(published.error());
  }
  return not_stored({Code::resource, "other processes keep dropping its blocks"});
}

// Ends the transfers that no reader waits for, frees the space of absent blocks, and permits eviction.
void RemoteSource::release_space(const BlockFilePtr& file) const {
  std::unique_lock lock(mutex_);
  const auto is_active = [&](const TransferPtr& transfer) { return transfer->file == file && !transfer->result; };
  for (const TransferPtr& transfer : transfers_)
    if (is_active(transfer) && transfer->readers == 0) abandon(*transfer);
  const auto is_ending = [&](const TransferPtr& transfer) { return is_active(transfer) && transfer->is_abandoned; };
  changed_.wait(lock, [&] { return std::none_of(transfers_.begin(), transfers_.end(), is_ending); });
  std::map<uint64_t, uint64_t> kept;  // blocks of the other transfers: last by first
  for (const TransferPtr& transfer : transfers_)
    if (is_active(transfer)) kept.emplace(transfer->blocks.first, transfer->blocks.last);
  uint64_t from = 0;
  file->release();
  for (const auto& [first, last] : kept) {
    file->free_absent_blocks({from, first});
    from = last;
  }
  file->free_absent_blocks({from, file->block_count()});
  if (kept.empty()) file->release_unused_space();
}

// Reserves the space for all blocks, and prevents their eviction.
Result<void> RemoteSource::hold_space() const {
  for (int attempts = 0;; ++attempts) {
    const auto [file, blob] = TRY(open());
    if (blob != nullptr) return {};
    {
      const std::scoped_lock lock(mutex_);
      auto held = file->hold();
      if (held || held.error().code != Code::not_found || attempts == kMaxAttempts) return held;
    }
    std::this_thread::sleep_for(store::kOtherProcessCheck);  // another process is evicting it
  }
}

// The digest, and the block list, from the same buffer by two threads.
Result<RemoteSource::Hashes> RemoteSource::hash() const {
  Sha256 hash;
  Hashes hashes;
  if (blob_) hashes.list = store_->backend().start_list(size());
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(kStep, size())));
  for (uint64_t at = 0; at < size();) {
    if (is_cancelled()) return failure(Code::resource, "cancelled");
    const auto bytes = std::span(buffer).first(static_cast<size_t>(std::min<uint64_t>(buffer.size(), size() - at)));
    TRY(read_with(at, bytes, std::min(size(), at + ReadAhead::kMaxWindow)));
    const auto add = [&](uint64_t part) -> Result<void> {
      if (part == 1) {
        hashes.list->add(bytes);
      } else {
        hash.update(bytes);
      }
      return {};
    };
    TRY_VOID(in_parallel(hashes.list == nullptr ? 1 : 2, 2, add));
    at += bytes.size();
  }
  hashes.digest = hash.finish();
  return hashes;
}

// Waits until all transfers have ended, so that the verified bytes do not change.
Result<BlobHandle> RemoteSource::publish(const BlockFilePtr& file, const Digest& digest) const {
  TRY_VOID(file->flush());
  const auto until = std::chrono::steady_clock::now() + kMaxClaimWait;
  std::unique_lock lock(mutex_);
  BlockFile::Claim claim;
  while (claim == nullptr) {
    reap();
    const bool is_idle = std::none_of(transfers_.begin(), transfers_.end(),
                                      [&](const TransferPtr& transfer) { return transfer->file == file; });
    if (is_idle) claim = BlockFile::claim(file, {0, file->block_count()});
    if (claim != nullptr) break;
    if (is_cancelled() || std::chrono::steady_clock::now() > until)
      return failure(Code::resource, "other processes are still writing it");
    changed_.wait_for(lock, store::kOtherProcessCheck);
  }
  auto handle = store_->backend().publish_blocks(file, *blob_, digest);
  if (!handle) return handle;
  blocks_ = nullptr;
  present_ = block_count();
  return handle;
}

void RemoteSource::remove_if_empty() const {
  const std::scoped_lock lock(mutex_);
  if (blocks_ != nullptr && identity_ && BlockFile::present_bytes(blocks_->files()) == 0)
    store_->backend().remove_blocks(*identity_, BlockFile::Evict::unheld);
}

void RemoteSource::drop_blocks(const std::optional<Error>& refused) const {
  verified_ = VerifiedBy::mismatch;
  const std::scoped_lock lock(mutex_);
  refused_ = refused;
  if (blocks_ != nullptr) blocks_->release();
  if (identity_) store_->backend().remove_blocks(*identity_, BlockFile::Evict::all);
  blocks_ = nullptr;
  present_ = 0;
}

Result<void> RemoteSource::verify_if_complete() const {
  const auto [file, blob] = TRY(open());  // fails if the comparison has
  if (blob != nullptr || !TRY(file->is_complete())) return {};
  TRY(verify());
  return {};
}

bool RemoteSource::may_drop() const {
  return blocks_ != nullptr && !refused_ && identity_ && has_digest() && verified_ != VerifiedBy::whole &&
         received() <= kMaxDropped;
}

void RemoteSource::drop_unverified() const {
  const std::scoped_lock lock(mutex_);
  if (!may_drop()) return;
  blocks_->release();
  store_->backend().remove_blocks(*identity_, BlockFile::Evict::unheld);
  blocks_ = nullptr;
  present_ = 0;
}

void RemoteSource::accept() const {
  const std::scoped_lock lock(mutex_);
  refused_.reset();
}

bool RemoteSource::has_transfers() const {
  const std::scoped_lock lock(mutex_);
  return !transfers_.empty();
}

// Whether an earlier run, or another process at the same time, has written some of the blocks.
bool RemoteSource::has_blocks_of_others() const {
  const std::scoped_lock lock(mutex_);
  return written_.first_missing({0, block_count()}) < block_count();
}

bool RemoteSource::is_refused() const {
  const std::scoped_lock lock(mutex_);
  return refused_.has_value();
}

// The published blob, or null. Call with the lock.
FileRangePtr RemoteSource::find_blob() const {
  BlobHandle handle = blob_ ? store_->backend().find(*blob_, size()) : BlobHandle{};
  if (!handle) return nullptr;
  present_ = block_count();
  if (blob_->digest) verified_ = VerifiedBy::whole;
  return std::move(handle.range);
}

// Writes the first bytes, which the first request has downloaded. With a block list, which may be on a server, they are
// requested again: not with the lock. Call with the lock.
void RemoteSource::write_head() const {
  const std::string_view head = list_ == nullptr ? remote_->head() : std::string_view();
  const uint64_t whole = head.size() == size() ? head.size() : head.size() / kBlock * kBlock;
  if (whole == 0) return;
  const Blocks range = blocks_->blocks_of(0, whole);
  const auto claim = BlockFile::claim(blocks_, range);
  if (claim == nullptr) return;
  const auto absent = blocks_->first_absent(range, 0);
  if (!blocks_->reserve(range) || !blocks_->write(0, std::as_bytes(std::span(head)).first(whole))) return;
  present_ = std::max(present_.load(), blocks_in(whole));
  if (absent && *absent) written_.add(**absent);
}

// The cached blocks; a new file if they were evicted.
Result<RemoteSource::Opened> RemoteSource::open() const {
  const std::scoped_lock lock(mutex_);
  if (refused_) return tl::unexpected(*refused_);
  if (blocks_ != nullptr && blocks_->is_current()) return Opened{blocks_, nullptr};
  if (FileRangePtr blob = find_blob()) return Opened{nullptr, std::move(blob)};
  // Blocks that are requested ahead may have taken the place of the others: request fewer.
  if (blocks_ != nullptr) max_ahead_ = max_ahead_ / 2;
  blocks_ = TRY(store_->backend().open_blocks(identity(), size()));
  if (identity_ && !digest_of_identity(*identity_))
    store_->names().add(*identity_, {{NameKind::url, remote_->printable()}});
  ++generation_;
  written_ = BlockSet(block_count());
  resumed_ = BlockFile::present_bytes(blocks_->files());
  // Another process may have published the blob just before this file was created.
  if (BlobHandle handle; blob_ && resumed_ == 0 && (handle = store_->backend().find(*blob_, size()))) {
    if (identity_) store_->backend().remove_blocks(*identity_, BlockFile::Evict::unheld);
    blocks_ = nullptr;
    return Opened{nullptr, std::move(handle.range)};
  }
  present_ = blocks_in(resumed_);
  if (verification() == VerifiedBy::whole) verified_ = verification_by_server();
  write_head();
  return Opened{blocks_, nullptr};
}

}  // namespace weightfs::blobs
