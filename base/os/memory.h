// The memory limit of this process for containers, its current use, and turns of threads that need much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace weightfs {

/// The number of bytes that containers may use in this process: the least of a quarter of the machine's memory, half of
/// memory.max (or memory.limit_in_bytes) of the process's cgroup and of each one above it, and half of the limit of the
/// address space (RLIMIT_AS). Read at most once a second.
uint64_t process_memory_limit();

/// The number of bytes that programs and the page cache can use without swapping (MemAvailable in /proc/meminfo), or
/// the limit of the process's cgroups if that is lower. Read at most once a second.
uint64_t available_memory();

/// Bytes that are allocated at the moment (mallinfo(3)).
uint64_t process_memory_used();

/// Makes the allocator keep less: blocks of 4 MiB and more, as a tree of a million tensors is built with, return to the
/// system when they are freed, and all threads share two arenas, as ten thousand models are read by several threads.
void save_memory();

/// Returns freed memory to the system if the allocator keeps 32 MiB more than after the last time. To be called every
/// second or so, by one thread.
void give_back_memory();

/// The minimum memory limit of a process's cgroups, in bytes; nothing if there is none. `cgroup` is the text of
/// /proc/PID/cgroup and `mountinfo` that of /proc/PID/mountinfo (cgroups(7)). Both hierarchies are searched, from the
/// process's own group up to the mounted root.
std::optional<uint64_t> cgroup_memory_limit(std::string_view cgroup, std::string_view mountinfo);

/// The turn of a thread that needs a megabyte for a moment, in a buffer or of mapped pages: so the read-ahead of many
/// readers does not need one for each request in flight. Taken before the memory is touched, at the latest by the
/// source that fills it, and released by the destructor.
class MemoryTurn {
 public:
  MemoryTurn() : outer_(std::exchange(current_, this)) {}
  ~MemoryTurn();
  MemoryTurn(const MemoryTurn&) = delete;
  MemoryTurn& operator=(const MemoryTurn&) = delete;

  /// Waits for the turn of the innermost object in the calling thread, but not long: a disk that does not respond must
  /// not delay the reads of others. Does nothing if there is no such object, or if it has its turn.
  static void take();

  /// The bytes from which on a read takes turns.
  static constexpr size_t kLarge = size_t{128} << 10;

 private:
  static inline thread_local MemoryTurn* current_ = nullptr;
  MemoryTurn* const outer_;
  bool is_taken_ = false;
  bool has_waited_ = false;
};

}  // namespace weightfs
