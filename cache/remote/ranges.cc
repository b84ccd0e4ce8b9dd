#include "cache/remote/ranges.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/download_scope.h"
#include "cache/decoding/in_flight_blob.h"

namespace weightfs::blobs {
namespace {

using namespace store;

constexpr uint64_t kRequest = uint64_t{8} << 20;  // bytes per request: the largest window is eight requests in parallel
constexpr uint64_t kRequestBlocks = kRequest / kBlock;

// Bytes that a transfer writes at a time, if so many have arrived. Many transfers share the memory of sixteen.
constexpr size_t kMaxBatch = 256 << 10;
constexpr size_t kMinBatch = 64 << 10;
size_t batch_of(size_t transfers) {
  return std::clamp(16 * kMaxBatch / std::max<size_t>(transfers, 1), kMinBatch, kMaxBatch);
}

// when_idle() waits this long for the last transfers of other processes.
constexpr std::chrono::seconds kMaxClaimWait{10};

// Combines received bytes to whole blocks, and writes a batch of blocks at a time: libcurl passes 16 KiB.
class BlockWriter {
 public:
  using OnWritten = std::function<void(Blocks)>;

  BlockWriter(BlockFile& file, const BlockList* list, size_t batch, OnWritten on_written)
      : file_(file), list_(list), batch_(batch), on_written_(std::move(on_written)) {
    pending_.reserve(batch + kBlock);
  }

  Result<void> add(uint64_t offset, std::span<const std::byte> bytes) {
    if (offset != begin_ + pending_.size()) {
      TRY_VOID(write());
      pending_.clear();
      const uint64_t skipped = (kBlock - offset % kBlock) % kBlock;
      if (skipped >= bytes.size()) return {};
      begin_ = offset + skipped;
      bytes = bytes.subspan(static_cast<size_t>(skipped));
    }
    pending_.insert(pending_.end(), bytes.begin(), bytes.end());
    return pending_.size() < batch_ ? Result<void>() : write();
  }

  // Writes the complete blocks; with a block list those before the first that does not match.
  Result<void> write() {
    const bool is_end = begin_ + pending_.size() == file_.size();
    const size_t whole = is_end ? pending_.size() : pending_.size() / kBlock * kBlock;
    Result<void> verified;
    size_t matching = list_ == nullptr ? whole : 0;
    while (matching < whole) {
      const auto block = std::span(pending_).subspan(matching, std::min<size_t>(kBlock, whole - matching));
      if (verified = list_->verify(begin_ + matching, block); !verified) break;
      matching += block.size();
    }
    if (matching > 0) TRY_VOID(write_first(matching));
    return verified;
  }

 private:
  Result<void> write_first(size_t size) {
    const Blocks written = {begin_ / kBlock, blocks_in(begin_ + size)};
    TRY_VOID(file_.write(written.first, std::span(pending_).first(size)));
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(size));
    begin_ += size;
    on_written_(written);
    return {};
  }

  BlockFile& file_;
  const BlockList* list_;  // may be null
  const size_t batch_;
  const OnWritten on_written_;
  uint64_t begin_ = 0;  // of the pending bytes; a multiple of the block size
  std::vector<std::byte> pending_;
};

}  // namespace

// In a thread of its own.
struct Ranges::Transfer {
  Blocks blocks;
  BlockFilePtr file;
  http::Urgency urgency = http::Urgency::waited_for;
  std::vector<BlockFile::Claim> claims = {};
  std::optional<Result<void>> result = {};     // set when it has ended
  Clock::time_point last_data = Clock::now();  // or its start
  uint64_t written = 0;                        // the end of the blocks that it wrote last
  uint64_t wake_at = UINT64_MAX;               // the first end that a reader waits for
  size_t readers = 0;                          // that wait for it
  bool is_abandoned = false;  // stalled while others were not, or unused: its blocks may be requested again
  std::jthread thread = {};
};

Ranges::Ranges(download::RemoteFilePtr remote, std::shared_ptr<StoreCore> store, BlockListPtr list,
               OnWritten on_written)
    : remote_(std::move(remote)),
      store_(std::move(store)),
      list_(std::move(list)),
      on_written_(std::move(on_written)),
      bytes_fetched_(remote_->head().size()) {
  store_->stats().record_received(bytes_fetched_);
}

void Ranges::stop() {
  for (const TransferPtr& transfer : transfers_) transfer->thread.request_stop();
  for (const TransferPtr& transfer : transfers_)
    if (transfer->thread.joinable()) transfer->thread.join();
  transfers_.clear();
}

bool Ranges::is_idle() const {
  const std::scoped_lock lock(mutex_);
  return transfers_.empty();
}

