// A set of blocks of a file, for threads that read it at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace weightfs::store {

/// Blocks [0, `limit`) may be added. Thread-safe without locks. A large limit costs nothing: a page of memory is used
/// when one of its blocks is added.
class BlockSet {
 public:
  explicit BlockSet(uint64_t limit = 0)
      : words_(static_cast<uint64_t*>(std::calloc(limit / kBits + 1, sizeof(uint64_t))), &std::free) {
    if (words_ == nullptr) throw std::bad_alloc();
  }

  bool contains(uint64_t block) const {
    return (word_of(block).load(std::memory_order_acquire) >> block % kBits & 1) != 0;
  }
  void add(uint64_t block) { word_of(block).fetch_or(uint64_t{1} << block % kBits, std::memory_order_release); }

 private:
  static constexpr uint64_t kBits = 64;

  std::atomic_ref<uint64_t> word_of(uint64_t block) const { return std::atomic_ref(words_[block / kBits]); }

  std::unique_ptr<uint64_t[], decltype(&std::free)> words_;
};

}  // namespace weightfs::store
