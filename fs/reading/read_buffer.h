// The memory of reads.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <span>

namespace weightfs {

/// The maximum size of a read, in bytes (FUSE_MAX_MAX_PAGES pages).
inline constexpr size_t kMaxRead = size_t{1} << 20;

/// The memory for the bytes of a read, whole pages: the kernel copies page by page. It is used again, because the
/// kernel would zero a new megabyte for each read. The memory that was used last is taken first, as it is in the
/// processor's cache. Only the first kKept buffers are used again: the threads that wait for a server, each with a
/// buffer, do not touch the others before they have a turn (MemoryTurn). Those are mapped for one read, and return to
/// the system.
class ReadBuffer {
 public:
  static constexpr size_t kKept = 8;

  /// Throws std::bad_alloc.
  ReadBuffer();
  ~ReadBuffer();
  ReadBuffer(const ReadBuffer&) = delete;
  ReadBuffer& operator=(const ReadBuffer&) = delete;

  std::span<std::byte> first(size_t size) const { return {bytes_, std::min(size, kMaxRead)}; }

 private:
  static inline std::array<std::atomic<std::byte*>, kKept> unused{};  // the memory that was used last is at the front
  static inline std::atomic<size_t> kept = 0;                         // unused, or in use

  std::byte* bytes_ = nullptr;
  bool is_kept_ = true;
};

}  // namespace weightfs
