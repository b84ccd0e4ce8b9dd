// What the weightfs mounts of this machine say of themselves, without waiting for one that does not answer.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "base/os/mounts.h"

namespace weightfs {

enum class MountState {
  serving,
  dead,     ///< its server has gone
  silent,   ///< its server does not answer
  foreign,  ///< another user's, who keeps us out
  covered,  ///< something else is mounted over it, or over a directory above it
  unasked,  ///< it could not be asked: there was no process for that, or no memory
};

const char* name_of(MountState state);

/// What is known of a mount. Only the first two are known of every one.
struct MountReport {
  Mount mount;
  MountState state;
  std::string source;  ///< as the server says, else as the kernel does
  std::optional<pid_t> server;
  std::optional<timespec> since;
  std::optional<uint64_t> served_bytes;
  std::optional<uint64_t> fetched_bytes;
};

/// Asks each of them, all at once, for two seconds at most. As root each is asked in its user's name, who keeps even
/// root out. Only while the process has one thread.
std::vector<MountReport> ask_mounts(const std::vector<Mount>& mounts);

}  // namespace weightfs
