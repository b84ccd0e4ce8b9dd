#include "cache/blobs/remote_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <system_error>
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

constexpr uint64_t kRequest = 8 * kMiB;  // bytes per request: the largest window is eight requests in parallel
constexpr uint64_t kRequestBlocks = kRequest / BlockFile::kBlock;

// A waiting reader checks at this interval whether it was cancelled, and whether another process has written its
// blocks.
constexpr std::chrono::milliseconds kWaitInterval{20};

// A transfer without data for this long is abandoned if others deliver.
constexpr std::chrono::seconds kStalledAfter{3};

constexpr int kMaxAttempts = 4;  // transfers that end without the wanted blocks

// Publishing waits this long for the last transfers of other processes.
constexpr std::chrono::seconds kMaxClaimWait{10};

// More reads at a time (of all files) that are larger than this get their bytes when all of them are present.
constexpr int kFewReads = 8;
constexpr uint64_t kLargeRead = 256 * kKiB;

constexpr std::chrono::milliseconds kNamingCheck{2};
constexpr int kMaxNamingChecks = 100;

constexpr uint64_t kStep = 1 * kMiB;       // bytes that are hashed or fetched at a time
constexpr uint64_t kWritten = 256 * kKiB;  // bytes at a time, if so many have arrived

uint64_t blocks_in(uint64_t bytes) { return (bytes + BlockFile::kBlock - 1) / BlockFile::kBlock; }

// Combines received bytes to whole blocks, and writes many blocks at a time: libcurl passes 16 KiB.
class BlockWriter {
 public:
  using OnWritten = std::function<void(Blocks)>;

  BlockWriter(BlockFile& file, const BlockList* list, OnWritten on_written)
      : file_(file), list_(list), on_written_(std::move(on_written)) {}

  Result<void> add(uint64_t offset, std::span<const std::byte> bytes) {
    if (offset != begin_ + pending_.size()) {
      TRY_VOID(write());
      pending_.clear();
      const uint64_t skipped = (BlockFile::kBlock - offset % BlockFile::kBlock) % BlockFile::kBlock;
      if (skipped >= bytes.size()) return {};
      begin_ = offset + skipped;
      bytes = bytes.subspan(static_cast<size_t>(skipped));
    }
    pending_.insert(pending_.end(), bytes.begin(), bytes.end());
    return pending_.size() < kWritten ? Result<void>() : write();
  }

  // Writes the complete blocks; with a block list those before the first that does not match.
  Result<void> write() {
    const bool is_end = begin_ + pending_.size() == file_.size();
    const size_t whole = is_end ? pending_.size() : pending_.size() / BlockFile::kBlock * BlockFile::kBlock;
    Result<void> verified;
    size_t matching = list_ == nullptr ? whole : 0;
    while (matching < whole) {
      const auto block = std::span(pending_).subspan(matching, std::min<size_t>(BlockFile::kBlock, whole - matching));
      if (verified = list_->verify(begin_ + matching, block); !verified) break;
      matching += block.size();
    }
    if (matching > 0) TRY_VOID(write_first(matching));
    return verified;
  }

 private:
  Result<void> write_first(size_t size) {
    const Blocks written = {begin_ / BlockFile::kBlock, blocks_in(begin_ + size)};
    TRY_VOID(file_.write(written.first, std::span(pending_).first(size)));
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(size));
    begin_ += size;
    on_written_(written);
    return {};
  }

  BlockFile& file_;
  const BlockList* list_;  // may be null
  const OnWritten on_written_;
  uint64_t begin_ = 0;  // of the pending bytes; a multiple of the block size
  std::vector<std::byte> pending_;
};

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
}

