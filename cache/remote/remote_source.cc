#include "cache/remote/remote_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/cancel.h"
#include "base/download_scope.h"
#include "base/os/memory.h"

namespace weightfs::blobs {
namespace {

using namespace store;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

constexpr int kMaxEvictions = 8;
constexpr int kMaxAttempts = 4;  // transfers that end without the wanted blocks

// More reads at a time (of all files) that are larger than this get their bytes when all of them are present.
constexpr int kFewReads = 8;
constexpr uint64_t kLargeRead = 256 * kKiB;

// The most bytes that drop_unverified() drops: a header, not the hours of a download.
constexpr uint64_t kMaxDropped = 16 << 20;

// That stay of a file whose decoded form is cached: they have what detects a format (Probe in formats/format.h), whose
// last bytes may begin in the block before the last.
constexpr uint64_t kFirstBlocks = 1;
constexpr uint64_t kLastBlocks = 2;

constexpr uint64_t kStep = 1 * kMiB;  // bytes that are fetched at a time
}  // namespace

RemoteSource::RemoteSource(download::RemoteFilePtr remote, std::shared_ptr<StoreCore> store,
                           std::optional<std::string> identity, std::optional<BlobName> blob, BlockListPtr list)
    : remote_(std::move(remote)),
      store_(std::move(store)),
      identity_(std::move(identity)),
      blob_(std::move(blob)),
      has_list_(list != nullptr),
      delivery_(has_digest() ? std::make_unique<Delivery>(remote_->size()) : nullptr),
      verified_(verification_by_server()),
      ranges_(remote_, store_, std::move(list),
              [this](const BlockFilePtr& file, Blocks blocks) { record_written(file, blocks); }) {}

RemoteSource::~RemoteSource() {
  ranges_.stop();
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
  const uint64_t generation = std::max<uint64_t>(generation_, 1);  // the first one begins with the first read
  const size_t got = TRY(read_through(offset, target, ahead_end));
  if (delivery_ != nullptr && verified_ != VerifiedBy::whole) note(generation, offset, target.first(got));
  return got;
}

void RemoteSource::note(uint64_t generation, uint64_t offset, std::span<const std::byte> bytes) const {
  BlockFilePtr file;
  {
    const std::scoped_lock lock(mutex_);
    if (generation_ == generation) file = blocks_;
  }
  const auto read_back = [&](uint64_t from, std::span<std::byte> out) {
    return file == nullptr ? 0 : file->read(from, out).value_or(0);
  };
  delivery_->note(file == nullptr ? 0 : generation, offset, bytes, read_back);
}

bool RemoteSource::awaits_comparison() const {
  if (delivery_ == nullptr || verified_ == VerifiedBy::whole) return false;
  if (delivery_->is_whole() || delivery_->is_hashed() || verified_ == VerifiedBy::mismatch) return true;
  return !served_unverified_ && is_complete();
}

void RemoteSource::serve_uncompared() const {
  served_unverified_ = true;
  if (delivery_ != nullptr) delivery_->forget_noted();
}

void RemoteSource::set_served_verified() const {
  if (delivery_ == nullptr) return;
  delivery_->note_all();
  delivery_->restart_hash();
}

bool RemoteSource::begin_serving(uint64_t generation) const {
  if (served_unverified_ || verified_ == VerifiedBy::whole) return true;
  const std::scoped_lock lock(mutex_);
  if (blocks_ == nullptr || generation_ != std::max<uint64_t>(generation, 1)) return verified_ == VerifiedBy::whole;
  return served_unverified_ = true;
}

StoreStatus::Remote RemoteSource::status() const {
  const VerifiedBy verified = verified_;
  const bool is_whole = verified == VerifiedBy::whole;
  const uint64_t present = std::min(present_.load(), block_count());
  std::optional<uint64_t> verified_blocks;
  if (blob_ && blob_->digest) verified_blocks = is_whole ? block_count() : 0;
  if (has_list_) verified_blocks = present;
  const uint64_t comparing = comparing_;
  return {.url = remote_->printable(),
          .size = size(),
          .requests = remote_->requests(),
          .bytes_fetched = ranges_.bytes_fetched(),
          .bytes_read = bytes_read_,
          .verified = to_text(verified),
          .blocks = block_count(),
          .present = present,
          .verified_blocks = verified_blocks,
          .comparing = comparing == kNotComparing ? std::nullopt : std::optional(comparing)};
}

uint64_t RemoteSource::block_count() const { return blocks_in(size()); }

// For blocks that were not hashed as a whole.
VerifiedBy RemoteSource::verification_by_server() const {
  if (has_list_) return VerifiedBy::blocks;
  return identity_ ? VerifiedBy::transport : VerifiedBy::unpinned;
}

std::atomic<int>* RemoteSource::counter_of(size_t size) { return size > kLargeRead ? &large_reads_ : nullptr; }

Result<size_t> RemoteSource::read_through(uint64_t offset, std::span<std::byte> target, uint64_t ahead_end) const {
  const uint64_t end = offset + target.size();
  size_t done = 0;
  uint64_t absent = 0;  // the first absent block that was found
  auto last_progress = Clock::now();
  uint64_t last_written = 0;
  Ranges::TransferPtr transfer;  // that was waited for last
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
    ahead_end = std::min(ahead_end, end + ranges_.max_ahead());
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
    const auto started = ranges_.request(file, wanted, file->blocks_of(offset + done, ahead_end), transfer);
    if (done == target.size()) return done;  // a failure to read ahead is reported by a later read
    if (!started && !file->is_current()) continue;
    transfer = TRY(started);
    if (transfer != nullptr || !ranges_.is_idle() || last_written != file->last_written()) last_progress = Clock::now();
    last_written = file->last_written();
    if (Clock::now() - last_progress > store_->max_wait_for_others())
      return failure(Code::io,
                     fmt::format("{}: another process is downloading it, and makes no progress", remote_->printable()));
    const auto ended = ranges_.wait(transfer, wanted.last);
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
    TRY(read_through(at, out, std::min(range.to, at + ReadAhead::kMaxWindow)));
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

// The blocks of a stream may have been present before.
void RemoteSource::record_written(const BlockFilePtr& file, Blocks blocks) const {
  const bool is_stream = remote_->has_ranges() == false;
  const std::scoped_lock lock(mutex_);
  if (file != blocks_) return;
  written_.add(blocks);
  present_ = is_stream ? std::max(present_.load(), blocks.last) : present_ + blocks.last - blocks.first;
}

void RemoteSource::set_published() const {
  const std::scoped_lock lock(mutex_);
  blocks_ = nullptr;
  present_ = block_count();
}

void RemoteSource::remove_if_empty() const {
  const std::scoped_lock lock(mutex_);
  if (blocks_ != nullptr && identity_ && BlockFile::present_bytes(blocks_->files()) == 0)
    store_->backend().remove_blocks(*identity_, BlockFile::Evict::unheld);
}

bool RemoteSource::drop_blocks(const Error& mismatch) const {
  const std::scoped_lock lock(mutex_);
  const bool is_repeated = !served_unverified_ && remote_->reject(has_blocks_of_others());
  verified_ = is_repeated ? verification_by_server() : VerifiedBy::mismatch;
  if (!is_repeated) refused_ = mismatch;
  if (delivery_ != nullptr) delivery_->restart_hash();
  if (blocks_ != nullptr) blocks_->release();
  if (identity_) store_->backend().remove_blocks(*identity_, BlockFile::Evict::all);
  blocks_ = nullptr;
  present_ = 0;
  return is_repeated;
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

bool RemoteSource::drop_middle(const BlockFilePtr& file) const {
  const std::scoped_lock lock(mutex_);
  const Blocks middle = {kFirstBlocks, block_count() - kLastBlocks};
  if (file != blocks_ || written_.first_missing(middle) < middle.last) return false;
  if (!store_->backend().release_blocks(*identity_)) return false;
  blocks_ = nullptr;
  present_ = 0;
  return true;
}

// Nothing is written if the cache has no space for it: then these bytes are downloaded again.
void RemoteSource::write_back(uint64_t first, std::span<const std::byte> bytes) const {
  const auto opened = open();
  if (!opened || opened->blocks == nullptr || bytes.empty()) return;
  const BlockFilePtr& file = opened->blocks;
  const Blocks range = file->blocks_of(first * kBlock, first * kBlock + bytes.size());
  const auto claim = BlockFile::claim(file, range);
  const auto absent = file->first_absent(range);
  if (claim == nullptr || !absent || !*absent) return;
  if (file->reserve(range) && file->write(first, bytes)) record_written(file, **absent);
}

// With the bytes at both ends, the next process finds the format without a request, also with --offline.
void RemoteSource::release_middle() const {
  if (!identity_ || has_digest() || block_count() <= kFirstBlocks + kLastBlocks) return;
  const auto opened = open();
  if (!opened || opened->blocks == nullptr) return;
  const BlockFilePtr file = opened->blocks;
  const uint64_t last = block_count() - kLastBlocks;
  std::vector<std::byte> head(kFirstBlocks * kBlock), tail(static_cast<size_t>(size() - last * kBlock));
  const auto fill = [&](uint64_t first, std::vector<std::byte>& bytes) {
    if (file->read(first * kBlock, bytes).value_or(0) < bytes.size()) bytes.clear();
  };
  fill(0, head);
  fill(last, tail);
  if (head.empty() || !drop_middle(file)) return;
  write_back(0, head);
  write_back(last, tail);
}

void RemoteSource::accept() const {
  const std::scoped_lock lock(mutex_);
  refused_.reset();
}

// In a process that keeps what it reads, also its own, so that no other one releases the blocks.
std::vector<Name> RemoteSource::names() const {
  std::vector<Name> names = {{NameKind::url, remote_->printable()}};
  if (store_->keeps_packed()) names.push_back({NameKind::keeper, "fetch"});
  return names;
}

// Whether an earlier run, or another process at the same time, has written some of the blocks.
bool RemoteSource::has_blocks_of_others() const { return written_.first_missing({0, block_count()}) < block_count(); }

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
  const std::string_view head = !has_list_ ? remote_->head() : std::string_view();
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

Result<RemoteSource::Opened> RemoteSource::open() const {
  const std::scoped_lock lock(mutex_);
  if (refused_) return tl::unexpected(*refused_);
  if (blocks_ != nullptr && blocks_->is_current()) return Opened{blocks_, nullptr};
  if (FileRangePtr blob = find_blob()) return Opened{nullptr, std::move(blob)};
  if (blocks_ != nullptr) ranges_.request_less_ahead();
  blocks_ = TRY(store_->backend().open_blocks(identity(), size()));
  if (identity_ && !digest_of_identity(*identity_)) store_->names().add(*identity_, names());
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
  if (verification() == VerifiedBy::whole) {
    verified_ = verification_by_server();
    set_served_verified();
  }
  write_head();
  return Opened{blocks_, nullptr};
}

}  // namespace weightfs::blobs
