#include "cache/remote/delivery.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cache/blocks/block_map.h"

namespace weightfs::blobs {
namespace {

using store::kBlock;

// Parallel reads of one reader arrive out of order by less. A read reads at most so many bytes back.
constexpr uint64_t kMaxReadBack = 4 << 20;
constexpr uint64_t kReadBackBlocks = 16;  // blocks that are read back at a time

}  // namespace

Delivery::Delivery(uint64_t size) : size_(size), noted_(store::blocks_in(size)), missing_(store::blocks_in(size)) {
  begin_hash();
}

void Delivery::note(uint64_t generation, uint64_t offset, std::span<const std::byte> bytes, const ReadBack& read_back) {
  const uint64_t end = offset + bytes.size();
  for (uint64_t block = offset / kBlock; block < store::blocks_in(end); ++block)
    if (noted_.add(block)) --missing_;
  if (offset > 0 && (end <= hashed_ || offset > hashed_ + kMaxReadBack)) return;
  const std::scoped_lock lock(mutex_);
  // Other blocks were read in the place of the hashed ones.
  if (offset == 0 && generation_ != generation) begin_hash();
  if (hashed_ == 0) generation_ = generation;
  const auto add = [&](std::span<const std::byte> next) {
    if (generation_ != generation) generation_ = 0;
    hash_->update(next);
    hashed_ += next.size();
  };
  std::vector<std::byte> buffer;
  for (uint64_t budget = kMaxReadBack; hashed_ < size_;) {
    if (hashed_ >= offset && hashed_ < end) {
      add(bytes.subspan(static_cast<size_t>(hashed_ - offset)));
      continue;
    }
    const uint64_t size = std::min(budget, read_back_end(offset, end) - hashed_);
    buffer.resize(static_cast<size_t>(size));
    const size_t got = size == 0 ? 0 : read_back(hashed_, buffer);
    add(std::span(buffer).first(got));
    budget -= got;
    if (got == 0 || got < size) return;
  }
}

// The end of noted bytes that follow the hashed ones; none if the reader of [offset, end) will read them next.
uint64_t Delivery::read_back_end(uint64_t offset, uint64_t end) const {
  if (hashed_ == end && end % kBlock != 0) return hashed_;
  const uint64_t block = hashed_ / kBlock;
  const uint64_t noted_end = noted_.first_missing({block, std::min(block + kReadBackBlocks, store::blocks_in(size_))});
  const uint64_t to = std::min(noted_end * kBlock, hashed_ < offset ? offset : size_);
  return std::max<uint64_t>(to, hashed_);
}

std::optional<Digest> Delivery::digest() {
  const std::scoped_lock lock(mutex_);
  return finished();
}

std::optional<Digest> Delivery::digest_of(uint64_t generation) {
  const std::scoped_lock lock(mutex_);
  return generation_ == generation ? finished() : std::nullopt;
}

std::optional<Delivery::Begun> Delivery::take(uint64_t generation) {
  const std::scoped_lock lock(mutex_);
  if (generation_ != generation || digest_ || hashed_ < size_ / 2) return std::nullopt;
  Begun begun{std::move(*hash_), hashed_};
  begin_hash();
  return begun;
}

void Delivery::forget_noted() {
  is_all_noted_ = false;
  missing_ += noted_.clear();
}

void Delivery::restart_hash() {
  const std::scoped_lock lock(mutex_);
  begin_hash();
}

void Delivery::begin_hash() {
  hash_.emplace();
  digest_.reset();
  hashed_ = 0;
  generation_ = 0;
}

std::optional<Digest> Delivery::finished() {
  if (hashed_ < size_) return std::nullopt;
  if (!digest_) digest_ = hash_->finish();
  return digest_;
}

}  // namespace weightfs::blobs
