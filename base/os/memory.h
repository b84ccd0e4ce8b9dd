// The memory limit of this process for containers, and its current use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

/// The minimum memory limit of a process's cgroups, in bytes; nothing if there is none. `cgroup` is the text of
/// /proc/PID/cgroup and `mountinfo` that of /proc/PID/mountinfo (cgroups(7)). Both hierarchies are searched, from the
/// process's own group up to the mounted root.
std::optional<uint64_t> cgroup_memory_limit(std::string_view cgroup, std::string_view mountinfo);

}  // namespace weightfs
