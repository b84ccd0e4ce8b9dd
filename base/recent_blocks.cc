#include "base/recent_blocks.h"

#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace weightfs {
namespace {

using Block = RecentBlocks::Block;
using Key = std::pair<const void*, uint64_t>;  // a source's blocks, and the index

constexpr uint64_t kEntryBytes = 256;  // what an entry costs besides its block

// A block, computed by the first thread that locks it.
struct Cell {
  std::mutex mutex;
  Block block;
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

  // Records the size of a computed block, and evicts others.
  void computed(const Key& key, const std::shared_ptr<Cell>& cell, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end() || found->second->cell != cell) return;  // evicted or forgotten meanwhile
    found->second->bytes = bytes + kEntryBytes;
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
  void remove(std::list<Entry>::iterator entry) {
    size_ -= entry->bytes;
    by_key_.erase(entry->key);
    entries_.erase(entry);
  }

  std::mutex mutex_;
  std::list<Entry> entries_;
  std::map<Key, std::list<Entry>::iterator> by_key_;
  uint64_t size_ = 0;
};

// Never destroyed, because sources may outlive static objects.
Blocks& blocks() {
  static Blocks& all = *new Blocks;
  return all;
}

}  // namespace

RecentBlocks::~RecentBlocks() { blocks().forget_all(this); }

Result<Block> RecentBlocks::get(uint64_t index, const std::function<Result<std::vector<std::byte>>()>& make) const {
  const Key key{this, index};
  const auto cell = blocks().cell(key);
  const std::lock_guard lock(cell->mutex);
  if (cell->block != nullptr) return cell->block;
  auto made = make();
  if (!made) {
    blocks().forget(key, cell);
    return tl::unexpected(made.error());
  }
  cell->block = std::make_shared<const std::vector<std::byte>>(std::move(*made));
  blocks().computed(key, cell, cell->block->size());
  return cell->block;
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