std::optional<std::string> RemoteSource::identity_of(const std::string& url, const download::FileVersion& version,
                                                     const BlockListPtr& list) {
  if (!version.is_pinned()) return std::nullopt;
  const std::string shown = http::printable_url(url);
  const std::string query = shown == url ? "" : " " + sha256(url).hex();  // it may be secret
  const std::string verified = list == nullptr ? "" : " fs-verity " + list->digest().hex();
  return fmt::format("{} {} {}{}{}", shown, download::unquoted(version.etag), version.size, query, verified);
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
  auto read = read_with(offset, target, ahead_end);
  // The file exists in the mount; only its content is missing.
  if (!read && read.error().code == Code::not_found) return failure(Code::io, read.error().message);
  return read;
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

// Of blocks that were not hashed as a whole.
VerifiedBy RemoteSource::verification_by_server() const {
  if (list_ != nullptr) return VerifiedBy::blocks;
  return identity_ ? VerifiedBy::transport : VerifiedBy::unpinned;
}

// Called with the lock. The blocks of a stream may have been present before. A transfer delivers many times what a
// reader waits for, so it wakes the readers only when one of them can continue.
void RemoteSource::record_written(Transfer& transfer, Blocks blocks) const {
  const bool is_stream = remote_->has_ranges() == false;
  if (transfer.file == blocks_)
    present_ = is_stream ? std::max(present_.load(), blocks.last) : present_ + blocks.last - blocks.first;
  transfer.written = blocks.last;
  if (transfer.written < transfer.wake_at) return;
  transfer.wake_at = UINT64_MAX;
  changed_.notify_all();
}

// Reads all of `target`, and requests the bytes up to `ahead_end`.
Result<size_t> RemoteSource::read_with(uint64_t offset, std::span<std::byte> target, uint64_t ahead_end) const {
  const uint64_t end = offset + target.size();
  size_t done = 0;
  uint64_t absent = 0;  // the first absent block that was found
  auto last_progress = Clock::now();
  uint64_t last_written = 0;
  TransferPtr transfer;  // that was waited for last
  const CountScope counted(target.size() > kLargeRead ? &large_reads_ : nullptr);
  for (int attempts = 0; attempts < kMaxAttempts;) {
    const auto [file, blob] = TRY(open());
    if (blob != nullptr) {
      TRY_VOID(read_exact(*blob, offset, target));
      return target.size();
    }
    ahead_end = std::min(ahead_end, end + max_ahead_);
    const auto got = read_present(*file, offset + done, target.subspan(done));
    if (!got && file->is_evicted()) continue;
    if (TRY(got).bytes > 0 || got->absent > absent) {
      attempts = 0;
      last_progress = Clock::now();
    }
    absent = std::max(absent, got->absent);
    done += got->bytes;
    if (done == target.size() && ahead_end <= end) return done;
    const Blocks wanted = file->blocks_of(offset + done, end);
    // It may have failed since: its error must not be lost.
    const bool has_failed = transfer != nullptr && transfer->file == file && has_error(*transfer);
    const auto started = has_failed && transfer->blocks.contains(wanted.first)
                             ? Result<TransferPtr>(transfer)
                             : request(file, wanted, file->blocks_of(offset + done, ahead_end));
    if (done == target.size()) return done;  // a failure to read ahead is reported by a later read
    if (!started && file->is_evicted()) continue;
    transfer = TRY(started);
    if (transfer != nullptr || has_transfers() || last_written != file->last_written()) last_progress = Clock::now();
    last_written = file->last_written();
    if (Clock::now() - last_progress > max_wait_for_others())
      return failure(Code::io,
                     fmt::format("{}: another process is downloading it, and makes no progress", remote_->printable()));
    const auto ended = wait(transfer, wanted.last);
    if (!ended && file->is_evicted()) continue;
    attempts += TRY(ended);
  }
  return failure(Code::io, fmt::format("{}: the cache does not return what was written", remote_->printable()));
}

// Reads the present bytes. If many readers wait, only if all of them are present: their memory is not used before.
Result<RemoteSource::PresentBytes> RemoteSource::read_present(BlockFile& file, uint64_t offset,
                                                              std::span<std::byte> target) {
  if (target.size() <= kLargeRead || large_reads_ <= kFewReads) return PresentBytes{TRY(file.read(offset, target)), 0};
  const Blocks absent = TRY(file.first_absent(file.blocks_of(offset, offset + target.size())));
  if (!absent.empty()) return PresentBytes{0, absent.first};
  MemoryTurn::take();
  return PresentBytes{TRY(file.read(offset, target)), absent.first};
}

Result<void> RemoteSource::fetch(ByteRange range) const {
  range.to = std::min(range.to, size());
  if (range.from >= range.to) return {};
  TRY_VOID(DownloadScope::charge(range.to - range.from));
  std::vector<std::byte> ignored(static_cast<size_t>(std::min(range.to - range.from, kStep)));
  for (uint64_t at = range.from; at < range.to;) {
    const auto [file, blob] = TRY(open());
    if (blob != nullptr) return {};
    const auto absent = file->first_absent(file->blocks_of(at, range.to));
    if (!absent && file->is_evicted()) continue;
    if (TRY(absent).empty()) return {};
    at = std::max(at, absent->first * BlockFile::kBlock);
    const auto out = std::span(ignored).first(static_cast<size_t>(std::min<uint64_t>(ignored.size(), range.to - at)));
    TRY(read_with(at, out, std::min(range.to, at + ReadAhead::kMaxWindow)));
    at += out.size();
  }
  return {};
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
    auto& [digest, sums, list] = *hashed;
    if (digest != *blob_->digest) {
      Error mismatch{Code::mismatch,
                     fmt::format("digest mismatch: found {}, expected {}", digest.hex(), blob_->digest->hex())};
      list = nullptr;  // its file is removed before the readers see the mismatch
      const bool repeats = !served_unverified_ && remote_->reject(resumed_ > 0);
      drop_blocks(repeats ? std::nullopt : std::optional(mismatch));
      if (!repeats) return tl::unexpected(std::move(mismatch));
      dropped = 0;
      continue;
    }
    verified_ = VerifiedBy::whole;
    verified_generation_ = generation;
    auto published = publish(file, digest, std::move(sums));
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
    const std::scoped_lock lock(mutex_);
    auto held = file->hold();
    if (held || held.error().code != Code::not_found || attempts == kMaxAttempts) return held;
  }
}

