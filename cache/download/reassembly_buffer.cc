#include "cache/download/reassembly_buffer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace weightfs::download {
namespace {

constexpr size_t kBlock = 256 * 1024;
constexpr std::chrono::milliseconds kWaitSlice{50};

}  // namespace

void Fifo::push(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    if (blocks_.empty() || blocks_.back().size() == kBlock) {
      blocks_.emplace_back();
      blocks_.back().reserve(kBlock);
    }
    std::vector<std::byte>& block = blocks_.back();
    const auto part = bytes.first(std::min(bytes.size(), kBlock - block.size()));
    block.insert(block.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
  }
}

size_t Fifo::pop(std::span<std::byte> out, size_t keep) {
  const size_t requested = std::min(out.size(), size_ - std::min(size_, keep));
  for (size_t done = 0; done < requested;) {
    const std::vector<std::byte>& block = blocks_.front();
    const size_t part = std::min(requested - done, block.size() - begin_);
    std::memcpy(out.data() + done, block.data() + begin_, part);
    done += part;
    begin_ += part;
    if (begin_ < block.size()) continue;
    blocks_.pop_front();
    begin_ = 0;
  }
  size_ -= requested;
  return requested;
}

ReassemblyBuffer::ReassemblyBuffer(uint64_t begins_at, std::optional<uint64_t> size,
                                   std::shared_ptr<MemoryBudget> memory, std::chrono::milliseconds idle)
    : share_(std::move(memory)),
      idle_(idle),
      begins_at_(begins_at),
      at_(begins_at),
      planned_(begins_at),
      end_(size.value_or(kUnknown)) {}

ReassemblyBuffer::ChunkPtr ReassemblyBuffer::first_unowned() const {
  for (const ChunkPtr& chunk : chunks_)
    if (chunk->owner == Owner::none && !is_complete(*chunk)) return chunk;
  return nullptr;
}

ReassemblyBuffer::ChunkPtr ReassemblyBuffer::plan(uint64_t end) {
  auto chunk = std::make_shared<Chunk>(Chunk{planned_, end});
  chunk->parallel = parallel_;
  chunks_.push_back(chunk);
  planned_ = end;
  return chunk;
}

// Planned chunks may be received even if the share shrank since.
bool ReassemblyBuffer::may_plan_chunk() const {
  const uint64_t most = std::clamp(share_.bytes(), kMaxAheadPerConnection, kMaxAhead);
  return parallel_ && planned_ < end_ && std::min(planned_ + kChunkSize, end_) <= at_ + most;
}

ReassemblyBuffer::ChunkPtr ReassemblyBuffer::assign(ChunkPtr chunk, Owner owner) {
  chunk->owner = owner;
  chunk->last_progress = Clock::now();
  return chunk;
}

void ReassemblyBuffer::wait_for_work(std::unique_lock<std::mutex>& lock) {
  ++waiting_;
  changed_.wait(lock);
  --waiting_;
}

bool ReassemblyBuffer::all_complete() const {
  return planned_ == end_ &&
         std::all_of(chunks_.begin(), chunks_.end(), [&](const auto& p) { return is_complete(*p); });
}

ReassemblyBuffer::ChunkPtr ReassemblyBuffer::take_first_missing() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (stopped_ || all_complete()) return nullptr;
    ChunkPtr chunk = first_unowned();
    if (chunk == nullptr && may_plan_chunk()) chunk = plan(std::min(planned_ + kChunkSize, end_));
    if (chunk == nullptr && !parallel_ && planned_ < end_) chunk = plan(end_);
    if (chunk != nullptr) return assign(std::move(chunk), Owner::leader);
    wait_for_work(lock);
  }
}

ReassemblyBuffer::ChunkPtr ReassemblyBuffer::take_parallel() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (stopped_ || !parallel_) return nullptr;
    ChunkPtr chunk = first_unowned();
    if (chunk == nullptr && planned_ == end_) return nullptr;
    if (chunk == nullptr && may_plan_chunk()) chunk = plan(std::min(planned_ + kChunkSize, end_));
    if (chunk != nullptr) return assign(std::move(chunk), Owner::helper);
    wait_for_work(lock);
  }
}

void ReassemblyBuffer::release(const ChunkPtr& chunk) {
  const std::scoped_lock lock(mutex_);
  chunk->owner = Owner::none;
  changed_.notify_all();
}

ReassemblyBuffer::PutResult ReassemblyBuffer::put(Chunk& chunk, std::span<const std::byte> bytes) {
  std::unique_lock lock(mutex_);
  size_t count = 0;
  while (count < bytes.size()) {
    changed_.wait(lock, [&] { return stopped_ || chunk.dropped || has_room(chunk) || chunk.at == chunk.end; });
    if (stopped_ || chunk.dropped) return {PutStatus::dropped, count};
    if (chunk.at == chunk.end) return {is_complete(chunk) ? PutStatus::chunk_full : PutStatus::past_end, count};
    const uint64_t room = at_ + (chunk.parallel ? kMaxAhead : kMaxAheadPerConnection) - chunk.at;
    const uint64_t part = std::min({static_cast<uint64_t>(bytes.size() - count), chunk.end - chunk.at, room});
    chunk.bytes.push(bytes.subspan(count, static_cast<size_t>(part)));
    chunk.at += part;
    chunk.last_progress = Clock::now();
    arrived_ += part;
    count += static_cast<size_t>(part);
    changed_.notify_all();
  }
  return {PutStatus::accepted, count};
}