// A transfer delivers many times what a reader waits for, so it wakes the readers only when one of them can continue.
void Ranges::record_written(Transfer& transfer, Blocks blocks) {
  on_written_(transfer.file, blocks);
  const std::scoped_lock lock(mutex_);
  transfer.written = blocks.last;
  if (transfer.written < transfer.wake_at) return;
  transfer.wake_at = UINT64_MAX;
  changed_.notify_all();
}

Result<Ranges::TransferPtr> Ranges::request(const BlockFilePtr& file, Blocks wanted, Blocks ahead,
                                            const TransferPtr& waited_for) {
  const std::scoped_lock lock(mutex_);
  const bool has_failed =
      waited_for != nullptr && waited_for->file == file && waited_for->result && !*waited_for->result;
  if (has_failed && waited_for->blocks.contains(wanted.first)) return waited_for;
  reap();
  TransferPtr first;
  bool is_first = true;
  for (Blocks rest = ahead; !rest.empty();) {
    const auto absent = TRY(file->first_absent(rest, wanted.last));
    if (!absent) break;
    const bool is_wanted = wanted.contains(absent->first);
    TransferPtr transfer = transfer_of(file, absent->first);
    if (transfer == nullptr && may_start(is_wanted))
      transfer = TRY(start_some(file, *absent, {absent->first, wanted.last}));
    if (is_first && is_wanted) first = transfer;
    is_first = false;
    rest.first = transfer == nullptr ? absent->last : std::max(absent->first + 1, transfer->blocks.last);
  }
  return first;
}

// Until the server is known to send ranges, one transfer at a time: it may send the whole file.
bool Ranges::may_start(bool is_wanted) const {
  if (transfers_.empty()) return true;
  if (!remote_->has_ranges()) return false;
  if (is_wanted) return max_transfers_ > 1;
  return transfers_.size() < max_transfers_ && store_->may_read_ahead();
}

Result<bool> Ranges::wait(const TransferPtr& transfer, uint64_t wanted_end) {
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
  changed_.wait_for(lock, store_->times().block_check, can_continue);
  if (transfer != nullptr) --transfer->readers;
  if (transfer != nullptr && !has_ended()) abandon_if_stalled(*transfer);
  if (!has_ended()) return false;
  // It may have failed after the wanted blocks.
  if (transfer->written < std::min(wanted_end, transfer->blocks.last)) TRY_VOID(Result<void>(*transfer->result));
  return true;
}

// A connection may hang while others of the same server deliver.
void Ranges::abandon_if_stalled(Transfer& transfer) const {
  const bool is_stalled = Clock::now() - transfer.last_data > store_->times().stalled_transfer;
  if (is_stalled && last_data_ > transfer.last_data) abandon(transfer);
}

void Ranges::abandon(Transfer& transfer) {
  transfer.is_abandoned = true;
  transfer.thread.request_stop();
}

Ranges::TransferPtr Ranges::transfer_of(const BlockFilePtr& file, uint64_t block) const {
  const auto found = std::find_if(transfers_.begin(), transfers_.end(), [&](const TransferPtr& transfer) {
    return transfer->file == file && transfer->blocks.contains(block);
  });
  return found == transfers_.end() ? nullptr : *found;
}

bool Ranges::has_transfer(const BlockFilePtr& file) const {
  return std::any_of(transfers_.begin(), transfers_.end(),
                     [&](const TransferPtr& transfer) { return transfer->file == file; });
}

// Starts as start() does, for the wanted blocks only if there is no space for all.
Result<Ranges::TransferPtr> Ranges::start_some(const BlockFilePtr& file, Blocks absent, Blocks wanted) {
  const bool is_ahead = !wanted.contains(absent.first) || DownloadScope::is_active();
  const auto urgency = is_ahead ? http::Urgency::ahead : http::Urgency::waited_for;
  auto all = start(file, absent, urgency);
  if (all || all.error().code != Code::resource) return all;
  if (wanted.empty()) return nullptr;
  const Blocks needed = {absent.first, std::min(absent.last, wanted.last)};
  auto some = start(file, needed, urgency);
  if (some || some.error().code != Code::resource || !file->identity().empty()) return some;
  // Nothing evicts a file without identity, so it is read in passes, too: each begins when the transfers of the last
  // one, which have reserved space for later blocks, have ended.
  if (has_transfer(file)) return nullptr;
  const uint64_t kept = (needed.last - needed.first + 1) * kBlock;  // and the head
  if (BlockFile::present_bytes(file->files()) <= kept) return some;
  file->discard();
  return failure(Code::not_found, "discarded");
}

