#include "tests/fuzz/measure.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <ctime>

#ifdef WEIGHTFS_SANITIZED
// Declared by sanitizer/allocator_interface.h, which gcc's runtime has and its headers do not.
extern "C" size_t __sanitizer_get_allocated_size(const volatile void* block);
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, size_t),
                                                         void (*on_free)(const volatile void*));
#endif

namespace weightfs::test {
namespace {

std::atomic<int64_t> live = 0;
std::atomic<int64_t> most = 0;

void count_allocated(size_t size) {
  const int64_t now =
      live.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed) + static_cast<int64_t>(size);
  int64_t before = most.load(std::memory_order_relaxed);
  while (now > before && !most.compare_exchange_weak(before, now, std::memory_order_relaxed)) {
  }
}

void count_freed(size_t size) { live.fetch_sub(static_cast<int64_t>(size), std::memory_order_relaxed); }

#ifdef WEIGHTFS_SANITIZED
void on_malloc(const volatile void* block, size_t) { count_allocated(__sanitizer_get_allocated_size(block)); }
void on_free(const volatile void* block) {
  if (block != nullptr) count_freed(__sanitizer_get_allocated_size(block));
}
#endif

}  // namespace

AllocationCounter::AllocationCounter() {
#ifdef WEIGHTFS_SANITIZED
  [[maybe_unused]] static const int installed = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
#endif
  live = 0;
  most = 0;
}

uint64_t AllocationCounter::peak() const { return static_cast<uint64_t>(most.load()); }

uint64_t thread_cpu_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace weightfs::test

#ifndef WEIGHTFS_SANITIZED
// The functions that replace malloc (glibc manual, "Replacing malloc"), around those that glibc exports for it.
extern "C" {
// NOLINTBEGIN
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);

static void* counted(void* block) {
  if (block != nullptr) weightfs::test::count_allocated(::malloc_usable_size(block));
  return block;
}

void* malloc(size_t size) { return counted(__libc_malloc(size)); }
void* calloc(size_t count, size_t size) { return counted(__libc_calloc(count, size)); }
void* memalign(size_t alignment, size_t size) { return counted(__libc_memalign(alignment, size)); }
void* aligned_alloc(size_t alignment, size_t size) { return counted(__libc_memalign(alignment, size)); }
int posix_memalign(void** out, size_t alignment, size_t size) {
  void* const block = counted(__libc_memalign(alignment, size));
  if (block == nullptr) return ENOMEM;
  *out = block;
  return 0;
}
void* realloc(void* block, size_t size) {
  const size_t before = block == nullptr ? 0 : ::malloc_usable_size(block);
  void* const moved = __libc_realloc(block, size);
  if (moved != nullptr || size == 0) weightfs::test::count_freed(before);
  return counted(moved);
}
void free(void* block) {
  if (block != nullptr) weightfs::test::count_freed(::malloc_usable_size(block));
  __libc_free(block);
}
// NOLINTEND
}
#endif
