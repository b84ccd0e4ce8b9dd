#include "fs/reading/read_buffer.h"

#include <sys/mman.h>

#include <new>

namespace weightfs {

ReadBuffer::ReadBuffer() {
  for (std::atomic<std::byte*>& slot : unused)
    if ((bytes_ = slot.exchange(nullptr, std::memory_order_acquire)) != nullptr) return;
  void* const pages = ::mmap(nullptr, kMaxRead, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  bytes_ = static_cast<std::byte*>(pages);
  is_kept_ = kept.fetch_add(1, std::memory_order_relaxed) < kKept;
  if (!is_kept_) kept.fetch_sub(1, std::memory_order_relaxed);
}

ReadBuffer::~ReadBuffer() {
  for (std::atomic<std::byte*>& slot : unused) {
    std::byte* empty = nullptr;
    if (!is_kept_) break;
    if (slot.compare_exchange_strong(empty, bytes_, std::memory_order_release, std::memory_order_relaxed)) return;
  }
  ::munmap(bytes_, kMaxRead);
}

}  // namespace weightfs