// The digest, and the checksums and digests of the blocks, from the same buffer by two threads.
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
        hashes.sums.add(bytes);
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
Result<BlobHandle> RemoteSource::publish(const BlockFilePtr& file, const Digest& digest, BlockSums sums) const {
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
    changed_.wait_for(lock, kWaitInterval);
  }
  auto handle = store_->backend().publish_blocks(file, *blob_, digest, std::move(sums));
  if (!handle) return handle;
  blocks_ = nullptr;
  present_ = block_count();
  return handle;
}

void RemoteSource::remove_if_empty() const {
  const std::scoped_lock lock(mutex_);
  if (blocks_ != nullptr && identity_ && BlockFile::present_bytes(blocks_->descriptor()->number()) == 0)
    store_->backend().remove_blocks(*identity_, BlockFile::Held::keep);
}

void RemoteSource::drop_blocks(const std::optional<Error>& refused) const {
  verified_ = VerifiedBy::mismatch;
  const std::scoped_lock lock(mutex_);
  refused_ = refused;
  if (blocks_ != nullptr) blocks_->release();
  if (identity_) store_->backend().remove_blocks(*identity_, BlockFile::Held::remove);
  blocks_ = nullptr;
  present_ = 0;
}

void RemoteSource::accept() const {
  const std::scoped_lock lock(mutex_);
  refused_.reset();
}

bool RemoteSource::has_error(const Transfer& transfer) const {
  const std::scoped_lock lock(mutex_);
  return transfer.result && !*transfer.result;
}

bool RemoteSource::has_transfers() const {
  const std::scoped_lock lock(mutex_);
  return !transfers_.empty();
}

// A process that downloads blocks may be stopped, and blocks that it has claimed cannot be written by others.
std::chrono::milliseconds RemoteSource::max_wait_for_others() const {
  const http::ClientPtr& http = store_->fetching().http;
  return 4 * (http == nullptr ? http::Options() : http->options()).stall_timeout;
}

bool RemoteSource::is_refused() const {
  const std::scoped_lock lock(mutex_);
  return refused_.has_value();
}

