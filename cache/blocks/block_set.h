// The blocks of a file: ranges of them, and sets for threads that read it at once.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "base/result.h"

namespace weightfs::store {

/// Blocks [first, last).
struct Blocks {
  uint64_t first;
  uint64_t last;

  bool empty() const { return first >= last; }
  bool contains(uint64_t block) const { return block >= first && block < last; }
  friend bool operator==(const Blocks&, const Blocks&) = default;
};

/// The presence of the first blocks of `of`, at least one, in order.
using Presence = std::function<Result<std::vector<bool>>(Blocks of)>;

/// The first run of absent blocks in `within`; nothing if all are present. Asks for each block once, so a run is never
/// empty, whatever other threads and processes write meanwhile.
Result<std::optional<Blocks>> first_absent_run(Blocks within, const Presence& presence);

/// Blocks [0, `limit`) may be added. Thread-safe without locks. A large limit costs nothing: a page of memory is used
/// when one of its blocks is added.
class BlockSet {
 public:
  explicit BlockSet(uint64_t limit = 0)
      : count_(limit / kBits + 1), words_(static_cast<uint64_t*>(std::calloc(count_, sizeof(uint64_t))), &std::free) {
    if (words_ == nullptr) throw std::bad_alloc();
  }

  bool contains(uint64_t block) const {
    return (word_of(block).load(std::memory_order_acquire) >> block % kBits & 1) != 0;
  }
  /// The first block of `within` that is not in the set; its end if there is none.
  uint64_t first_missing(Blocks within) const {
    uint64_t block = within.first;
    while (block < within.last && contains(block)) ++block;
    return block;
  }

  /// Returns whether it was missing.
  bool add(uint64_t block) {
    const uint64_t bit = uint64_t{1} << block % kBits;
    return (word_of(block).fetch_or(bit, std::memory_order_acq_rel) & bit) == 0;
  }
  void remove(uint64_t block) { word_of(block).fetch_and(~(uint64_t{1} << block % kBits), std::memory_order_acq_rel); }
  /// Removes all, and returns how many there were. Only words with blocks are written: it uses no memory.
  uint64_t clear() {
    uint64_t removed = 0;
    for (size_t i = 0; i < count_; ++i) {
      const std::atomic_ref word(words_[i]);
      if (word.load(std::memory_order_relaxed) == 0) continue;
      removed += static_cast<uint64_t>(std::popcount(word.exchange(0, std::memory_order_acq_rel)));
    }
    return removed;
  }
  void add(Blocks blocks) {
    for (uint64_t block = blocks.first; block < blocks.last; ++block) add(block);
  }

 private:
  static constexpr uint64_t kBits = 64;

  std::atomic_ref<uint64_t> word_of(uint64_t block) const { return std::atomic_ref(words_[block / kBits]); }

  size_t count_;  // of words
  std::unique_ptr<uint64_t[], decltype(&std::free)> words_;
};

}  // namespace weightfs::store
