#include "cache/blobs/remote_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <system_error>
#include <vector>

#include "base/cancel.h"
#include "base/digest.h"

namespace weightfs::blobs {
namespace {

using namespace store;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

constexpr uint64_t kFirstWindow = 1 * kMiB;
constexpr uint64_t kSmall = 256 * kKiB;  // requested whole
constexpr uint64_t kNear = 2 * kMiB;     // parallel reads of one reader arrive out of order by less
constexpr uint64_t kRequest = 8 * kMiB;  // bytes per request
constexpr uint64_t kRequestBlocks = kRequest / BlockFile::kBlock;

// A waiting reader checks at this interval whether it was cancelled, and whether another process has written its
// blocks.
constexpr std::chrono::milliseconds kWaitInterval{20};

constexpr int kMaxAttempts = 4;  // transfers that end without the wanted blocks

// Combines received bytes to whole blocks.
class BlockWriter {
 public:
  explicit BlockWriter(BlockFile& file) : file_(file) {}

  // Returns whether blocks were written.
  Result<bool> add(uint64_t offset, std::span<const std::byte> bytes) {
    if (offset != begin_ + pending_.size()) {
      pending_.clear();
      const uint64_t skipped = (BlockFile::kBlock - offset % BlockFile::kBlock) % BlockFile::kBlock;
      if (skipped >= bytes.size()) return false;
      begin_ = offset + skipped;
      bytes = bytes.subspan(static_cast<size_t>(skipped));
    }
    pending_.insert(pending_.end(), bytes.begin(), bytes.end());
    const bool is_end = begin_ + pending_.size() == file_.size();
    const size_t whole = is_end ? pending_.size() : pending_.size() / BlockFile::kBlock * BlockFile::kBlock;
    if (whole == 0) return false;
    TRY_VOID(file_.write(begin_ / BlockFile::kBlock, std::span(pending_).first(whole)));
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(whole));
    begin_ += whole;
    return true;
  }

 private:
  BlockFile& file_;
  uint64_t begin_ = 0;  // of the pending bytes; a multiple of the block size
  std::vector<std::byte> pending_;
};

}  // namespace

ReadAhead::Stream& ReadAhead::stream_at(uint64_t from, uint64_t to, uint64_t gap) {
  const auto continues = [&](const Stream& stream) {
    return stream.next != UINT64_MAX && from <= stream.next + gap && to + gap >= stream.next && from >= stream.begin;
  };
  const auto found = std::find_if(streams_.begin(), streams_.end(), continues);
  if (found != streams_.end()) return *found;
  Stream& oldest = *std::min_element(streams_.begin(), streams_.end(),
                                     [](const Stream& a, const Stream& b) { return a.used < b.used; });
  oldest = {.begin = from, .next = from};
  return oldest;
}

uint64_t ReadAhead::end_for(uint64_t from, uint64_t to, const std::optional<ByteRange>& expected) {
  Stream& stream = stream_at(from, to, expected ? kNear : BlockFile::kBlock);
  stream.used = ++reads_;
  const bool is_first = stream.next == stream.begin;
  const bool is_new = to > stream.next;
  stream.next = std::max(stream.next, to);
  if (!expected) return to + (from - stream.begin) / 10 / BlockFile::kBlock * BlockFile::kBlock;
  if (expected->to - expected->from <= kSmall) return std::max(to, expected->to);
  if (is_first && from != expected->from) return to;
  if (is_new) stream.window = std::clamp(2 * stream.window, kFirstWindow, RemoteSource::kMaxWindow);
  if (stream.requested > stream.next + stream.window / 2) return to;
  stream.requested = std::max(to, std::min(expected->to, stream.next + stream.window));
  return stream.requested;
}

RemoteSource::RemoteSource(download::RemoteFilePtr remote, std::shared_ptr<StoreCore> store)
    : remote_(std::move(remote)),
      store_(std::move(store)),
      identity_(identity_of(remote_->url(), remote_->version())),
      bytes_fetched_(remote_->head().size()) {
  store_->stats().record_range(bytes_fetched_);
}

RemoteSource::~RemoteSource() {
  for (const TransferPtr& transfer : transfers_) transfer->thread.request_stop();
  for (const TransferPtr& transfer : transfers_)
    if (transfer->thread.joinable()) transfer->thread.join();
}