// The cached blocks; a new file if they were evicted.
Result<RemoteSource::Opened> RemoteSource::open() const {
  const std::scoped_lock lock(mutex_);
  if (refused_) return tl::unexpected(*refused_);
  if (blocks_ != nullptr && !blocks_->is_evicted()) return Opened{blocks_, nullptr};
  for (int attempts = 0; blob_ && attempts < kMaxNamingChecks; ++attempts) {
    if (BlobHandle handle = store_->backend().find(*blob_, size())) {
      present_ = block_count();
      if (blob_->digest) verified_ = VerifiedBy::whole;
      return Opened{nullptr, std::move(handle.range)};
    }
    if (blocks_ == nullptr || !blocks_->is_published()) break;
    std::this_thread::sleep_for(kNamingCheck);  // another process has not moved the blob to its name yet
  }
  // Blocks that are requested ahead may have taken the place of the others: request fewer.
  if (blocks_ != nullptr) max_ahead_ = max_ahead_ / 2;
  blocks_ = TRY(store_->backend().open_blocks(identity(), size()));
  ++generation_;
  resumed_ = BlockFile::present_bytes(blocks_->descriptor()->number());
  // Another process may have published the blob just before this file was created.
  if (BlobHandle handle; blob_ && resumed_ == 0 && (handle = store_->backend().find(*blob_, size()))) {
    if (identity_) store_->backend().remove_blocks(*identity_, BlockFile::Held::keep);
    blocks_ = nullptr;
    return Opened{nullptr, std::move(handle.range)};
  }
  present_ = blocks_in(resumed_);
  if (verification() == VerifiedBy::whole) verified_ = verification_by_server();
  // With a block list, which may be on a server, the first blocks are requested again: not with the lock.
  const std::string_view head = list_ == nullptr ? remote_->head() : std::string_view();
  const uint64_t whole = head.size() == size() ? head.size() : head.size() / BlockFile::kBlock * BlockFile::kBlock;
  const auto head_blocks = std::as_bytes(std::span(head)).first(whole);
  const Blocks head_range = blocks_->blocks_of(0, whole);
  const auto claim = whole > 0 ? BlockFile::claim(blocks_, head_range) : nullptr;
  if (claim != nullptr && blocks_->reserve(head_range) && blocks_->write(0, head_blocks))
    present_ = std::max(present_.load(), blocks_in(whole));
  return Opened{blocks_, nullptr};
}

// Starts transfers of the absent blocks in `ahead`. Returns that of the first absent block in `wanted`; null if there
// is none, or if another process is downloading it.
Result<RemoteSource::TransferPtr> RemoteSource::request(const BlockFilePtr& file, Blocks wanted, Blocks ahead) const {
  const std::scoped_lock lock(mutex_);
  reap();
  TransferPtr first;
  bool is_first = true;
  for (Blocks rest = ahead; !rest.empty();) {
    const Blocks absent = TRY(file->first_absent(rest, wanted.last));
    if (absent.empty()) break;
    const bool is_wanted = wanted.contains(absent.first);
    TransferPtr transfer = transfer_of(file, absent.first);
    if (transfer == nullptr && may_start(is_wanted))
      transfer = TRY(start_some(file, absent, {absent.first, wanted.last}));
    if (is_first && is_wanted) first = transfer;
    is_first = false;
    rest.first = transfer == nullptr ? absent.last : std::max(absent.first + 1, transfer->blocks.last);
  }
  return first;
}

// Until the server is known to send ranges, one transfer at a time: it may send the whole file.
bool RemoteSource::may_start(bool is_wanted) const {
  if (transfers_.empty()) return true;
  if (!remote_->has_ranges()) return false;
  if (is_wanted) return max_transfers_ > 1;
  return transfers_.size() < max_transfers_ && store_->may_read_ahead();
}

// Waits for a moment, until the blocks before `wanted_end` were written, as far as they are the transfer's, or it has
// ended: then it returns true. Fails as the transfer.
Result<bool> RemoteSource::wait(const TransferPtr& transfer, uint64_t wanted_end) const {
  if (is_cancelled()) return failure(Code::resource, "cancelled");
  if (store_->stop_token().stop_requested()) return failure(Code::network, "cancelled");
  const InFlightBlob::WaitScope waiting;
  std::unique_lock lock(mutex_);
  const auto has_ended = [&] { return transfer != nullptr && transfer->result; };
  const auto can_continue = [&] {
    if (transfer == nullptr) return false;
    const uint64_t end = std::min(wanted_end, transfer->blocks.last);
    if (has_ended() || transfer->written >= end) return true;
    transfer->wake_at = std::min(transfer->wake_at, end);
    return false;
  };
  if (transfer != nullptr) ++transfer->readers;
  changed_.wait_for(lock, kWaitInterval, can_continue);
  if (transfer != nullptr) --transfer->readers;
  if (transfer != nullptr && !has_ended()) abandon_if_stalled(*transfer);
  if (!has_ended()) return false;
  // It may have failed after the wanted blocks.
  if (transfer->written < std::min(wanted_end, transfer->blocks.last)) TRY_VOID(Result<void>(*transfer->result));
  return true;
}

