// How much memory this process may take for containers, and how much it takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weightfs {

/// Bytes that containers may take in this process: a quarter of the machine's memory, or half of what memory.max (or
/// memory.limit_in_bytes) of the process's cgroup or of one above it allows, or half of the limit of its address space
/// (RLIMIT_AS), whichever is least. Read once a second at most.
uint64_t process_memory_limit();

/// Bytes that are allocated at the moment (mallinfo(3)).
uint64_t process_memory_used();

/// The least limit that the cgroups of a process set, in bytes; nothing where none does. `cgroup` is the text of
/// /proc/PID/cgroup and `mountinfo` that of /proc/PID/mountinfo (cgroups(7)); both hierarchies are looked at, from the
/// process's own group up to the mounted root.
std::optional<uint64_t> cgroup_memory_limit(std::string_view cgroup, std::string_view mountinfo);

}  // namespace weightfs