std::optional<std::string> RemoteSource::identity_of(const std::string& url, const download::FileVersion& version) {
  if (!version.is_pinned()) return std::nullopt;
  const std::string shown = http::printable_url(url);
  const std::string query = shown == url ? "" : " " + sha256(url).hex();  // it may be secret
  return fmt::format("{} {} {}{}", shown, version.etag, version.size, query);
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
  return {remote_->printable(), size(), remote_->requests(), bytes_fetched_, bytes_read_, verified_};
}

// Reads all of `target`, and requests the bytes up to `ahead_end`.
Result<size_t> RemoteSource::read_with(uint64_t offset, std::span<std::byte> target, uint64_t ahead_end) const {
  const uint64_t end = offset + target.size();
  size_t done = 0;
  for (int attempts = 0; attempts < kMaxAttempts;) {
    const BlockFilePtr file = TRY(open_blocks());
    ahead_end = std::min(ahead_end, end + max_ahead_);
    const auto read = file->read(offset + done, target.subspan(done));
    if (!read && file->is_evicted()) continue;
    if (!read && file->is_verified() && ++attempts < kMaxAttempts) continue;  // its map was just removed
    if (TRY(read) > 0) attempts = 0;
    done += *read;
    const auto started = request(file, file->blocks_of(offset + done, end), file->blocks_of(offset + done, ahead_end));
    if (done == target.size()) return done;  // a failure to read ahead is reported by a later read
    if (!started && (file->is_evicted() || (file->is_verified() && ++attempts < kMaxAttempts))) continue;
    const TransferPtr transfer = TRY(started);
    attempts += TRY(wait(transfer));
  }
  return failure(Code::io, fmt::format("{}: the cache does not return what was written", remote_->printable()));
}

Result<void> RemoteSource::fetch(ByteRange range) const {
  range.to = std::min(range.to, size());
  std::vector<std::byte> ignored(
      static_cast<size_t>(std::min(range.to - std::min(range.from, range.to), kFirstWindow)));
  for (uint64_t at = range.from; at < range.to; at += ignored.size()) {
    const auto out = std::span(ignored).first(static_cast<size_t>(std::min<uint64_t>(ignored.size(), range.to - at)));
    TRY(read_with(at, out, std::min(range.to, at + kMaxWindow)));
  }
  return {};
}

bool RemoteSource::is_complete() const {
  const auto file = open_blocks();
  return file && (*file)->is_complete().value_or(false);
}

Result<std::pair<Digest, BlockSums>> RemoteSource::digest(const std::stop_token& stop) const {
  Sha256 hash;
  BlockSums sums;
  std::vector<std::byte> buffer(kFirstWindow);
  for (uint64_t at = 0; at < size(); at += buffer.size()) {
    if (stop.stop_requested()) return failure(Code::resource, "cancelled");
    const auto bytes = std::span(buffer).first(TRY(read_blocks(at, buffer, ByteRange{0, size()})));
    hash.update(bytes);
    sums.add(bytes);
  }
  return std::pair(hash.finish(), std::move(sums));
}

Result<void> RemoteSource::publish(const Digest& digest, BlockSums sums) const {
  verified_ = "whole";
  TRY(open_blocks())->set_verified();  // its readers go on without the map
  return identity_ ? store_->backend().publish_blocks(*identity_, digest, size(), std::move(sums)) : Result<void>();
}

void RemoteSource::drop_blocks() const {
  verified_ = "mismatch";
  const std::scoped_lock lock(mutex_);
  if (identity_) store_->backend().remove_blocks(*identity_);
  blocks_ = nullptr;
}

// The cached blocks; a new file if they were evicted.
Result<BlockFilePtr> RemoteSource::open_blocks() const {
  const std::scoped_lock lock(mutex_);
  if (blocks_ != nullptr && !blocks_->is_evicted()) return blocks_;
  // Blocks that are requested ahead may have taken the place of the others: request fewer.
  if (blocks_ != nullptr) max_ahead_ = max_ahead_ / 2;
  blocks_ = TRY(store_->backend().open_blocks(identity_, size()));
  const std::string& head = remote_->head();
  const uint64_t whole = head.size() == size() ? head.size() : head.size() / BlockFile::kBlock * BlockFile::kBlock;
  if (whole > 0 && blocks_->reserve(blocks_->blocks_of(0, whole)))
    TRY_VOID(blocks_->write(0, std::as_bytes(std::span(head)).first(whole)));
  return blocks_;
}