void ReassemblyBuffer::confirm(Chunk& chunk) {
  const std::scoped_lock lock(mutex_);
  chunk.end_confirmed = true;
  changed_.notify_all();
}

std::pair<uint64_t, uint64_t> ReassemblyBuffer::bounds(const Chunk& chunk) const {
  const std::scoped_lock lock(mutex_);
  return {chunk.at, chunk.end};
}

bool ReassemblyBuffer::set_end(uint64_t end) {
  const std::scoped_lock lock(mutex_);
  if (end_ != kUnknown) return end == end_;
  for (const ChunkPtr& chunk : chunks_)
    if (chunk->at > end) return false;
  if (at_ > end) return false;
  for (const ChunkPtr& chunk : chunks_)
    if (chunk->end == kUnknown) chunk->end = end;
  if (planned_ == kUnknown) planned_ = end;
  end_ = end;
  changed_.notify_all();
  return true;
}

uint64_t ReassemblyBuffer::end() const {
  const std::scoped_lock lock(mutex_);
  return end_;
}

bool ReassemblyBuffer::split() {
  const std::scoped_lock lock(mutex_);
  if (parallel_) return planned_ < end_;
  if (end_ == kUnknown || chunks_.empty() || planned_ != end_) return false;
  Chunk& last = *chunks_.back();
  if (last.owner != Owner::leader || end_ - last.at < 2 * kChunkSize) return false;
  last.end = planned_ = last.at + kChunkSize;
  parallel_ = true;
  return true;
}

void ReassemblyBuffer::switch_to_single() {
  const std::scoped_lock lock(mutex_);
  parallel_ = false;
  auto missing = std::find_if(chunks_.begin(), chunks_.end(), [&](const auto& p) { return !is_complete(*p); });
  if (missing != chunks_.end()) {
    std::for_each(missing + 1, chunks_.end(), [](const ChunkPtr& chunk) { chunk->dropped = true; });
    chunks_.erase(missing + 1, chunks_.end());
    ChunkPtr& last = chunks_.back();
    if (last->owner == Owner::helper) last = detach_owner(*last);
    last->end = planned_ = end_;
    last->parallel = false;
  }
  changed_.notify_all();
}

// Replaces the chunk by one that can be assigned again for its missing bytes.
ReassemblyBuffer::ChunkPtr ReassemblyBuffer::detach_owner(Chunk& chunk) {
  auto free = std::make_shared<Chunk>(Chunk{chunk.at, chunk.end});
  free->parallel = chunk.parallel;
  free->bytes = std::exchange(chunk.bytes, {});
  chunk.dropped = true;
  return free;
}

// Chunks behind a stalled one fill the memory. Reassigned only once: with a server that starts slowly, every connection
// would stall in the same way.
void ReassemblyBuffer::reassign_stalled_chunk() {
  if (waiting_ == 0 || chunks_.empty()) return;
  ChunkPtr& first = chunks_.front();
  if (first->owner == Owner::none || first->reassigned || is_complete(*first) ||
      Clock::now() - first->last_progress < idle_)
    return;
  first = detach_owner(*first);
  first->reassigned = true;
  changed_.notify_all();
}

void ReassemblyBuffer::drop_unread() {
  const std::scoped_lock lock(mutex_);
  for (const ChunkPtr& chunk : chunks_) chunk->dropped = true;
  chunks_.clear();
  parallel_ = false;
  planned_ = at_;
  changed_.notify_all();
}

bool ReassemblyBuffer::restart_from_zero(Chunk& chunk) {
  const std::scoped_lock lock(mutex_);
  if (arrived_ > 0) return false;
  begins_at_ = at_ = chunk.at = 0;
  planned_ = chunk.end = end_;
  return true;
}

ReassemblyBuffer::Progress ReassemblyBuffer::progress() const {
  const std::scoped_lock lock(mutex_);
  uint64_t ready = 0;
  for (const ChunkPtr& chunk : chunks_) {
    ready += chunk->bytes.size();
    if (!is_complete(*chunk)) break;
  }
  return {arrived_, ready, end_ == kUnknown ? kUnknown : end_ - at_};
}

void ReassemblyBuffer::finish(Result<void> how) {
  const std::scoped_lock lock(mutex_);
  finished_ = std::move(how);
  changed_.notify_all();
}

void ReassemblyBuffer::stop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

size_t ReassemblyBuffer::pop(std::span<std::byte> out) {
  while (!chunks_.empty()) {
    Chunk& first = *chunks_.front();
    const size_t got = first.bytes.pop(out, first.at == end_ && !first.end_confirmed ? 1 : 0);
    at_ += got;
    const bool is_done = first.bytes.size() == 0 && is_complete(first);
    if (is_done) chunks_.pop_front();
    if (got > 0 || !is_done) return got;
  }
  return 0;
}

std::optional<Result<size_t>> ReassemblyBuffer::next(std::span<std::byte> out) {
  std::unique_lock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + kWaitSlice;
  for (;;) {
    if (const size_t got = pop(out); got > 0) {
      changed_.notify_all();
      return got;
    }
    if (at_ == end_) return Result<size_t>(0);
    if (finished_ && !*finished_) return Result<size_t>(tl::unexpected((*finished_).error()));
    if (changed_.wait_until(lock, until) == std::cv_status::no_timeout) continue;
    reassign_stalled_chunk();
    return std::nullopt;
  }
}

uint64_t ReassemblyBuffer::begins_at() const {
  const std::scoped_lock lock(mutex_);
  return begins_at_;
}

}  // namespace weightfs::download