// Null if another process is downloading one of the blocks, or has just written them. Fails with not_found if the file
// was evicted, perhaps for the space of these blocks.
Result<Ranges::TransferPtr> Ranges::start(const BlockFilePtr& file, Blocks absent, http::Urgency urgency) {
  absent.last = std::min(absent.last, absent.first + kRequestBlocks);
  for (const TransferPtr& other : transfers_)
    if (other->file == file && other->blocks.first > absent.first)
      absent.last = std::min(absent.last, other->blocks.first);
  const bool is_whole = remote_->has_ranges() == false;
  if (is_whole) absent = {0, file->block_count()};
  if (is_whole && has_transfer(file)) return nullptr;
  auto claim = BlockFile::claim(file, absent);
  while (claim != nullptr && !is_whole) {
    const auto still = TRY(file->first_absent(absent));
    if (!still) return nullptr;
    if (*still == absent) break;
    // Another process has just written some of them. The claims of transfers must not overlap, so claim the rest only.
    claim.reset();
    absent = *still;
    claim = BlockFile::claim(file, absent);
  }
  if (claim == nullptr) return nullptr;
  TRY_VOID(file->reserve(absent));
  if (!file->is_current()) return failure(Code::not_found, "evicted");
  const auto transfer = std::make_shared<Transfer>(Transfer{absent, file, urgency});
  transfer->claims.push_back(std::move(claim));
  transfers_.push_back(transfer);
  try {
    transfer->thread = std::jthread([this, &it = *transfer](const std::stop_token& stop) { run(it, stop); });
  } catch (const std::system_error&) {
    transfers_.pop_back();
    return failure(Code::resource, "cannot start a download thread");
  }
  return transfer;
}

// Removes transfers that have ended; the readers that wait for them keep them.
void Ranges::reap() {
  std::erase_if(transfers_, [](const TransferPtr& transfer) { return transfer->result.has_value(); });
}

void Ranges::run(Transfer& transfer, const std::stop_token& stop) noexcept {
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
  has_unused_space_ = has_unused_space_ || !result;
  if (has_unused_space_ && std::none_of(transfers_.begin(), transfers_.end(), is_writing)) {
    transfer.file->release_unused_space();
    has_unused_space_ = false;
  }
  max_ahead_ = std::min(ReadAhead::kMaxWindow, max_ahead_ + kBlock);
  // The server may limit connections: try again over one, unless the others receive nothing either.
  const auto is_receiving = [&](const TransferPtr& other) {
    return other.get() != &transfer && !other->result &&
           Clock::now() - other->last_data < store_->times().stalled_transfer;
  };
  if (!result && max_transfers_ > 1 && std::any_of(transfers_.begin(), transfers_.end(), is_receiving)) {
    if (!transfer.is_abandoned) max_transfers_ = 1;
    result = {};
  }
  if (transfer.is_abandoned) result = {};
  transfer.result = std::move(result);
  changed_.notify_all();
}

Result<void> Ranges::fetch(Transfer& transfer, const std::stop_token& stop) {
  std::stop_source either;
  const std::stop_callback on_stop(stop, [&] { either.request_stop(); });
  const std::stop_callback on_end(store_->stop_token(), [&] { either.request_stop(); });
  BlockWriter writer(*transfer.file, list_.get(), batch_of(store_->transfers()),
                     [&](Blocks written) { record_written(transfer, written); });
  bool may_extend = true;
  const auto begin = [&] { return transfer.blocks.first * kBlock; };
  const auto end = [&] { return std::min(remote_->size(), transfer.blocks.last * kBlock); };
  const auto sink = [&](uint64_t offset, std::span<const std::byte> bytes) -> Result<bool> {
    if (bytes.empty()) {
      TRY_VOID(writer.write());
      const std::scoped_lock lock(mutex_);
      transfer.last_data = Clock::now();  // a request that waits for its turn has not stalled
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
  Result<void> fetched = remote_->fetch({begin(), end()}, sink, either.get_token(), transfer.urgency);
  if (auto written = writer.write(); fetched && !written) fetched = std::move(written);
  return verified_by_list(std::move(fetched));
}

// Adds the URL to the error of a block list.
Result<void> Ranges::verified_by_list(Result<void> result) const {
  if (result || result.error().code != Code::mismatch) return result;
  return failure(Code::mismatch, fmt::format("{}: {}", remote_->printable(), result.error().message));
}

// Makes it a transfer of the whole file, unless others download parts of it.
void Ranges::extend(Transfer& transfer) {
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

void Ranges::release_space(const BlockFilePtr& file) {
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

Result<BlobHandle> Ranges::when_idle(const BlockFilePtr& file, const std::function<Result<BlobHandle>()>& work) {
  const auto until = Clock::now() + kMaxClaimWait;
  std::unique_lock lock(mutex_);
  for (;;) {
    reap();
    if (!has_transfer(file)) {
      if (const auto claim = BlockFile::claim(file, {0, file->block_count()})) return work();
    }
    if (is_cancelled() || Clock::now() > until) return failure(Code::resource, "other processes are still writing it");
    changed_.wait_for(lock, kOtherProcessCheck);
  }
}

}  // namespace weightfs::blobs