// A connection may hang while others of the same server deliver.
void RemoteSource::abandon_if_stalled(Transfer& transfer) const {
  const bool is_stalled = Clock::now() - transfer.last_data > kStalledAfter && last_data_ > transfer.last_data;
  if (is_stalled) abandon(transfer);
}

void RemoteSource::abandon(Transfer& transfer) {
  transfer.is_abandoned = true;
  transfer.thread.request_stop();
}

RemoteSource::TransferPtr RemoteSource::transfer_of(const BlockFilePtr& file, uint64_t block) const {
  const auto found = std::find_if(transfers_.begin(), transfers_.end(), [&](const TransferPtr& transfer) {
    return transfer->file == file && transfer->blocks.contains(block);
  });
  return found == transfers_.end() ? nullptr : *found;
}

// The same as start(), of the wanted blocks only if there is no space for all.
Result<RemoteSource::TransferPtr> RemoteSource::start_some(const BlockFilePtr& file, Blocks absent,
                                                           Blocks wanted) const {
  auto all = start(file, absent);
  if (all || all.error().code != Code::resource) return all;
  if (wanted.empty()) return nullptr;
  const Blocks needed = {absent.first, std::min(absent.last, wanted.last)};
  auto some = start(file, needed);
  if (some || some.error().code != Code::resource || !file->identity().empty()) return some;
  // Nothing evicts a file without identity, so it is read in passes, too: each begins when the transfers of the last one,
  // which have reserved space for later blocks, have ended.
  const auto is_of_file = [&](const TransferPtr& other) { return other->file == file; };
  if (std::any_of(transfers_.begin(), transfers_.end(), is_of_file)) return nullptr;
  const uint64_t kept = (needed.last - needed.first + 1) * BlockFile::kBlock;  // and the head
  if (BlockFile::present_bytes(file->descriptor()->number()) <= kept) return some;
  file->discard();
  return failure(Code::not_found, "discarded");
}

// Null if another process is downloading one of the blocks, or has just written them. Fails with not_found if the file
// was evicted, perhaps for the space of these blocks.
Result<RemoteSource::TransferPtr> RemoteSource::start(const BlockFilePtr& file, Blocks absent) const {
  absent.last = std::min(absent.last, absent.first + kRequestBlocks);
  for (const TransferPtr& other : transfers_)
    if (other->file == file && other->blocks.first > absent.first)
      absent.last = std::min(absent.last, other->blocks.first);
  const bool is_whole = remote_->has_ranges() == false;
  if (is_whole) absent = {0, file->block_count()};
  if (is_whole &&
      std::any_of(transfers_.begin(), transfers_.end(), [&](const auto& other) { return other->file == file; }))
    return nullptr;
  auto claim = BlockFile::claim(file, absent);
  if (claim == nullptr) return nullptr;
  if (!is_whole) absent = TRY(file->first_absent(absent));
  if (absent.empty()) return nullptr;
  TRY_VOID(file->reserve(absent));
  if (file->is_evicted()) return failure(Code::not_found, "evicted");
  const auto transfer = std::make_shared<Transfer>(Transfer{absent, file, {}});
  transfer->claims.push_back(std::move(claim));
  try {
    transfer->thread = std::jthread([this, &it = *transfer](const std::stop_token& stop) { run(it, stop); });
  } catch (const std::system_error&) {
    return failure(Code::resource, "cannot start a download thread");
  }
  transfers_.push_back(transfer);
  return transfer;
}

// Removes transfers that have ended; the readers that wait for them keep them.
void RemoteSource::reap() const {
  std::erase_if(transfers_, [](const TransferPtr& transfer) { return transfer->result.has_value(); });
}