// Starts transfers of the absent blocks in `ahead`. Returns that of the first absent block in `wanted`; null if there
// is none, or if another process is downloading it.
Result<RemoteSource::TransferPtr> RemoteSource::request(const BlockFilePtr& file, Blocks wanted, Blocks ahead) const {
  const std::scoped_lock lock(mutex_);
  reap();
  TransferPtr first;
  bool is_first = true;
  for (Blocks rest = ahead; !rest.empty();) {
    const Blocks absent = TRY(file->first_absent(rest));
    if (absent.empty()) break;
    const bool is_wanted = wanted.contains(absent.first);
    TransferPtr transfer = transfer_of(file, absent.first);
    const bool may_start = transfer == nullptr && (is_wanted || transfers_.size() < kMaxTransfers);
    if (may_start) transfer = TRY(start_some(file, absent, {absent.first, wanted.last}));
    if (is_first && is_wanted) first = transfer;
    is_first = false;
    rest.first = transfer == nullptr ? absent.last : std::max(absent.first + 1, transfer->blocks.last);
  }
  return first;
}

// Waits for a moment, until blocks were written or the transfer has ended: then it returns true. Fails as the transfer.
Result<bool> RemoteSource::wait(const TransferPtr& transfer) const {
  if (is_cancelled()) return failure(Code::resource, "cancelled");
  if (store_->stop_token().stop_requested()) return failure(Code::network, "cancelled");
  std::unique_lock lock(mutex_);
  const auto has_ended = [&] { return transfer != nullptr && transfer->result; };
  if (!has_ended()) changed_.wait_for(lock, kWaitInterval);
  if (!has_ended()) return false;
  TRY_VOID(Result<void>(*transfer->result));
  return true;
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
  return start(file, {absent.first, std::min(absent.last, wanted.last)});
}

// Null if another process is downloading one of the blocks. Fails with not_found if the space for them was made by
// evicting this file.
Result<RemoteSource::TransferPtr> RemoteSource::start(const BlockFilePtr& file, Blocks absent) const {
  absent.last = std::min(absent.last, absent.first + kRequestBlocks);
  for (const TransferPtr& other : transfers_)
    if (other->file == file && other->blocks.first > absent.first)
      absent.last = std::min(absent.last, other->blocks.first);
  if (!remote_->has_ranges()) absent = {0, file->block_count()};
  auto claim = BlockFile::claim(file, absent);
  if (claim == nullptr) return nullptr;
  TRY_VOID(file->reserve(absent));
  if (file->is_evicted()) return failure(Code::not_found, "evicted");
  const auto transfer = std::make_shared<Transfer>(Transfer{absent, file, std::move(claim)});
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
  Result<void> result;
  try {
    result = fetch(transfer, stop);
  } catch (const std::exception&) {
    result = failure(Code::resource, "out of memory");
  }
  transfer.claim = nullptr;
  const std::scoped_lock lock(mutex_);
  max_ahead_ = std::min(kMaxWindow, max_ahead_ + BlockFile::kBlock);
  transfer.result = std::move(result);
  changed_.notify_all();
}

Result<void> RemoteSource::fetch(const Transfer& transfer, const std::stop_token& stop) const {
  std::stop_source either;
  const std::stop_callback on_stop(stop, [&] { either.request_stop(); });
  const std::stop_callback on_end(store_->stop_token(), [&] { either.request_stop(); });
  BlockWriter writer(*transfer.file);
  const auto sink = [&](uint64_t offset, std::span<const std::byte> bytes) -> Result<void> {
    bytes_fetched_ += bytes.size();
    store_->stats().record_range(bytes.size());
    if (!TRY(writer.add(offset, bytes))) return {};
    const std::scoped_lock lock(mutex_);
    changed_.notify_all();
    return {};
  };
  const uint64_t end = std::min(size(), transfer.blocks.last * BlockFile::kBlock);
  const bool is_ranged = remote_->has_ranges();
  auto done = remote_->fetch({transfer.blocks.first * BlockFile::kBlock, end}, sink, either.get_token());
  if (is_ranged && !remote_->has_ranges()) return {};  // the next transfer is one of the whole file
  return done;
}

}  // namespace weightfs::blobs
