#include "base/verity/recent_blocks.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

namespace weightfs {
namespace {

using Key = std::pair<const void*, uint64_t>;  // a source's blocks, and the index

constexpr uint64_t kEntryBytes = 256;  // what an entry costs at least

// A block, computed by the first thread that locks it for that.
struct Cell {
  std::shared_mutex mutex;
  std::vector<std::byte> bytes;
  bool is_computed = false;

  void copy(uint64_t offset, std::span<std::byte> out) const {
    std::memcpy(out.data(), bytes.data() + offset, out.size());
  }
};

struct Entry {
  Key key;
  std::shared_ptr<Cell> cell;
  uint64_t bytes = 0;  // 0 until it is computed
};

// All blocks of the process, the one used last in front.
class Blocks {
 public:
  std::shared_ptr<Cell> cell(const Key& key) {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->cell;
    }
    entries_.push_front({key, std::make_shared<Cell>()});
    by_key_.emplace(key, entries_.begin());
    return entries_.front().cell;
  }

  // Memory for a block, from the block whose place it takes if that has the same size: new memory costs as much time as
  // half of the block's computation.
  std::vector<std::byte> memory(uint64_t size) {
    std::vector<std::byte> bytes;
    {
      const std::lock_guard lock(mutex_);
      for (auto at = entries_.end(); at != entries_.begin() && size_ + size > kMaxRecentBlocks;) {
        const auto entry = --at;
        if (entry->bytes == 0) continue;
        if (entry->bytes == size) take(*entry->cell, bytes);
        at = remove(entry);
      }
    }
    bytes.resize(size);
    return bytes;
  }

  // Records the size of a computed block, and evicts others.
  void computed(const Key& key, const std::shared_ptr<Cell>& cell, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end() || found->second->cell != cell) return;  // evicted or forgotten meanwhile
    found->second->bytes = std::max(bytes, kEntryBytes);
    size_ += found->second->bytes;
    while (size_ > kMaxRecentBlocks && entries_.size() > 1) remove(std::prev(entries_.end()));
  }

  void forget(const Key& key, const std::shared_ptr<Cell>& cell) {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found != by_key_.end() && found->second->cell == cell) remove(found->second);
  }

  void forget_all(const void* owner) {
    const std::lock_guard lock(mutex_);
    for (auto at = by_key_.lower_bound({owner, 0}); at != by_key_.end() && at->first.first == owner;)
      remove((at++)->second);
  }

  uint64_t size() {
    const std::lock_guard lock(mutex_);
    return size_;
  }

 private:
  using Place = std::list<Entry>::iterator;

  // Returns the place behind it.
  Place remove(Place entry) {
    size_ -= entry->bytes;
    by_key_.erase(entry->key);
    return entries_.erase(entry);
  }

  // Moves the bytes out of a cell, unless a thread reads it.
  static void take(Cell& cell, std::vector<std::byte>& bytes) {
    const std::unique_lock lock(cell.mutex, std::try_to_lock);
    if (!lock) return;
    bytes = std::move(cell.bytes);
    cell.is_computed = false;
  }

  std::mutex mutex_;
  std::list<Entry> entries_;
  std::map<Key, Place> by_key_;
  uint64_t size_ = 0;
};

// Never destroyed, because sources may outlive static objects.
Blocks& blocks() {
  static Blocks& all = *new Blocks;
  return all;
}

}  // namespace

RecentBlocks::~RecentBlocks() { blocks().forget_all(this); }

Result<void> RecentBlocks::read(uint64_t index, uint64_t size, const Fill& fill, uint64_t offset,
                                std::span<std::byte> out) const {
  const Key key{this, index};
  const auto cell = blocks().cell(key);
  {
    const std::shared_lock lock(cell->mutex);
    if (cell->is_computed) return cell->copy(offset, out), Result<void>();
  }
  const std::unique_lock lock(cell->mutex);
  if (!cell->is_computed) {
    cell->bytes = blocks().memory(size);
    if (const auto filled = fill(cell->bytes); !filled) {
      blocks().forget(key, cell);
      return filled;
    }
    cell->is_computed = true;
    blocks().computed(key, cell, size);
  }
  cell->copy(offset, out);
  return {};
}

std::shared_ptr<const void> RecentBlocks::hold() const {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (auto held = held_.lock()) return held;
  const std::shared_ptr<const void> held(this, [](const void* owner) { blocks().forget_all(owner); });
  held_ = held;
  return held;
}

uint64_t recent_blocks_size() { return blocks().size(); }

}  // namespace weightfs