void RemoteSource::run(Transfer& transfer, const std::stop_token& stop) const noexcept {
  auto result = exceptions_to_errors([&] {
    const CountScope counted = store_->count_transfer();
    return fetch(transfer, stop);
  });
  const std::scoped_lock lock(mutex_);
  if (!result) transfer.file->free_absent_blocks(transfer.blocks);
  transfer.claims.clear();
  const auto is_writing = [&](const TransferPtr& other) {
    return other.get() != &transfer && !other->result && other->file == transfer.file;
  };
  if (!result && std::none_of(transfers_.begin(), transfers_.end(), is_writing)) transfer.file->release_unused_space();
  max_ahead_ = std::min(ReadAhead::kMaxWindow, max_ahead_ + BlockFile::kBlock);
  // The server may limit connections: try again over one, unless the others receive nothing either.
  const auto is_receiving = [&](const TransferPtr& other) {
    return other.get() != &transfer && !other->result && Clock::now() - other->last_data < kStalledAfter;
  };
  if (!result && max_transfers_ > 1 && std::any_of(transfers_.begin(), transfers_.end(), is_receiving)) {
    if (!transfer.is_abandoned) max_transfers_ = 1;
    result = {};
  }
  if (transfer.is_abandoned) result = {};
  transfer.result = std::move(result);
  changed_.notify_all();
}

Result<void> RemoteSource::fetch(Transfer& transfer, const std::stop_token& stop) const {
  std::stop_source either;
  const std::stop_callback on_stop(stop, [&] { either.request_stop(); });
  const std::stop_callback on_end(store_->stop_token(), [&] { either.request_stop(); });
  BlockWriter writer(*transfer.file, list_.get(), [&](Blocks written) {
    const std::scoped_lock lock(mutex_);
    record_written(transfer, written);
  });
  bool may_extend = true;
  const auto begin = [&] { return transfer.blocks.first * BlockFile::kBlock; };
  const auto end = [&] { return std::min(size(), transfer.blocks.last * BlockFile::kBlock); };
  const auto sink = [&](uint64_t offset, std::span<const std::byte> bytes) -> Result<bool> {
    if (bytes.empty()) {
      TRY_VOID(writer.write());
      return true;
    }
    bytes_fetched_ += bytes.size();
    store_->stats().record_received(bytes.size());
    // A server without ranges sends the whole file: keep all of it.
    if (may_extend && remote_->has_ranges() == false) {
      may_extend = false;
      extend(transfer);
    }
    const uint64_t from = std::clamp(offset, begin(), end());
    const uint64_t to = std::clamp(offset + bytes.size(), from, end());
    const auto kept = bytes.subspan(static_cast<size_t>(from - offset < bytes.size() ? from - offset : bytes.size()))
                          .first(static_cast<size_t>(to - from));
    if (!kept.empty()) TRY_VOID(writer.add(from, kept));
    const std::scoped_lock lock(mutex_);
    transfer.last_data = last_data_ = Clock::now();
    return offset + bytes.size() < end();
  };
  Result<void> fetched = remote_->fetch({begin(), end()}, sink, either.get_token());
  if (auto written = writer.write(); fetched && !written) fetched = std::move(written);
  return verified_by_list(std::move(fetched));
}

// Adds the URL to the error of a block list.
Result<void> RemoteSource::verified_by_list(Result<void> result) const {
  if (result || result.error().code != Code::mismatch) return result;
  return failure(Code::mismatch, fmt::format("{}: {}", remote_->printable(), result.error().message));
}

// Makes it a transfer of the whole file, unless others download parts of it.
void RemoteSource::extend(Transfer& transfer) const {
  const std::scoped_lock lock(mutex_);
  const BlockFilePtr& file = transfer.file;
  if (transfer.blocks.last - transfer.blocks.first == file->block_count()) return;
  const Blocks before = {0, transfer.blocks.first};
  const Blocks after = {transfer.blocks.last, file->block_count()};
  for (const TransferPtr& other : transfers_)
    if (other.get() != &transfer && other->file == file && !other->result) return;
  for (const Blocks& rest : {before, after}) {
    if (rest.empty()) continue;
    auto claim = BlockFile::claim(file, rest);
    if (claim == nullptr || !file->reserve(rest)) return;
    transfer.claims.push_back(std::move(claim));
  }
  transfer.blocks = {0, file->block_count()};
  transfer.written = 0;
}

}  // namespace weightfs::blobs
