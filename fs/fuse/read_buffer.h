// The memory of READ requests.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>

namespace weightfs::fuse {

/// The maximum size of a READ (FUSE_MAX_MAX_PAGES pages).
inline constexpr size_t kMaxRead = size_t{1} << 20;

/// The memory for the bytes of a READ, whole pages: the kernel copies page by page. It is used again, because the kernel
/// would zero a new megabyte for each request. The memory that was used last is taken first, as it is in the processor's
/// cache; so idle threads need none. Only the first few are used again: the threads that wait for a server, each with a
/// buffer, do not touch the others before they have a turn. They are mapped, so they return to the system.
class ReadBuffer {
 public:
  ReadBuffer() {
    {
      const std::scoped_lock lock(mutex);
      if (unused_count > 0) bytes_ = std::move(unused[--unused_count]);
    }
    if (bytes_ != nullptr) return;
    void* const pages = ::mmap(nullptr, kMaxRead, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    bytes_.reset(static_cast<std::byte*>(pages));
    const std::scoped_lock lock(mutex);
    is_kept_ = kept_count < unused.size();
    if (is_kept_) ++kept_count;
  }
  ~ReadBuffer() {
    if (!is_kept_) return;
    const std::scoped_lock lock(mutex);
    unused[unused_count++] = std::move(bytes_);
  }
  ReadBuffer(const ReadBuffer&) = delete;
  ReadBuffer& operator=(const ReadBuffer&) = delete;

  std::span<std::byte> first(size_t size) const { return {bytes_.get(), std::min(size, kMaxRead)}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { ::munmap(bytes, kMaxRead); }
  };
  using Bytes = std::unique_ptr<std::byte[], Free>;
  static inline std::mutex mutex;  // guards the next three
  static inline std::array<Bytes, 12> unused;
  static inline size_t unused_count = 0;
  static inline size_t kept_count = 0;  // unused, or in use

  Bytes bytes_;
  bool is_kept_ = true;
};

}  // namespace weightfs::fuse
